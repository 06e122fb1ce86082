/* Kernels over K and V in f16 and q8_0: every instruction set against the f32 kernels' definition over the same values
 * widened by the rules of SPEC section 5, written out here once more. */
#include "kernels/kernels.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 13, TOKENS = 70, MOST_DIMS = 1024 };

/* A half's value, by its definition. */
static float half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    float value = exponent == 0 ? ldexpf((float)mantissa, -24) : ldexpf((float)(1024 + mantissa), exponent - 25);
    return half & 0x8000 ? -value : value;
}

static uint16_t finite_half(uint64_t bits)
{
    uint16_t half = (uint16_t)bits;
    return (half & 0x7c00) == 0x7c00 ? half ^ 0x4000 : half;
}

/* One row of `dim` numbers: as stored, and as f32. */
static void random_row(enum qsa_element type, uint64_t seed, uint32_t dim, uint8_t *row, float *values)
{
    for (uint32_t d = 0; d < dim; d++) {
        uint64_t bits = golden_bits64(seed, d);
        if (type == QSA_ELEMENT_F16) {
            uint16_t half = finite_half(bits);
            memcpy(row + 2 * d, &half, 2);
            values[d] = half_value(half);
            continue;
        }
        uint8_t *chunk = row + d / 32 * 34;
        uint16_t scale = finite_half(golden_bits64(seed + 7, d / 32)) & 0x7fff;
        memcpy(chunk, &scale, 2);
        chunk[2 + d % 32] = (uint8_t)(int8_t)((int)(bits % 255) - 127);
        values[d] = half_value(scale) * (float)(int8_t)chunk[2 + d % 32];
    }
}

/* The row in lane t of a block. */
static void put_lane(enum qsa_element type, uint32_t dim, const uint8_t *row, uint32_t t, uint8_t *block)
{
    for (uint32_t d = 0; d < dim; d++) {
        if (type == QSA_ELEMENT_F16) {
            memcpy(block + 2 * (4 * d + t), row + 2 * d, 2);
            continue;
        }
        uint8_t *chunk = block + d / 32 * 136;
        memcpy(chunk + 2 * t, row + d / 32 * 34, 2);
        chunk[8 + 4 * (d % 32) + t] = row[d / 32 * 34 + 2 + d % 32];
    }
}

typedef struct stored {
    uint32_t dim;
    float *values;          /* [TOKENS][dim] */
    uint8_t *rows, *blocks; /* [TOKENS][row bytes] */
    float *wide_blocks;     /* [TOKENS / 4][dim][4] */
    const void *row_at[TOKENS], *value_at[TOKENS], *block_at[(TOKENS + 3) / 4], *wide_at[(TOKENS + 3) / 4];
} stored;

static stored make(enum qsa_element type, uint32_t dim, uint64_t seed)
{
    const size_t row_bytes = type == QSA_ELEMENT_F16 ? 2 * (size_t)dim : (size_t)dim / 32 * 34;
    stored s = {.dim = dim,
                .values = test_alloc((size_t)TOKENS * dim, sizeof(float)),
                .rows = test_alloc(TOKENS, row_bytes),
                .blocks = test_alloc(TOKENS + 4, row_bytes),
                .wide_blocks = test_alloc((size_t)(TOKENS + 4) * dim, sizeof(float))};
    for (uint32_t j = 0; j < TOKENS; j++) {
        random_row(type, seed * 1000 + 10 * j, dim, s.rows + j * row_bytes, s.values + (size_t)j * dim);
        put_lane(type, dim, s.rows + j * row_bytes, j % 4, s.blocks + j / 4 * 4 * row_bytes);
        for (uint32_t d = 0; d < dim; d++)
            s.wide_blocks[(size_t)(j / 4) * 4 * dim + 4 * d + j % 4] = s.values[(size_t)j * dim + d];
        s.row_at[j] = s.rows + j * row_bytes;
        s.value_at[j] = s.values + (size_t)j * dim;
        s.block_at[j / 4] = s.blocks + j / 4 * 4 * row_bytes;
        s.wide_at[j / 4] = s.wide_blocks + (size_t)(j / 4) * 4 * dim;
    }
    return s;
}

static void drop(stored *s)
{
    free(s->values);
    free(s->rows);
    free(s->blocks);
    free(s->wide_blocks);
}

static void compare(enum qsa_element type, uint32_t dim, uint64_t seed)
{
    enum { STRIDE = TOKENS + 5 };
    stored s = make(type, dim, seed);
    float *q = test_alloc((size_t)HEADS * dim, sizeof *q), p[HEADS * TOKENS], sum[HEADS];
    test_fill(seed, q, (size_t)HEADS * dim);
    for (uint32_t i = 0; i < HEADS * TOKENS; i++)
        p[i] = (float)(golden_bits64(seed + 1, i) % 1000) * 0.001f;
    for (uint32_t h = 0; h < HEADS; h++)
        sum[h] = 1.0f + (float)h;
    const qsa_kernels *scalar = qsa_kernels_available(0), *k;
    const uint32_t n_blocks = (TOKENS + 3) / 4;
    float expected_dots[HEADS * STRIDE] = {0}, dots[HEADS * STRIDE];
    float *expected = test_alloc((size_t)HEADS * dim, sizeof *expected),
          *out = test_alloc((size_t)HEADS * dim, sizeof *out);
    qsa_qk_call qk = {q, HEADS, dim, s.wide_at, n_blocks, expected_dots, STRIDE};
    scalar->qk(&qk, QSA_ELEMENT_F32);
    qsa_pv_call pv = {.p = p,
                      .stride = TOKENS,
                      .sum = sum,
                      .heads = HEADS,
                      .dim = dim,
                      .n = TOKENS,
                      .v = s.value_at,
                      .out = expected,
                      .out_stride = dim};
    scalar->pv(&pv, QSA_ELEMENT_F32);
    qk.blocks = s.block_at;
    qk.out = dots;
    pv.v = s.row_at;
    pv.out = out;
    for (size_t i = 0; (k = qsa_kernels_available(i)) != NULL; i++) {
        for (uint32_t n = 1; n <= n_blocks; n += 1 + n / 3) {
            qk.n_blocks = n;
            k->qk(&qk, type);
            for (uint32_t h = 0; h < HEADS; h++)
                test_same_floats(k->isa, expected_dots + h * STRIDE, dots + h * STRIDE,
                                 4 * n > TOKENS ? TOKENS : 4 * n);
        }
        k->pv(&pv, type);
        test_same_floats(k->isa, expected, out, (size_t)HEADS * dim);
    }
    free(q);
    free(expected);
    free(out);
    drop(&s);
}

static void f16_is_its_values_widened(void **state)
{
    (void)state;
    static const uint32_t dims[] = {2, 7, 8, 15, 16, 33, 64, 80, 160, 256, MOST_DIMS};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        compare(QSA_ELEMENT_F16, dims[i], 11 + i);
}

static void q8_0_is_its_values_widened(void **state)
{
    (void)state;
    static const uint32_t dims[] = {32, 64, 96, 160, 256, MOST_DIMS};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        compare(QSA_ELEMENT_Q8_0, dims[i], 31 + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(f16_is_its_values_widened),
                                       cmocka_unit_test(q8_0_is_its_values_widened)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
