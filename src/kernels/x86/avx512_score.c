/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of groups (SPEC section 4), for tiles whose groups are a multiple of 16. Lanes are groups: a strip of 32,
 * which up to twelve rows of q share, heads of one query or of several. Groups are counted through the tiles, as in the
 * output, so a strip of the released shape is two tiles. */
#include "kernels/x86/avx512.h"

/* Three rows of q share an address register: the twelve addresses of twelve rows are more than there are. */
enum { HALF = 16, STRIP = 32, ROWS = 12, THREE = 3, LINE_BYTES = 64 };
/* While a set of strips is scored, the next set is fetched, all its halves side by side: so many streams are read
 * faster than one, and eight faster than four. */
enum { STREAMS = 8, SET = STREAMS * HALF, SET_STRIPS = SET / STRIP };

/* What is scored, as the caller has it. */
typedef struct problem {
    const float *q; /* [rows][dim], rows = queries x heads */
    size_t rows;
    uint32_t heads, dim;
    const void *const *tiles; /* -> [dim][groups] */
    uint32_t groups;
    size_t total; /* groups in all tiles */
    enum qsa_element type;
    float *out; /* [queries][total] */
} problem;

/* The keys of a strip, in two halves: dimension d at half[i][d * stride]. */
typedef struct keys {
    const void *half[2];
    size_t stride;
    const char *next[STREAMS]; /* NULL: nothing is fetched. The strip's share of their rows */
} keys;

QSA_INLINE qsa_wide_pair load_keys(const keys *k, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_wide_from_bf16(qsa_join(_mm256_loadu_si256((const __m256i *)((const uint16_t *)k->half[0] + i)),
                                           _mm256_loadu_si256((const __m256i *)((const uint16_t *)k->half[1] + i))));
    return (qsa_wide_pair){
        {_mm512_loadu_ps((const float *)k->half[0] + i), _mm512_loadu_ps((const float *)k->half[1] + i)}};
}

/* One dimension of up to twelve rows. */
QSA_INLINE void add_products(const float *const *three, size_t row, uint32_t rows, size_t d, qsa_wide_pair key,
                             qsa_wide_pair *s)
{
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        __m512 qd = _mm512_set1_ps(three[r / THREE][r % THREE * row + d]);
        s[r].v[0] = _mm512_fmadd_ps(qd, key.v[0], s[r].v[0]);
        s[r].v[1] = _mm512_fmadd_ps(qd, key.v[1], s[r].v[1]);
    }
}

/* The next two rows of a half: one line, or two. */
QSA_INLINE void fetch_rows(const char *rows, size_t row_bytes)
{
    _mm_prefetch(rows, _MM_HINT_T0);
    if (row_bytes > LINE_BYTES / 2)
        _mm_prefetch(rows + row_bytes, _MM_HINT_T0);
}

/* The dots of `rows` rows of q. */
QSA_INLINE void dots(const float *q, uint32_t rows, uint32_t dim, const keys *k, enum qsa_element type,
                     qsa_wide_pair *sums)
{
    const size_t row_bytes = k->stride * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float)), row = dim;
    qsa_wide_pair s[ROWS];
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        s[r].v[0] = s[r].v[1] = _mm512_setzero_ps();
    const float *three[ROWS / THREE];
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r += THREE)
        three[r / THREE] = q + r * row;
    size_t d = 0;
    if (k->next[0])
        for (size_t fetched = 0; d + STREAMS <= dim; d += STREAMS, fetched += 2 * row_bytes) {
            QSA_UNROLL
            for (size_t i = 0; i < STREAMS; i++) {
                fetch_rows(k->next[i] + fetched, row_bytes);
                add_products(three, row, rows, d + i, load_keys(k, (d + i) * k->stride, type), s);
            }
        }
    for (; d < dim; d++)
        add_products(three, row, rows, d, load_keys(k, d * k->stride, type), s);
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        sums[r] = qsa_wide_natural_order(s[r], type);
}

static void dots_f32(const float *q, uint32_t rows, uint32_t dim, const keys *k, qsa_wide_pair *sums)
{
    QSA_WITH_CONSTANT_ROWS_12(rows, dots(q, ROWS_CONSTANT, dim, k, QSA_ELEMENT_F32, sums))
}

static void dots_bf16(const float *q, uint32_t rows, uint32_t dim, const keys *k, qsa_wide_pair *sums)
{
    QSA_WITH_CONSTANT_ROWS_12(rows, dots(q, ROWS_CONSTANT, dim, k, QSA_ELEMENT_BF16, sums))
}

/* Where 16 groups from `first` on begin, within their tile; the last 16 if there are no more. */
static const void *half_at(const problem *p, size_t first)
{
    size_t size = p->type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float);
    size_t group = first < p->total ? first : p->total - HALF;
    return (const char *)p->tiles[group / p->groups] + group % p->groups * size;
}

static void store(const problem *p, size_t query, size_t first, qsa_wide_pair score)
{
    float *to = p->out + query * p->total + first;
    _mm512_storeu_ps(to, score.v[0]);
    if (first + HALF < p->total)
        _mm512_storeu_ps(to + HALF, score.v[1]);
}

/* The strip from `first` on, and its share of the set after its own. */
static keys keys_at(const problem *p, size_t first)
{
    keys k = {.half = {half_at(p, first), half_at(p, first + HALF)}, .stride = p->groups};
    const size_t element = p->type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float);
    const size_t next = first / SET * SET + SET, fetched = first % SET / STRIP * (p->dim / SET_STRIPS);
    for (size_t i = 0; next < p->total && i < STREAMS; i++)
        k.next[i] = (const char *)half_at(p, next + i * HALF) + fetched * p->groups * element;
    return k;
}

/* All queries over the strip from `first` on: later ones find the keys in cache. */
static void score_strip(const problem *p, size_t first)
{
    const __m512 zero = _mm512_setzero_ps();
    keys k = keys_at(p, first);
    qsa_wide_pair score = {{zero, zero}};
    uint32_t head = 0;
    size_t query = 0;
    for (size_t begin = 0, end; begin < p->rows; begin = end) {
        end = begin + qsa_rows_together(p->rows - begin);
        qsa_wide_pair sums[ROWS];
        if (p->type == QSA_ELEMENT_BF16)
            dots_bf16(p->q + begin * p->dim, (uint32_t)(end - begin), p->dim, &k, sums);
        else
            dots_f32(p->q + begin * p->dim, (uint32_t)(end - begin), p->dim, &k, sums);
        k.next[0] = NULL; /* once is enough */
        for (size_t r = begin; r < end; r++) {
            for (int v = 0; v < 2; v++) /* max may turn -0 into +0: adding either to a score changes nothing */
                score.v[v] = _mm512_add_ps(score.v[v], _mm512_max_ps(sums[r - begin].v[v], zero));
            if (++head == p->heads) {
                store(p, query++, first, score);
                score = (qsa_wide_pair){{zero, zero}};
                head = 0;
            }
        }
    }
}

static void score(const problem *p)
{
    for (size_t first = 0; first < p->total; first += STRIP)
        score_strip(p, first);
}

void qsa_score_f32__avx512(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                           const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    if (groups % HALF != 0) {
        qsa_score_f32__avx2(queries, n_queries, heads, dim, tiles, n_tiles, groups, out);
        return;
    }
    const problem p = {queries, (size_t)n_queries * heads, heads,           dim, tiles,
                       groups,  (size_t)n_tiles * groups,  QSA_ELEMENT_F32, out};
    score(&p);
}

void qsa_score_bf16__avx512(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                            const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    if (groups % HALF != 0) {
        qsa_score_bf16__avx2(queries, n_queries, heads, dim, tiles, n_tiles, groups, out);
        return;
    }
    const problem p = {
        queries, (size_t)n_queries * heads, heads, dim, tiles, groups, (size_t)n_tiles * groups, QSA_ELEMENT_BF16, out};
    score(&p);
}
