/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of groups (SPEC section 4). Lanes are groups: a strip of 16, whose dots with up to four heads are eight
 * accumulators, as many as keep two fma units busy. Groups are counted through the tiles, as in the output, so a strip
 * may begin in one tile and end in the next. */
#include "kernels/x86/avx2.h"

#include <string.h>

enum { STRIP = 16, HEADS = 4, GATHER_DIMS = 128 };

/* What is scored, as the caller has it. */
typedef struct problem {
    const float *q; /* [heads][dim], one query */
    uint32_t heads, dim;
    const void *const *tiles; /* -> [dim][groups] */
    uint32_t groups;
    size_t total; /* groups in all tiles */
    enum qsa_element type;
} problem;

/* The keys of a strip: dimension d of lanes 0..7 at low[d * stride], of lanes 8..15 at high[d * stride]. `next` is laid
 * out as low is, and wanted soon. */
typedef struct keys {
    const void *low, *high, *next;
    size_t stride;
} keys;

typedef struct dots {
    qsa_pair head[HEADS];
} dots;

/* Goes on with the chains of `heads` heads, q [heads][q_stride], over `dims` dimensions. */
QSA_INLINE void chains(const float *q, size_t q_stride, uint32_t heads, uint32_t dims, keys k, enum qsa_element type,
                       dots *sums)
{
    const size_t row_bytes = k.stride * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    qsa_pair s[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        s[h] = sums->head[h];
    for (uint32_t d = 0; d < dims; d++) {
        qsa_pair key = qsa_pair_load_two(k.low, k.high, d * k.stride, type);
        _mm_prefetch((const char *)k.next + d * row_bytes, _MM_HINT_T0);
        QSA_UNROLL
        for (uint32_t h = 0; h < heads; h++) {
            __m256 qd = _mm256_broadcast_ss(q + h * q_stride + d);
            s[h].v[0] = _mm256_fmadd_ps(qd, key.v[0], s[h].v[0]);
            s[h].v[1] = _mm256_fmadd_ps(qd, key.v[1], s[h].v[1]);
        }
    }
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums->head[h] = s[h];
}

QSA_INLINE void chains_of(const float *q, size_t q_stride, uint32_t heads, uint32_t dims, keys k, enum qsa_element type,
                          dots *sums)
{
    switch (heads) {
    case 1:
        chains(q, q_stride, 1, dims, k, type, sums);
        break;
    case 2:
        chains(q, q_stride, 2, dims, k, type, sums);
        break;
    case 3:
        chains(q, q_stride, 3, dims, k, type, sums);
        break;
    default:
        chains(q, q_stride, 4, dims, k, type, sums);
        break;
    }
}

static void chains_f32(const float *q, size_t q_stride, uint32_t heads, uint32_t dims, keys k, dots *sums)
{
    chains_of(q, q_stride, heads, dims, k, QSA_ELEMENT_F32, sums);
}

static void chains_bf16(const float *q, size_t q_stride, uint32_t heads, uint32_t dims, keys k, dots *sums)
{
    chains_of(q, q_stride, heads, dims, k, QSA_ELEMENT_BF16, sums);
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

/* Dots with heads h .. h + heads, for groups that do not lie in eights: any number of groups per tile. */
static void dots_scattered(const problem *p, size_t first, uint32_t h, uint32_t heads, dots *sums)
{
    float buffer[GATHER_DIMS * STRIP];
    const keys k = {buffer, buffer + STRIP / 2, buffer, STRIP};
    for (uint32_t begin = 0; begin < p->dim; begin += GATHER_DIMS) {
        uint32_t dims = p->dim - begin < GATHER_DIMS ? p->dim - begin : GATHER_DIMS;
        gather(p, first, begin, dims, buffer);
        chains_f32(p->q + (size_t)h * p->dim + begin, p->dim, heads, dims, k, sums);
    }
}

/* Where eight groups from `first` on begin, within their tile. */
static inline const void *eight_at(const problem *p, size_t first)
{
    size_t size = p->type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float);
    return (const char *)p->tiles[first / p->groups] + first % p->groups * size;
}

/* Dots with heads h .. h + heads, for tiles whose groups are a multiple of eight. */
static inline void dots_direct(const problem *p, size_t first, uint32_t h, uint32_t heads, dots *sums)
{
    bool high = first + 8 < p->total, next = first + STRIP < p->total;
    keys k = {.low = eight_at(p, first), .stride = p->groups};
    k.high = high ? eight_at(p, first + 8) : k.low;
    k.next = next ? eight_at(p, first + STRIP) : k.low;
    const float *q = p->q + (size_t)h * p->dim;
    if (p->type == QSA_ELEMENT_F32) {
        chains_f32(q, p->dim, heads, p->dim, k, sums);
        return;
    }
    chains_bf16(q, p->dim, heads, p->dim, k, sums);
    for (uint32_t i = 0; i < heads; i++)
        sums->head[i] = qsa_natural_order(sums->head[i], QSA_ELEMENT_BF16);
}

static inline qsa_pair score_strip(const problem *p, size_t first)
{
    const __m256 zero = _mm256_setzero_ps();
    qsa_pair score = {{zero, zero}};
    for (uint32_t h = 0; h < p->heads; h += HEADS) {
        uint32_t heads = p->heads - h < HEADS ? p->heads - h : HEADS;
        dots sums = {{{{zero, zero}}, {{zero, zero}}, {{zero, zero}}, {{zero, zero}}}};
        if (p->groups % 8 == 0)
            dots_direct(p, first, h, heads, &sums);
        else
            dots_scattered(p, first, h, heads, &sums);
        for (uint32_t i = 0; i < heads; i++)
            for (int v = 0; v < 2; v++) /* max turns -0 into +0: adding either to a score changes nothing */
                score.v[v] = _mm256_add_ps(score.v[v], _mm256_max_ps(sums.head[i].v[v], zero));
    }
    return score;
}

/* Strip by strip, all queries: later ones find the keys in cache. */
static inline void score(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                         const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out, enum qsa_element type)
{
    problem p = {queries, heads, dim, tiles, groups, (size_t)n_tiles * groups, type};
    for (size_t first = 0; first < p.total; first += STRIP)
        for (uint32_t i = 0; i < n_queries; i++) {
            p.q = queries + (size_t)i * heads * dim;
            qsa_pair s = score_strip(&p, first);
            float *to = out + i * p.total + first;
            qsa_store_first(to, p.total - first, s.v[0]);
            if (p.total - first > 8)
                qsa_store_first(to + 8, p.total - first - 8, s.v[1]);
        }
}

void qsa_score_f32__avx2(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                         const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    score(queries, n_queries, heads, dim, tiles, n_tiles, groups, out, QSA_ELEMENT_F32);
}

void qsa_score_bf16__avx2(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                          const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    score(queries, n_queries, heads, dim, tiles, n_tiles, groups, out, QSA_ELEMENT_BF16);
}
