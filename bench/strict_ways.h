/* SPDX-License-Identifier: Apache-2.0 */
/* What an instruction set's file makes free_ways of. It includes this after it has defined
 *   vec, LANES                       a vector of f32, and how many
 *   TOGETHER                         heads that share what is loaded: they and two vectors each fill the registers
 *   splat, load, store, multiply_add, multiply, add, largest, round_nearest, power_of_two (2^n of whole numbers n)
 *   widen_keys(blocks, d, out[2][2]) dimensions d and d + 1 of 2 * LANES tokens
 *   widen_values(values, out[2])     2 * LANES bf16, in any fixed order of lanes; natural_order(out[2]) mends it
 *   widen_groups(keys)               LANES bf16, in order */
#ifndef BENCH_STRICT_WAYS_H
#define BENCH_STRICT_WAYS_H

#include "base/elementary.h"
#include "kernels/template.h"
#include "strict_free.h"

enum { TILE = 64, PASSES = FREE_HEADS / TOGETHER };

/* 2^x for x <= 0, with the product's polynomial; the whole part by a rounding instruction. */
QSA_INLINE vec exp2_of(vec x)
{
    x = largest(x, splat(QSA_E2_LOWEST));
    const vec n = round_nearest(x), r = add(x, multiply(n, splat(-1.0f)));
    vec p = splat(QSA_E2_C6);
    p = multiply_add(p, r, splat(QSA_E2_C5));
    p = multiply_add(p, r, splat(QSA_E2_C4));
    p = multiply_add(p, r, splat(QSA_E2_C3));
    p = multiply_add(p, r, splat(QSA_E2_C2));
    p = multiply_add(p, r, splat(QSA_E2_C1));
    p = multiply_add(p, r, splat(QSA_E2_C0));
    return multiply(p, power_of_two(n));
}

static float largest_lane(vec x)
{
    float lanes[LANES], most;
    store(lanes, x);
    most = lanes[0];
    for (int i = 1; i < LANES; i++)
        most = lanes[i] > most ? lanes[i] : most;
    return most;
}

static float sum_of_lanes(vec x)
{
    float lanes[LANES], sum = 0;
    store(lanes, x);
    for (int i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

/* One row: the state of the online softmax. */
typedef struct state {
    float packed[PASSES][FREE_DIM][TOGETHER]; /* q */
    float x[FREE_HEADS][TILE];
    float sums[FREE_HEADS][FREE_DIM]; /* lanes in the order of widen_values */
    float most[FREE_HEADS];
    vec total[FREE_HEADS]; /* L, a partial sum per lane */
} state;

/* x of 2 * LANES tokens with TOGETHER heads. */
static void tile_dots(state *s, int pass, const void *const *blocks, uint32_t first)
{
    vec sum[TOGETHER][2];
    QSA_UNROLL
    for (int h = 0; h < TOGETHER; h++)
        sum[h][0] = sum[h][1] = splat(0.0f);
    for (size_t d = 0; d < FREE_DIM; d += 2) {
        vec key[2][2];
        widen_keys(blocks, d, key);
        QSA_UNROLL
        for (int i = 0; i < 2; i++)
            QSA_UNROLL
        for (int h = 0; h < TOGETHER; h++) {
            const vec q = splat(s->packed[pass][d + (size_t)i][h]);
            sum[h][0] = multiply_add(q, key[i][0], sum[h][0]);
            sum[h][1] = multiply_add(q, key[i][1], sum[h][1]);
        }
    }
    QSA_UNROLL
    for (int h = 0; h < TOGETHER; h++) {
        store(&s->x[pass * TOGETHER + h][first], sum[h][0]);
        store(&s->x[pass * TOGETHER + h][first + LANES], sum[h][1]);
    }
}

/* x of a tile becomes p; where the maximum rises, what was summed so far shrinks. */
static void tile_weights(state *s, int h)
{
    vec most = load(s->x[h]);
    for (int j = LANES; j < TILE; j += LANES)
        most = largest(most, load(s->x[h] + j));
    const float now = largest_lane(most);
    if (now > s->most[h]) {
        const vec factor = exp2_of(splat(s->most[h] - now));
        s->most[h] = now;
        s->total[h] = multiply(s->total[h], factor);
        for (int d = 0; d < FREE_DIM; d += LANES)
            store(s->sums[h] + d, multiply(load(s->sums[h] + d), factor));
    }
    for (int j = 0; j < TILE; j += LANES) {
        const vec p = exp2_of(add(load(s->x[h] + j), splat(-s->most[h])));
        store(s->x[h] + j, p);
        s->total[h] = add(s->total[h], p);
    }
}

/* 2 * LANES dimensions of p.v over a tile. */
static void tile_values(state *s, int pass, size_t d, const void *const *v)
{
    vec sum[TOGETHER][2];
    float *at = &s->sums[pass * TOGETHER][d];
    QSA_UNROLL
    for (int h = 0; h < TOGETHER; h++) {
        sum[h][0] = load(at + h * FREE_DIM);
        sum[h][1] = load(at + h * FREE_DIM + LANES);
    }
    for (int j = 0; j < TILE; j++) {
        vec value[2];
        widen_values((const uint16_t *)v[j] + d, value);
        QSA_UNROLL
        for (int h = 0; h < TOGETHER; h++) {
            const vec p = splat(s->x[pass * TOGETHER + h][j]);
            sum[h][0] = multiply_add(p, value[0], sum[h][0]);
            sum[h][1] = multiply_add(p, value[1], sum[h][1]);
        }
    }
    QSA_UNROLL
    for (int h = 0; h < TOGETHER; h++) {
        store(at + h * FREE_DIM, sum[h][0]);
        store(at + h * FREE_DIM + LANES, sum[h][1]);
    }
}

/* n of the tile's tokens count. blocks and v are full: what is beyond n repeats. */
static void tile(state *s, const void *const *blocks, const void *const *v, uint32_t n)
{
    for (uint32_t first = 0; first < TILE; first += 2 * LANES)
        for (int pass = 0; pass < PASSES; pass++)
            tile_dots(s, pass, blocks + first / QSA_BLOCK_TOKENS, first);
    for (int h = 0; h < FREE_HEADS; h++) {
        for (uint32_t j = n; j < TILE; j++)
            s->x[h][j] = -1e30f;
        tile_weights(s, h);
    }
    for (size_t d = 0; d < FREE_DIM; d += 2 * LANES)
        for (int pass = 0; pass < PASSES; pass++)
            tile_values(s, pass, d, v);
}

static void last_tile(state *s, const void *const *blocks, const void *const *v, uint32_t n)
{
    const void *all_blocks[TILE / QSA_BLOCK_TOKENS], *all_v[TILE];
    for (uint32_t j = 0; j < TILE; j++) {
        const uint32_t in = j < n ? j : n - 1;
        all_blocks[j / QSA_BLOCK_TOKENS] = blocks[in / QSA_BLOCK_TOKENS];
        all_v[j] = v[in];
    }
    tile(s, all_blocks, all_v, n);
}

static void begin_row(state *s, const float *q)
{
    for (int h = 0; h < FREE_HEADS; h++) {
        s->most[h] = -1e30f;
        s->total[h] = splat(0.0f);
        for (int d = 0; d < FREE_DIM; d++) {
            s->packed[h / TOGETHER][d][h % TOGETHER] = q[h * FREE_DIM + d];
            s->sums[h][d] = 0;
        }
    }
}

static void row_in_tiles(const float *q, const void *const *blocks, const void *const *v, uint32_t n, float *out)
{
    state s;
    begin_row(&s, q);
    uint32_t at = 0;
    for (; at + TILE <= n; at += TILE)
        tile(&s, blocks + at / QSA_BLOCK_TOKENS, v + at, TILE);
    if (at < n)
        last_tile(&s, blocks + at / QSA_BLOCK_TOKENS, v + at, n - at);
    for (int h = 0; h < FREE_HEADS; h++) {
        const vec factor = splat(1.0f / sum_of_lanes(s.total[h]));
        for (int d = 0; d < FREE_DIM; d += 2 * LANES) {
            vec sum[2] = {multiply(load(s.sums[h] + d), factor), multiply(load(s.sums[h] + d + LANES), factor)};
            natural_order(sum);
            store(out + h * FREE_DIM + d, sum[0]);
            store(out + h * FREE_DIM + d + LANES, sum[1]);
        }
    }
}

/* As the strict one but for L. */
static void weights_by_lanes(float *x, size_t stride, uint32_t heads, uint32_t n, float *sum)
{
    for (uint32_t h = 0; h < heads; h++) {
        float *row = x + h * stride;
        const uint32_t whole = n / LANES * LANES;
        vec most = splat(row[0]), total = splat(0.0f);
        for (uint32_t j = 0; j < whole; j += LANES)
            most = largest(most, load(row + j));
        float maximum = largest_lane(most);
        for (uint32_t j = whole; j < n; j++)
            maximum = row[j] > maximum ? row[j] : maximum;
        for (uint32_t j = 0; j < whole; j += LANES) {
            const vec p = exp2_of(add(load(row + j), splat(-maximum)));
            store(row + j, p);
            total = add(total, p);
        }
        sum[h] = sum_of_lanes(total);
        for (uint32_t j = whole; j < n; j++) {
            float lanes[LANES];
            store(lanes, exp2_of(splat(row[j] - maximum)));
            row[j] = lanes[0];
            sum[h] += row[j];
        }
    }
}

/* Scores of 2 * LANES groups, every dot as a sum over even dimensions and one over odd ones. keys[i]: LANES groups. */
QSA_INLINE void score_strip(const float *q, const uint16_t *const keys[2], size_t stride, float *out)
{
    vec score[2] = {splat(0.0f), splat(0.0f)};
    for (int half = 0; half < 2; half++) {
        vec even[FREE_INDEX_HEADS], odd[FREE_INDEX_HEADS];
        QSA_UNROLL
        for (int h = 0; h < FREE_INDEX_HEADS; h++)
            even[h] = odd[h] = splat(0.0f);
        for (size_t d = 0; d < FREE_INDEX_DIM; d += 2) {
            const vec a = widen_groups(keys[half] + d * stride), b = widen_groups(keys[half] + (d + 1) * stride);
            QSA_UNROLL
            for (int h = 0; h < FREE_INDEX_HEADS; h++) {
                even[h] = multiply_add(splat(q[h * FREE_INDEX_DIM + d]), a, even[h]);
                odd[h] = multiply_add(splat(q[h * FREE_INDEX_DIM + d + 1]), b, odd[h]);
            }
        }
        QSA_UNROLL
        for (int h = 0; h < FREE_INDEX_HEADS; h++)
            score[half] = add(score[half], largest(add(even[h], odd[h]), splat(0.0f)));
    }
    store(out, score[0]);
    store(out + LANES, score[1]);
}

static void score_in_two_sums(const float *q, const void *const *tiles, uint32_t n_tiles, float *out)
{
    const size_t groups = (size_t)n_tiles * FREE_TILE_GROUPS;
    for (size_t g = 0; g < groups; g += 2 * LANES) {
        const uint16_t *keys[2];
        for (size_t i = 0; i < 2; i++) {
            const size_t at = g + i * LANES;
            keys[i] = (const uint16_t *)tiles[at / FREE_TILE_GROUPS] + at % FREE_TILE_GROUPS;
        }
        score_strip(q, keys, FREE_TILE_GROUPS, out + g);
    }
}

static const free_ways WAYS = {row_in_tiles, score_in_two_sums, weights_by_lanes};

#endif
