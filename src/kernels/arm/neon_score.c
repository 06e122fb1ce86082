/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of groups (SPEC section 4). Lanes are groups: a strip of 16 makes four vectors, which up to six rows of q
 * share, heads of one query or of several. Groups are counted through the tiles, as in the output, so a strip may begin
 * in one tile and end in another. */
#include "kernels/arm/neon.h"

enum { VECTORS = 4, STRIP = VECTORS * QSA_LANES, ROWS = 6, GATHER_DIMS = 128 };

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

/* The keys of a strip, four lanes each: dimension d at four[i][d * stride]. `next` is wanted soon. */
typedef struct keys {
    const void *four[VECTORS];
    const void *next;
    size_t stride;
} keys;

typedef struct sums {
    float32x4_t v[VECTORS];
} sums;

/* Goes on with the chains of `rows` rows, q [rows][q_stride], over `dims` dimensions. */
QSA_INLINE void chains(const float *q, size_t q_stride, uint32_t rows, uint32_t dims, const keys *k,
                       enum qsa_element type, sums *in_out)
{
    const size_t key_bytes = k->stride * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    sums s[ROWS];
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        s[r] = in_out[r];
    for (uint32_t d = 0; d < dims; d++) {
        float32x4_t key[VECTORS];
        __builtin_prefetch((const char *)k->next + d * key_bytes);
        QSA_UNROLL
        for (int i = 0; i < VECTORS; i++)
            key[i] = qsa_four_load(k->four[i], d * k->stride, type);
        QSA_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            QSA_UNROLL
        for (int i = 0; i < VECTORS; i++)
            s[r].v[i] = vfmaq_n_f32(s[r].v[i], key[i], q[r * q_stride + d]);
    }
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        in_out[r] = s[r];
}

static void chains_f32(const float *q, size_t q_stride, uint32_t rows, uint32_t dims, const keys *k, sums *in_out)
{
    QSA_WITH_CONSTANT_ROWS(rows, chains(q, q_stride, ROWS_CONSTANT, dims, k, QSA_ELEMENT_F32, in_out))
}

static void chains_bf16(const float *q, size_t q_stride, uint32_t rows, uint32_t dims, const keys *k, sums *in_out)
{
    QSA_WITH_CONSTANT_ROWS(rows, chains(q, q_stride, ROWS_CONSTANT, dims, k, QSA_ELEMENT_BF16, in_out))
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

/* For groups that do not lie in fours: any number of groups per tile. */
static void dots_scattered(const problem *p, size_t first, const float *q, uint32_t rows, sums *out)
{
    float buffer[GATHER_DIMS * STRIP];
    const keys k = {{buffer, buffer + QSA_LANES, buffer + 2 * QSA_LANES, buffer + 3 * QSA_LANES}, buffer, STRIP};
    for (uint32_t begin = 0; begin < p->dim; begin += GATHER_DIMS) {
        uint32_t dims = p->dim - begin < GATHER_DIMS ? p->dim - begin : GATHER_DIMS;
        gather(p, first, begin, dims, buffer);
        chains_f32(q + begin, p->dim, rows, dims, &k, out);
    }
}

/* Where four groups from `first` on begin, within their tile; past the last group, the last four. */
static const void *four_at(const problem *p, size_t first)
{
    const size_t size = p->type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float);
    const size_t group = first < p->total ? first : p->total - QSA_LANES;
    return (const char *)p->tiles[group / p->groups] + group % p->groups * size;
}

/* For tiles whose groups are a multiple of four. */
static void dots_direct(const problem *p, size_t first, const float *q, uint32_t rows, sums *out)
{
    keys k = {.next = four_at(p, first + STRIP), .stride = p->groups};
    for (size_t i = 0; i < VECTORS; i++)
        k.four[i] = four_at(p, first + i * QSA_LANES);
    if (p->type == QSA_ELEMENT_BF16)
        chains_bf16(q, p->dim, rows, p->dim, &k, out);
    else
        chains_f32(q, p->dim, rows, p->dim, &k, out);
}

/* Dots of the strip from `first` on with `rows` rows of q, at most ROWS. */
static void dots(const problem *p, size_t first, const float *q, uint32_t rows, sums *out)
{
    for (uint32_t r = 0; r < rows; r++)
        out[r] = (sums){{vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)}};
    if (p->groups % QSA_LANES == 0)
        dots_direct(p, first, q, rows, out);
    else
        dots_scattered(p, first, q, rows, out);
}

/* The strip's scores for one query, as far as there are groups. */
static void store(const problem *p, size_t query, size_t first, const float score[STRIP])
{
    const size_t left = p->total - first;
    memcpy(p->out + query * p->total + first, score, (left < STRIP ? left : STRIP) * sizeof *score);
}

/* All queries over the strip from `first` on: later ones find the keys in cache. */
static void score_strip(const problem *p, size_t first)
{
    const size_t passes = qsa_passes(p->rows, ROWS);
    float score[STRIP] = {0};
    uint32_t head = 0;
    size_t query = 0;
    for (size_t pass = 0; pass < passes; pass++) {
        size_t begin = p->rows * pass / passes, end = p->rows * (pass + 1) / passes;
        sums of_row[ROWS];
        dots(p, first, p->q + begin * p->dim, (uint32_t)(end - begin), of_row);
        for (size_t r = begin; r < end; r++) {
            for (size_t i = 0; i < VECTORS; i++) { /* max may turn -0 into +0: adding either changes nothing */
                float *four = score + i * QSA_LANES;
                vst1q_f32(four, vaddq_f32(vld1q_f32(four), vmaxq_f32(of_row[r - begin].v[i], vdupq_n_f32(0.0f))));
            }
            if (++head == p->heads) {
                store(p, query++, first, score);
                memset(score, 0, sizeof score);
                head = 0;
            }
        }
    }
}

static void score(problem p)
{
    for (size_t first = 0; first < p.total; first += STRIP)
        score_strip(&p, first);
}

void qsa_score_f32__neon(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                         const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    score((problem){queries, (size_t)n_queries * heads, heads, dim, tiles, groups, (size_t)n_tiles * groups,
                    QSA_ELEMENT_F32, out});
}

void qsa_score_bf16__neon(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                          const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    score((problem){queries, (size_t)n_queries * heads, heads, dim, tiles, groups, (size_t)n_tiles * groups,
                    QSA_ELEMENT_BF16, out});
}
