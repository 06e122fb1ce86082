/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of groups (SPEC section 4). Lanes are groups: a strip of 16 makes two vectors, which up to six rows of q
 * share, heads of one query or of several. Groups are counted through the tiles, as in the output, so a strip may begin
 * in one tile and end in the next. */
#include "kernels/x86/avx2.h"

#include <string.h>

enum { STRIP = 16, ROWS = 6, GATHER_DIMS = 128, STREAMS = 4, FOUR = STREAMS * STRIP, LINE_BYTES = 64 };

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

/* The keys of a strip: dimension d of lanes 0..7 at low[d * stride], of lanes 8..15 at high[d * stride]. While four
 * strips are scored the next four are fetched side by side, a quarter of their rows during each: so many streams are
 * read faster than one. */
typedef struct keys {
    const void *low, *high;
    size_t stride;
    const char *next[STREAMS]; /* the quarter; NULL: nothing is fetched */
} keys;

/* One dimension of up to six rows of q. */
QSA_INLINE void add_products(const float *q, size_t q_stride, uint32_t rows, qsa_pair key, qsa_pair *s)
{
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        __m256 qd = _mm256_broadcast_ss(q + r * q_stride);
        s[r].v[0] = _mm256_fmadd_ps(qd, key.v[0], s[r].v[0]);
        s[r].v[1] = _mm256_fmadd_ps(qd, key.v[1], s[r].v[1]);
    }
}

/* The next two rows of a strip: one line, or two. */
QSA_INLINE void fetch_rows(const char *rows, size_t row_bytes)
{
    _mm_prefetch(rows, _MM_HINT_T0);
    if (row_bytes > LINE_BYTES / 2)
        _mm_prefetch(rows + row_bytes, _MM_HINT_T0);
}

/* Goes on with the chains of `rows` rows, q [rows][q_stride], over `dims` dimensions. */
QSA_INLINE void chains(const float *q, size_t q_stride, uint32_t rows, uint32_t dims, const keys *k,
                       enum qsa_element type, qsa_pair *sums)
{
    const size_t row_bytes = k->stride * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    qsa_pair s[ROWS];
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        s[r] = sums[r];
    size_t d = 0;
    if (k->next[0])
        for (size_t fetched = 0; d + 2 * STREAMS <= dims; fetched += 2 * row_bytes) {
            for (int i = 0; i < STREAMS; i++, d += 2) {
                fetch_rows(k->next[i] + fetched, row_bytes);
                add_products(q + d, q_stride, rows, qsa_pair_load_two(k->low, k->high, d * k->stride, type), s);
                add_products(q + d + 1, q_stride, rows, qsa_pair_load_two(k->low, k->high, (d + 1) * k->stride, type),
                             s);
            }
        }
    for (; d < dims; d++)
        add_products(q + d, q_stride, rows, qsa_pair_load_two(k->low, k->high, d * k->stride, type), s);
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        sums[r] = s[r];
}

static void chains_f32(const float *q, size_t q_stride, uint32_t rows, uint32_t dims, const keys *k, qsa_pair *sums)
{
    QSA_WITH_CONSTANT_ROWS(rows, chains(q, q_stride, ROWS_CONSTANT, dims, k, QSA_ELEMENT_F32, sums))
}

static void chains_bf16(const float *q, size_t q_stride, uint32_t rows, uint32_t dims, const keys *k, qsa_pair *sums)
{
    QSA_WITH_CONSTANT_ROWS(rows, chains(q, q_stride, ROWS_CONSTANT, dims, k, QSA_ELEMENT_BF16, sums))
}

/* Dimensions begin .. begin + dims of a strip, widened: out [dims][STRIP]; lanes beyond the last group are zero. */
static void gather(const problem *p, size_t first, uint32_t begin, uint32_t dims, float *out)
{
    memset(out, 0, (size_t)dims * STRIP * sizeof *out);
    for (size_t lane = 0; lane < STRIP && first + lane < p->total; lane++) {
        const void *tile = p->tiles[(first + lane) / p->groups];
        size_t group = (first + lane) % p->groups;
        for (uint32_t d = 0; d < dims; d++)
            out[d * STRIP + lane] = qsa_element_at(tile, (size_t)(begin + d) * p->groups + group, p->type);
    }
}

/* For groups that do not lie in eights: any number of groups per tile. */
static void dots_scattered(const problem *p, size_t first, const float *q, uint32_t rows, qsa_pair *sums)
{
    float buffer[GATHER_DIMS * STRIP];
    const keys k = {.low = buffer, .high = buffer + STRIP / 2, .stride = STRIP};
    for (uint32_t begin = 0; begin < p->dim; begin += GATHER_DIMS) {
        uint32_t dims = p->dim - begin < GATHER_DIMS ? p->dim - begin : GATHER_DIMS;
        gather(p, first, begin, dims, buffer);
        chains_f32(q + begin, p->dim, rows, dims, &k, sums);
    }
}

/* Where eight groups from `first` on begin, within their tile. */
static const void *eight_at(const problem *p, size_t first)
{
    size_t size = p->type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float);
    return (const char *)p->tiles[first / p->groups] + first % p->groups * size;
}

/* The strip from `first` on, for tiles whose groups are a multiple of eight, and what is fetched meanwhile. */
static keys keys_at(const problem *p, size_t first, bool fetches)
{
    keys k = {.low = eight_at(p, first), .stride = p->groups};
    k.high = first + 8 < p->total ? eight_at(p, first + 8) : k.low;
    const size_t quarter = first % FOUR / STRIP, next = first - first % FOUR + FOUR;
    const size_t element = p->type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float);
    for (size_t i = 0; fetches && next < p->total && i < STREAMS; i++) {
        const size_t group = next + i * STRIP < p->total ? next + i * STRIP : next;
        k.next[i] = (const char *)eight_at(p, group) + p->dim / 4 * quarter * p->groups * element;
    }
    return k;
}

static void dots_direct(const problem *p, const keys *k, const float *q, uint32_t rows, qsa_pair *sums)
{
    if (p->type == QSA_ELEMENT_F32) {
        chains_f32(q, p->dim, rows, p->dim, k, sums);
        return;
    }
    chains_bf16(q, p->dim, rows, p->dim, k, sums);
    for (uint32_t r = 0; r < rows; r++)
        sums[r] = qsa_natural_order(sums[r], QSA_ELEMENT_BF16);
}

/* Dots of the strip from `first` on with `rows` rows of q, at most ROWS, in the order of memory. The first pass
 * fetches. */
static void dots(const problem *p, size_t first, size_t pass, const float *q, uint32_t rows, qsa_pair *sums)
{
    for (uint32_t r = 0; r < rows; r++)
        sums[r].v[0] = sums[r].v[1] = _mm256_setzero_ps();
    if (p->groups % 8 != 0) {
        dots_scattered(p, first, q, rows, sums);
        return;
    }
    const keys k = keys_at(p, first, pass == 0);
    dots_direct(p, &k, q, rows, sums);
}

static void store(const problem *p, size_t query, size_t first, qsa_pair score)
{
    float *to = p->out + query * p->total + first;
    size_t count = p->total - first;
    qsa_store_first(to, count, score.v[0]);
    if (count > 8)
        qsa_store_first(to + 8, count - 8, score.v[1]);
}

/* All queries over the strip from `first` on: later ones find the keys in cache. */
static void score_strip(const problem *p, size_t first)
{
    const __m256 zero = _mm256_setzero_ps();
    const size_t passes = qsa_passes(p->rows, ROWS);
    qsa_pair score = {{zero, zero}};
    uint32_t head = 0;
    size_t query = 0;
    for (size_t pass = 0; pass < passes; pass++) {
        size_t begin = p->rows * pass / passes, end = p->rows * (pass + 1) / passes;
        qsa_pair sums[ROWS];
        dots(p, first, pass, p->q + begin * p->dim, (uint32_t)(end - begin), sums);
        for (size_t r = begin; r < end; r++) {
            for (int v = 0; v < 2; v++) /* max may turn -0 into +0: adding either to a score changes nothing */
                score.v[v] = _mm256_add_ps(score.v[v], _mm256_max_ps(sums[r - begin].v[v], zero));
            if (++head == p->heads) {
                store(p, query++, first, score);
                score = (qsa_pair){{zero, zero}};
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

void qsa_score_f32__avx2(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                         const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    const problem p = {queries, (size_t)n_queries * heads, heads,           dim, tiles,
                       groups,  (size_t)n_tiles * groups,  QSA_ELEMENT_F32, out};
    score(&p);
}

void qsa_score_bf16__avx2(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                          const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    const problem p = {
        queries, (size_t)n_queries * heads, heads, dim, tiles, groups, (size_t)n_tiles * groups, QSA_ELEMENT_BF16, out};
    score(&p);
}
