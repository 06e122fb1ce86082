/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every table that this processor runs, against naive loops, bit for bit: random shapes, numbers of
 * every kind, NaN in all that must not matter, borders around all that is written.
 *
 * A failure names the table and the seed of its case; QSA_TEST_SEED=seed runs that case first. */
#include "support.h"

#include "kernels/kernels.h"
#include "naive_kernels.h"
#include "random_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t DIMS[] = {2, 4, 6, 8, 12, 16, 18, 32, 33, 48, 80, 96, 100, 128, 160, 256, 288, 512};
static const size_t GROUPS[] = {1, 2, 4, 8, 16, 32, 64, 3, 12, 24};
#define RANDOM_OF(r, array) ((array)[random_between(r, 0, sizeof(array) / sizeof(array)[0] - 1)])

/* Keys and values stay below 2^56 (SPEC section 6, rule 7), norm weights below 2^40. */
enum { MOST_INPUT = 56, MOST_WEIGHT = 40 };

/* Where a case is, for the message when it fails. */
typedef struct place {
    const char *operation, *isa;
    uint64_t seed;
} place;

static void expect_bits(place p, const char *what, size_t i, float expected, float actual)
{
    if (test_bits(expected) != test_bits(actual))
        fail_msg("%s %s: %s[%zu]: expected %08x (%g), found %08x (%g); QSA_TEST_SEED=%llu test_kernels", p.operation,
                 p.isa, what, i, (unsigned)test_bits(expected), (double)expected, (unsigned)test_bits(actual),
                 (double)actual, (unsigned long long)p.seed);
}

static void expect(place p, const char *what, bool condition)
{
    if (!condition)
        fail_msg("%s %s: %s; QSA_TEST_SEED=%llu test_kernels", p.operation, p.isa, what, (unsigned long long)p.seed);
}

/* Runs `test` with the seeds of `cases` cases. */
static void each_seed(size_t cases, void (*test)(uint64_t seed))
{
    const char *first = getenv("QSA_TEST_SEED");
    uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    for (size_t i = 0; i < cases; i++)
        test(seed + i);
}

/* An array as a cache stores it, at an odd address, and the same widened. */
typedef struct stored {
    void *memory;
    const void *elements;
    float *widened;
} stored;

static stored store(enum qsa_element type, const float *values, size_t count)
{
    stored s = {.widened = test_alloc(count, sizeof(float))};
    if (type == QSA_ELEMENT_F32) {
        s.memory = test_alloc(count + 1, sizeof(float));
        s.elements = memcpy((float *)s.memory + 1, values, count * sizeof(float));
        memcpy(s.widened, values, count * sizeof(float));
        return s;
    }
    s.memory = test_alloc(count + 1, sizeof(uint16_t));
    uint16_t *bf16 = (uint16_t *)s.memory + 1;
    for (size_t i = 0; i < count; i++) {
        bf16[i] = isnan(values[i]) ? 0x7fc1 : naive_bf16(values[i]);
        s.widened[i] = test_float((uint32_t)bf16[i] << 16);
    }
    s.elements = bf16;
    return s;
}

static void free_stored(stored *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(s[i].memory);
        free(s[i].widened);
    }
    free(s);
}

/* The addresses of the elements; free() it. */
static const void **addresses(const stored *s, size_t count)
{
    const void **a = test_alloc(count, sizeof *a);
    for (size_t i = 0; i < count; i++)
        a[i] = s[i].elements;
    return a;
}

/* `count` arrays of [dim][lanes]. Whole lanes may be NaN, as unused places of a page are: bad [count][lanes] says
 * which. */
static stored *store_lanes(random_source *r, enum qsa_element type, size_t count, size_t dim, size_t lanes, bool *bad)
{
    stored *all = test_alloc(count, sizeof *all);
    float *values = test_alloc(dim * lanes, sizeof(float));
    for (size_t i = 0; i < count; i++) {
        random_fill(r, values, dim * lanes, MOST_INPUT);
        for (size_t lane = 0; lane < lanes; lane++) {
            bad[i * lanes + lane] = random_chance(r, 8);
            for (size_t d = 0; bad[i * lanes + lane] && d < dim; d++)
                values[d * lanes + lane] = NAN;
        }
        all[i] = store(type, values, dim * lanes);
    }
    free(values);
    return all;
}

static void score_case(uint64_t seed)
{
    random_source r = {seed};
    enum qsa_element type = random_chance(&r, 2) ? QSA_ELEMENT_F32 : QSA_ELEMENT_BF16;
    size_t dim = RANDOM_OF(&r, DIMS), groups = RANDOM_OF(&r, GROUPS), heads = random_between(&r, 1, 9);
    size_t n_queries = random_between(&r, 1, 3), n_tiles = random_between(&r, 1, 1 + 40 / groups);
    size_t total = n_tiles * groups;
    float *queries = test_alloc(n_queries * heads * dim, sizeof(float));
    random_fill(&r, queries, n_queries * heads * dim, MOST_INPUT);
    bool *bad = test_alloc(total, sizeof *bad);
    stored *tiles = store_lanes(&r, type, n_tiles, dim, groups, bad);
    const void **tile_addresses = addresses(tiles, n_tiles);

    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        place p = {"score", k->isa, seed};
        guarded out = guarded_alloc(n_queries * total);
        const qsa_score_call call = {queries,        (uint32_t)n_queries, (uint32_t)heads,  (uint32_t)dim,
                                     tile_addresses, (uint32_t)n_tiles,   (uint32_t)groups, out.values};
        k->score(&call, type);
        for (size_t i = 0; i < n_queries * total; i++) {
            size_t g = i % total;
            if (!bad[g])
                expect_bits(p, "score", i,
                            naive_score(queries + i / total * heads * dim, heads, dim, tiles[g / groups].widened,
                                        groups, g % groups),
                            out.values[i]);
        }
        expect(p, "wrote outside its output", guarded_intact(&out));
        guarded_free(&out);
    }
    free(tile_addresses);
    free_stored(tiles, n_tiles);
    free(bad);
    free(queries);
}

static void qk_case(uint64_t seed)
{
    random_source r = {seed};
    enum qsa_element type = random_chance(&r, 2) ? QSA_ELEMENT_F32 : QSA_ELEMENT_BF16;
    size_t dim = RANDOM_OF(&r, DIMS), heads = random_between(&r, 1, 24), n_blocks = random_between(&r, 1, 13);
    size_t n = n_blocks * QSA_BLOCK_TOKENS, stride = n + random_between(&r, 0, 5);
    float *q = test_alloc(heads * dim, sizeof(float));
    random_fill(&r, q, heads * dim, MOST_INPUT);
    bool *bad = test_alloc(n, sizeof *bad);
    stored *blocks = store_lanes(&r, type, n_blocks, dim, QSA_BLOCK_TOKENS, bad);
    const void **block_addresses = addresses(blocks, n_blocks);

    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        place p = {"qk", k->isa, seed};
        guarded out = guarded_alloc((heads - 1) * stride + n);
        float *gap = out.values + n; /* between the first head's row and the second's */
        uint32_t before = heads > 1 && stride > n ? test_bits(*gap) : 0;
        const qsa_qk_call call = {q,          (uint32_t)heads, (uint32_t)dim, block_addresses, (uint32_t)n_blocks,
                                  out.values, stride};
        k->qk(&call, type);
        for (size_t h = 0; h < heads; h++)
            for (size_t j = 0; j < n; j++)
                if (!bad[j])
                    expect_bits(p, "dot", h * stride + j,
                                naive_chain(q + h * dim, 1, blocks[j / QSA_BLOCK_TOKENS].widened + j % QSA_BLOCK_TOKENS,
                                            QSA_BLOCK_TOKENS, dim),
                                out.values[h * stride + j]);
        expect(p, "wrote between rows", !before || test_bits(*gap) == before);
        expect(p, "wrote outside its output", guarded_intact(&out));
        guarded_free(&out);
    }
    free(block_addresses);
    free_stored(blocks, n_blocks);
    free(bad);
    free(q);
}

/* Below -126 E2 is +0: puts numbers on both sides of the edge, and on it, as far from the maximum, which becomes 0. */
static void put_edge_of_e2(random_source *r, float *row, size_t n)
{
    const float edges[] = {-126.0f, nextafterf(-126.0f, 0.0f), nextafterf(-126.0f, -INFINITY)};
    for (size_t j = 0; j < n; j++)
        row[j] = random_chance(r, 2) ? RANDOM_OF(r, edges) : -fabsf(row[j]);
    row[random_between(r, 0, n - 1)] = 0.0f;
}

/* Rows of logits as attention makes them, and stranger ones. NaN follows each row. */
static float *logits(random_source *r, size_t heads, size_t n, size_t stride)
{
    float *x = test_alloc(heads * stride, sizeof(float));
    for (size_t h = 0; h < heads; h++) {
        random_fill(r, x + h * stride, n, MOST_INPUT);
        float spread = (float)random_between(r, 1, 200);
        for (size_t j = 0; j < n; j++)
            if (fabsf(x[h * stride + j]) <= 1.0f)
                x[h * stride + j] *= spread;
        if (random_chance(r, 4))
            put_edge_of_e2(r, x + h * stride, n);
        for (size_t j = n; j < stride; j++)
            x[h * stride + j] = NAN;
    }
    return x;
}

static void softmax_case(uint64_t seed)
{
    random_source r = {seed};
    size_t heads = random_between(&r, 1, 24);
    size_t n = random_between(&r, 1, random_chance(&r, 8) ? 2051 : 150), stride = n + random_between(&r, 0, 9);
    float *x = logits(&r, heads, n, stride);
    float *expected = test_alloc(heads * stride, sizeof(float));
    float *expected_sum = test_alloc(heads, sizeof(float));
    memcpy(expected, x, heads * stride * sizeof(float));
    for (size_t h = 0; h < heads; h++)
        expected_sum[h] = naive_weights(expected + h * stride, n);

    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        place p = {"softmax", k->isa, seed};
        guarded out = guarded_alloc(heads * stride), sum = guarded_alloc(heads);
        memcpy(out.values, x, heads * stride * sizeof(float));
        const qsa_softmax_call call = {out.values, stride, (uint32_t)heads, (uint32_t)n, sum.values};
        k->softmax(&call);
        for (size_t i = 0; i < heads * stride; i++)
            expect_bits(p, "weight", i, expected[i], out.values[i]);
        for (size_t h = 0; h < heads; h++)
            expect_bits(p, "sum", h, expected_sum[h], sum.values[h]);
        expect(p, "wrote outside its output", guarded_intact(&out) && guarded_intact(&sum));
        guarded_free(&out);
        guarded_free(&sum);
    }
    free(x);
    free(expected);
    free(expected_sum);
}

static void pv_case(uint64_t seed)
{
    random_source r = {seed};
    enum qsa_element type = random_chance(&r, 2) ? QSA_ELEMENT_F32 : QSA_ELEMENT_BF16;
    size_t dim = RANDOM_OF(&r, DIMS), heads = random_between(&r, 1, 24);
    size_t n = random_between(&r, 1, random_chance(&r, 8) ? 300 : 80), stride = n + random_between(&r, 0, 9);
    size_t out_stride = dim + random_between(&r, 0, 5);
    float *p = logits(&r, heads, n, stride);
    float *sum = test_alloc(heads, sizeof(float));
    for (size_t h = 0; h < heads; h++)
        sum[h] = naive_weights(p + h * stride, n);
    float *v = test_alloc(n * dim, sizeof(float));
    random_fill(&r, v, n * dim, MOST_INPUT);
    stored *rows = test_alloc(n, sizeof *rows);
    for (size_t j = 0; j < n; j++) {
        rows[j] = store(type, v + j * dim, dim);
        memcpy(v + j * dim, rows[j].widened, dim * sizeof(float));
    }
    const void **row_addresses = addresses(rows, n);

    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        place at = {"pv", k->isa, seed};
        guarded out = guarded_alloc((heads - 1) * out_stride + dim);
        uint32_t before = heads > 1 && out_stride > dim ? test_bits(out.values[dim]) : 0;
        const qsa_pv_call call = {.p = p,
                                  .stride = stride,
                                  .sum = sum,
                                  .heads = (uint32_t)heads,
                                  .dim = (uint32_t)dim,
                                  .n = (uint32_t)n,
                                  .v = row_addresses,
                                  .out = out.values,
                                  .out_stride = out_stride};
        k->pv(&call, type);
        for (size_t h = 0; h < heads; h++)
            for (size_t d = 0; d < dim; d++)
                expect_bits(at, "output", h * out_stride + d, naive_weighted_sum(p + h * stride, v, n, dim, d, sum[h]),
                            out.values[h * out_stride + d]);
        expect(at, "wrote between rows", !before || test_bits(out.values[dim]) == before);
        expect(at, "wrote outside its output", guarded_intact(&out));
        guarded_free(&out);
    }
    free(row_addresses);
    free_stored(rows, n);
    free(v);
    free(sum);
    free(p);
}

static void round_all(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = test_float((uint32_t)naive_bf16(x[i]) << 16);
}

static void norm_rotate_case(uint64_t seed)
{
    random_source r = {seed};
    bool bf16 = random_chance(&r, 2);
    size_t dim = RANDOM_OF(&r, DIMS), heads = random_between(&r, 1, 40), pairs = random_between(&r, 0, dim / 2);
    size_t stride = dim + random_between(&r, 0, 9);
    size_t angle_stride = random_chance(&r, 2) ? 0 : pairs + random_between(&r, 0, 40);
    size_t angles = (heads - 1) * angle_stride + pairs;
    float eps = random_chance(&r, 2) ? 1e-6f : 0x1p-149f;
    float *x = test_alloc((heads - 1) * stride + dim, sizeof(float)), *weight = test_alloc(dim, sizeof(float));
    float *cos = test_alloc(angles, sizeof(float)), *sin = test_alloc(angles, sizeof(float));
    for (size_t i = 0; i < (heads - 1) * stride + dim; i++)
        x[i] = NAN;
    for (size_t h = 0; h < heads; h++)
        random_fill(&r, x + h * stride, dim, MOST_INPUT);
    random_fill(&r, weight, dim, MOST_WEIGHT);
    random_fill(&r, cos, angles, 1);
    random_fill(&r, sin, angles, 1);
    if (bf16) {
        for (size_t h = 0; h < heads; h++)
            round_all(x + h * stride, dim);
        round_all(cos, angles);
        round_all(sin, angles);
    }
    float *expected = test_alloc(heads * dim, sizeof(float));
    for (size_t h = 0; h < heads; h++)
        naive_norm_rotate(x + h * stride, dim, weight, eps, pairs, cos + h * angle_stride, sin + h * angle_stride, bf16,
                          expected + h * dim);

    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        place p = {"norm_rotate", k->isa, seed};
        guarded out = guarded_alloc(heads * dim);
        const qsa_norm_rotate_call call = {.x = x,
                                           .stride = stride,
                                           .heads = (uint32_t)heads,
                                           .dim = (uint32_t)dim,
                                           .weight = weight,
                                           .eps = eps,
                                           .bf16 = bf16,
                                           .pairs = (uint32_t)pairs,
                                           .cos = cos,
                                           .sin = sin,
                                           .angle_stride = angle_stride,
                                           .out = out.values};
        k->norm_rotate(&call);
        for (size_t i = 0; i < heads * dim; i++)
            expect_bits(p, "output", i, expected[i], out.values[i]);
        expect(p, "wrote outside its output", guarded_intact(&out));
        guarded_free(&out);
    }
    free(x);
    free(weight);
    free(cos);
    free(sin);
    free(expected);
}

static void check_case(uint64_t seed)
{
    random_source r = {seed};
    const float limit = 0x1p56f;
    const float offenders[] = {NAN, -NAN, INFINITY, -INFINITY, nextafterf(limit, INFINITY), -0x1p57f};
    size_t n = random_between(&r, 0, 200), expected = n;
    float *x = test_alloc(n, sizeof(float));
    random_fill(&r, x, n, MOST_INPUT);
    if (n)
        x[random_between(&r, 0, n - 1)] = -limit; /* still allowed */
    for (size_t count = random_between(&r, 0, 2); n && count; count--) {
        size_t i = random_between(&r, 0, n - 1);
        x[i] = RANDOM_OF(&r, offenders);
        expected = i < expected ? i : expected;
    }
    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++)
        expect((place){"check", k->isa, seed}, "another index", k->check(x, n, limit) == expected);
    free(x);
}

static void to_bf16_case(uint64_t seed)
{
    random_source r = {seed};
    size_t n = random_between(&r, 0, 100);
    float *x = test_alloc(n, sizeof(float));
    random_fill(&r, x, n, MOST_INPUT);
    for (size_t i = 0; i < n; i++)
        if (random_chance(&r, 2)) /* ties, and their neighbours */
            x[i] = test_float((test_bits(x[i]) & 0xffff0000u) | (uint32_t)random_between(&r, 0x7fff, 0x8001));
    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        place p = {"to_bf16", k->isa, seed};
        uint16_t *out = test_alloc(n + 2, sizeof *out);
        out[0] = out[n + 1] = 0xa5a5;
        k->to_bf16(x, n, out + 1);
        for (size_t i = 0; i < n; i++)
            expect_bits(p, "output", i, test_float((uint32_t)naive_bf16(x[i]) << 16),
                        test_float((uint32_t)out[i + 1] << 16));
        expect(p, "wrote outside its output", out[0] == 0xa5a5 && out[n + 1] == 0xa5a5);
        free(out);
    }
    free(x);
}

static void score_equals_naive_loops(void **state)
{
    (void)state;
    each_seed(400, score_case);
}

static void qk_equals_naive_loops(void **state)
{
    (void)state;
    each_seed(400, qk_case);
}

static void softmax_equals_naive_loops(void **state)
{
    (void)state;
    each_seed(400, softmax_case);
}

static void pv_equals_naive_loops(void **state)
{
    (void)state;
    each_seed(300, pv_case);
}

static void norm_rotate_equals_naive_loops(void **state)
{
    (void)state;
    each_seed(400, norm_rotate_case);
}

static void check_finds_the_first_offender(void **state)
{
    (void)state;
    each_seed(2000, check_case);
}

static void to_bf16_equals_the_nearest(void **state)
{
    (void)state;
    each_seed(1000, to_bf16_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(score_equals_naive_loops),       cmocka_unit_test(qk_equals_naive_loops),
        cmocka_unit_test(softmax_equals_naive_loops),     cmocka_unit_test(pv_equals_naive_loops),
        cmocka_unit_test(norm_rotate_equals_naive_loops), cmocka_unit_test(check_finds_the_first_offender),
        cmocka_unit_test(to_bf16_equals_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
