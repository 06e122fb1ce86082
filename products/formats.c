/* SPDX-License-Identifier: Apache-2.0 */
/* How each format's bytes are read. docs/PRODUCTS.md has the table in words. */
#include "products/formats.h"

#include "base/elementary.h"
#include "products/grids.h"

static uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32_at(const uint8_t *p)
{
    return u16_at(p) | (uint32_t)u16_at(p + 2) << 16;
}

static float f16_at(const uint8_t *p)
{
    return qsa_f16_to_f32(u16_at(p));
}

static void set_scale(qsa_run *out, float scale, float minimum)
{
    out->scale[0] = out->scale[1] = scale;
    out->minimum[0] = out->minimum[1] = minimum;
}

/* Half h's scale; the run has no minimum. */
static void set_half_scale(qsa_run *out, size_t h, float scale)
{
    out->scale[h] = scale;
    out->minimum[h] = 0.0f;
}

/* Weight i of 32 that are 16 bytes: the low nibbles, then the high ones. */
static int nibble(const uint8_t *p, size_t i)
{
    return p[i % 16] >> (i / 16 * 4) & 15;
}

/* Bit i of a string of bits. */
static int bit(const uint8_t *p, size_t i)
{
    return p[i / 8] >> (i % 8) & 1;
}

/* ---- Blocks of 32: an f16 scale, perhaps an f16 minimum, then the weights ---- */

static void unpack_q4_0(const uint8_t *p, size_t j, qsa_run *out)
{
    (void)j;
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)(nibble(p + 2, i) - 8);
    set_scale(out, f16_at(p), 0.0f);
}

static void unpack_q4_1(const uint8_t *p, size_t j, qsa_run *out)
{
    (void)j;
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)nibble(p + 4, i);
    set_scale(out, f16_at(p), f16_at(p + 2));
}

static void unpack_q5_0(const uint8_t *p, size_t j, qsa_run *out)
{
    (void)j;
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)((nibble(p + 6, i) | bit(p + 2, i) << 4) - 16);
    set_scale(out, f16_at(p), 0.0f);
}

static void unpack_q5_1(const uint8_t *p, size_t j, qsa_run *out)
{
    (void)j;
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)(nibble(p + 8, i) | bit(p + 4, i) << 4);
    set_scale(out, f16_at(p), f16_at(p + 2));
}

static void unpack_q8_0(const uint8_t *p, size_t j, qsa_run *out)
{
    (void)j;
    memcpy(out->w, p + 2, QSA_RUN);
    set_scale(out, f16_at(p), 0.0f);
}

const int8_t qsa_levels_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t qsa_levels_fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void unpack_iq4_nl(const uint8_t *p, size_t j, qsa_run *out)
{
    (void)j;
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = qsa_levels_iq4[nibble(p + 2, i)];
    set_scale(out, f16_at(p), 0.0f);
}

/* Half of 2^(e - 127): what doubled levels ask for. Below e = 2 it is subnormal. */
static float half_of_e8m0(uint8_t e)
{
    return qsa_f32_from_bits(e < 2 ? UINT32_C(0x200000) << e : (uint32_t)(e - 1) << 23);
}

static void unpack_mxfp4(const uint8_t *p, size_t j, qsa_run *out)
{
    (void)j;
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = qsa_levels_fp4[nibble(p + 1, i)];
    set_scale(out, half_of_e8m0(p[0]), 0.0f);
}

/* Half of an unsigned number of 4 exponent bits, bias 7, and 3 mantissa bits. The largest code stands for none: 0. */
static float half_of_ue4m3(uint8_t x)
{
    if (x == 0x7f)
        return 0.0f;
    int exponent = x >> 3 & 15, mantissa = x & 7;
    return exponent == 0 ? (float)mantissa * 0x1p-10f : ldexpf((float)(8 + mantissa), exponent - 11);
}

/* 64 weights: four scales, then 8 bytes for each 16 weights, the low nibbles first. */
static void unpack_nvfp4(const uint8_t *p, size_t j, qsa_run *out)
{
    for (size_t i = 0; i < QSA_RUN; i++) {
        const uint8_t *codes = p + 4 + 8 * (2 * j + i / 16);
        out->w[i] = qsa_levels_fp4[codes[i % 8] >> (i % 16 / 8 * 4) & 15];
    }
    for (size_t h = 0; h < 2; h++)
        set_half_scale(out, h, half_of_ue4m3(p[2 * j + h]));
}

/* ---- Blocks of 256: integer scales of the runs, times an f16 ---- */

/* The 12 bytes of q4_K and q5_K: scale and minimum of run j, 6 bits each. */
static void scale_and_minimum(const uint8_t *s, size_t j, int *scale, int *minimum)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *minimum = s[j + 4] & 63;
        return;
    }
    *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
    *minimum = s[j + 4] >> 4 | s[j] >> 6 << 4;
}

/* Two bits of weight i of run j: four runs share 32 bytes. */
static int two_bits(const uint8_t *p, size_t j, size_t i)
{
    return p[j / 4 * 32 + i] >> (j % 4 * 2) & 3;
}

static void unpack_q2_K(const uint8_t *p, size_t j, qsa_run *out)
{
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)two_bits(p + 16, j, i);
    for (size_t h = 0; h < 2; h++) {
        uint8_t s = p[2 * j + h];
        out->scale[h] = f16_at(p + 80) * (float)(s & 15);
        out->minimum[h] = -(f16_at(p + 82) * (float)(s >> 4));
    }
}

static void unpack_q3_K(const uint8_t *p, size_t j, qsa_run *out)
{
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)((two_bits(p + 32, j, i) | (p[i] >> j & 1) << 2) - 4);
    const uint8_t *scales = p + 96; /* sixteen of 6 bits: four low ones in 8 bytes, two high ones in 4 */
    for (size_t h = 0; h < 2; h++) {
        size_t s = 2 * j + h;
        int low = scales[s % 8] >> (s / 8 * 4) & 15, high = scales[8 + s % 4] >> (s / 4 * 2) & 3;
        set_half_scale(out, h, f16_at(p + 108) * (float)((low | high << 4) - 32));
    }
}

static void unpack_q4_K(const uint8_t *p, size_t j, qsa_run *out)
{
    int scale, minimum;
    scale_and_minimum(p + 4, j, &scale, &minimum);
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)(p[16 + j / 2 * 32 + i] >> (j % 2 * 4) & 15);
    set_scale(out, f16_at(p) * (float)scale, -(f16_at(p + 2) * (float)minimum));
}

static void unpack_q5_K(const uint8_t *p, size_t j, qsa_run *out)
{
    int scale, minimum;
    scale_and_minimum(p + 4, j, &scale, &minimum);
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)((p[48 + j / 2 * 32 + i] >> (j % 2 * 4) & 15) | (p[16 + i] >> j & 1) << 4);
    set_scale(out, f16_at(p) * (float)scale, -(f16_at(p + 2) * (float)minimum));
}

static void unpack_q6_K(const uint8_t *p, size_t j, qsa_run *out)
{
    const uint8_t *low = p + j / 4 * 64 + j % 2 * 32;
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = (int8_t)(((low[i] >> (j % 4 / 2 * 4) & 15) | two_bits(p + 128, j, i) << 4) - 32);
    for (size_t h = 0; h < 2; h++)
        set_half_scale(out, h, f16_at(p + 208) * (float)(int8_t)p[192 + 2 * j + h]);
}

static void unpack_iq4_xs(const uint8_t *p, size_t j, qsa_run *out)
{
    for (size_t i = 0; i < QSA_RUN; i++)
        out->w[i] = qsa_levels_iq4[nibble(p + 8 + 16 * j, i)];
    int scale = (p[4 + j / 2] >> (j % 2 * 4) & 15) | (u16_at(p + 2) >> (2 * j) & 3) << 4;
    set_scale(out, f16_at(p) * (float)(scale - 32), 0.0f);
}

/* ---- Code books: a number of some bits stands for 4 or 8 weights ---- */

const int8_t qsa_levels_iq2[16] = {8, 25, 43};
const int8_t qsa_levels_iq3_xxs[16] = {4, 12, 20, 28, 36, 44, 52, 62};
const int8_t qsa_levels_iq3_s[16] = {1, 3, 5, 7, 9, 11, 13, 15};
const int8_t qsa_levels_iq1[16] = {-8, 0, 8};

/* The signs of 8 weights: seven are stored, the eighth makes the number of minus signs even. */
static uint8_t eight_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (uint8_t)(seven | (parity & 1) << 7);
}

static int8_t with_sign(int8_t level, uint8_t signs, size_t i)
{
    return (int8_t)(signs >> i & 1 ? -level : level);
}

static void eight_of_iq2(uint16_t entry, uint8_t signs, int8_t *out)
{
    for (size_t i = 0; i < 8; i++)
        out[i] = with_sign(qsa_levels_iq2[entry >> (2 * i) & 3], signs, i);
}

static void four_of_iq3(uint16_t entry, const int8_t levels[16], uint8_t signs, int8_t *out)
{
    for (size_t i = 0; i < 4; i++)
        out[i] = with_sign(levels[entry >> (3 * i) & 7], signs, i);
}

/* An odd number over eight, the form of these formats' scales. */
static float odd_eighths(float d, uint32_t code)
{
    return d * ((float)(2 * code + 1) * 0.125f);
}

static void unpack_iq2_xxs(const uint8_t *p, size_t j, qsa_run *out)
{
    const uint8_t *codes = p + 2 + 8 * j;
    uint32_t signs = u32_at(codes + 4); /* four times seven, then the scale */
    for (size_t g = 0; g < 4; g++)
        eight_of_iq2(qsa_grid_iq2_xxs[codes[g]], eight_signs(signs >> (7 * g) & 127), out->w + 8 * g);
    set_scale(out, odd_eighths(f16_at(p), signs >> 28), 0.0f);
}

static void unpack_iq2_xs(const uint8_t *p, size_t j, qsa_run *out)
{
    for (size_t g = 0; g < 4; g++) {
        uint16_t code = u16_at(p + 2 + 8 * j + 2 * g);
        eight_of_iq2(qsa_grid_iq2_xs[code & 511], eight_signs(code >> 9), out->w + 8 * g);
    }
    for (size_t h = 0; h < 2; h++)
        set_half_scale(out, h, odd_eighths(f16_at(p), p[66 + j] >> (4 * h) & 15));
}

static void unpack_iq2_s(const uint8_t *p, size_t j, qsa_run *out)
{
    const uint8_t *codes = p + 2 + 4 * j, *signs = p + 34 + 4 * j;
    for (size_t g = 0; g < 4; g++) {
        int high = p[66 + j] >> (2 * g) & 3;
        eight_of_iq2(qsa_grid_iq2_s[codes[g] | high << 8], signs[g], out->w + 8 * g);
    }
    for (size_t h = 0; h < 2; h++)
        set_half_scale(out, h, odd_eighths(f16_at(p), p[74 + j] >> (4 * h) & 15));
}

static void unpack_iq3_xxs(const uint8_t *p, size_t j, qsa_run *out)
{
    uint32_t signs = u32_at(p + 66 + 4 * j);
    for (size_t g = 0; g < 8; g++) {
        uint8_t eight = eight_signs(signs >> (7 * (g / 2)) & 127);
        four_of_iq3(qsa_grid_iq3_xxs[p[2 + 8 * j + g]], qsa_levels_iq3_xxs, (uint8_t)(eight >> (g % 2 * 4)),
                    out->w + 4 * g);
    }
    set_scale(out, 2.0f * odd_eighths(f16_at(p), signs >> 28), 0.0f);
}

static void unpack_iq3_s(const uint8_t *p, size_t j, qsa_run *out)
{
    for (size_t g = 0; g < 8; g++) {
        int high = p[66 + j] >> g & 1;
        uint8_t signs = (uint8_t)(p[74 + 4 * j + g / 2] >> (g % 2 * 4));
        four_of_iq3(qsa_grid_iq3_s[p[2 + 8 * j + g] | high << 8], qsa_levels_iq3_s, signs, out->w + 4 * g);
    }
    set_scale(out, 8.0f * odd_eighths(f16_at(p), p[106 + j / 2] >> (j % 2 * 4) & 15), 0.0f);
}

/* The weights are -1, 0 or 1, all shifted by an eighth up or down: as integers, eight times that. */
static void eight_of_iq1(uint16_t entry, bool down, int8_t *out)
{
    for (size_t i = 0; i < 8; i++)
        out[i] = (int8_t)(qsa_levels_iq1[entry >> (2 * i) & 3] + (down ? -1 : 1));
}

static void unpack_iq1_s(const uint8_t *p, size_t j, qsa_run *out)
{
    uint16_t high = u16_at(p + 34 + 2 * j);
    for (size_t g = 0; g < 4; g++)
        eight_of_iq1(qsa_grid_iq1[p[2 + 4 * j + g] | (high >> (3 * g) & 7) << 8], high >> 15, out->w + 8 * g);
    set_scale(out, odd_eighths(f16_at(p), high >> 12 & 7), 0.0f);
}

static void unpack_iq1_m(const uint8_t *p, size_t j, qsa_run *out)
{
    for (size_t g = 0; g < 4; g++) {
        int high = p[32 + 2 * j + g / 2] >> (g % 2 * 4) & 15;
        eight_of_iq1(qsa_grid_iq1[p[4 * j + g] | (high & 7) << 8], high >> 3, out->w + 8 * g);
    }
    uint16_t d = 0; /* its four nibbles are the top ones of the words that hold the scales */
    for (size_t i = 0; i < 4; i++)
        d |= (uint16_t)(u16_at(p + 48 + 2 * i) >> 12 << (4 * i));
    uint16_t scales = u16_at(p + 48 + j / 2 * 2);
    for (size_t h = 0; h < 2; h++)
        set_half_scale(out, h, odd_eighths(qsa_f16_to_f32(d), scales >> (6 * (j % 2) + 3 * h) & 7));
}

/* ---- The table ---- */

/* clang-format off */
#define FLOATS(name, bytes) {.facts = {name, 1, bytes, false}}
#define INTEGERS(name, weights, bytes, sum, minimum) \
    {.facts = {#name, weights, bytes, true}, .sum_weights = sum, .has_minimum = minimum, .unpack = unpack_##name}

static const qsa_format_row rows[QSA_FORMAT_END] = {
    /*                                 block: weights bytes | summed | minimum */
    [QSA_FORMAT_Q4_0]    = INTEGERS(q4_0,        32,    18,    32,   false),
    [QSA_FORMAT_Q4_1]    = INTEGERS(q4_1,        32,    20,    32,   true),
    [QSA_FORMAT_Q5_0]    = INTEGERS(q5_0,        32,    22,    32,   false),
    [QSA_FORMAT_Q5_1]    = INTEGERS(q5_1,        32,    24,    32,   true),
    [QSA_FORMAT_Q8_0]    = INTEGERS(q8_0,        32,    34,    32,   false),
    [QSA_FORMAT_IQ4_NL]  = INTEGERS(iq4_nl,      32,    18,    32,   false),
    [QSA_FORMAT_MXFP4]   = INTEGERS(mxfp4,       32,    17,    32,   false),
    [QSA_FORMAT_NVFP4]   = INTEGERS(nvfp4,       64,    36,    16,   false),
    [QSA_FORMAT_Q2_K]    = INTEGERS(q2_K,       256,    84,    16,   true),
    [QSA_FORMAT_Q3_K]    = INTEGERS(q3_K,       256,   110,    16,   false),
    [QSA_FORMAT_Q4_K]    = INTEGERS(q4_K,       256,   144,    32,   true),
    [QSA_FORMAT_Q5_K]    = INTEGERS(q5_K,       256,   176,    32,   true),
    [QSA_FORMAT_Q6_K]    = {.facts = {"q6_K", 256, 210, true},
                            .sum_weights = 16, .crosses = true, .unpack = unpack_q6_K},
    [QSA_FORMAT_IQ4_XS]  = INTEGERS(iq4_xs,     256,   136,    32,   false),
    [QSA_FORMAT_IQ2_XXS] = INTEGERS(iq2_xxs,    256,    66,    32,   false),
    [QSA_FORMAT_IQ2_XS]  = INTEGERS(iq2_xs,     256,    74,    16,   false),
    [QSA_FORMAT_IQ2_S]   = INTEGERS(iq2_s,      256,    82,    16,   false),
    [QSA_FORMAT_IQ3_XXS] = INTEGERS(iq3_xxs,    256,    98,    32,   false),
    [QSA_FORMAT_IQ3_S]   = INTEGERS(iq3_s,      256,   110,    32,   false),
    [QSA_FORMAT_IQ1_S]   = INTEGERS(iq1_s,      256,    50,    32,   false),
    [QSA_FORMAT_IQ1_M]   = INTEGERS(iq1_m,      256,    56,    16,   false),
    [QSA_FORMAT_F32]     = FLOATS("f32", 4),
    [QSA_FORMAT_F16]     = FLOATS("f16", 2),
    [QSA_FORMAT_BF16]    = FLOATS("bf16", 2),
};
/* clang-format on */

const qsa_format_row *qsa_format_row_of(uint32_t gguf_type)
{
    return gguf_type < QSA_FORMAT_END && rows[gguf_type].facts.name ? &rows[gguf_type] : NULL;
}

const qsa_format_facts *qsa_format_find(uint32_t gguf_type)
{
    const qsa_format_row *row = qsa_format_row_of(gguf_type);
    return row ? &row->facts : NULL;
}

size_t qsa_format_row_bytes(qsa_format format, size_t inner)
{
    const qsa_format_facts *facts = &rows[format].facts;
    return inner / facts->block_weights * facts->block_bytes;
}

float qsa_float_weight(qsa_format format, const uint8_t *row, size_t i)
{
    if (format == QSA_FORMAT_F32)
        return qsa_f32_from_bits(u32_at(row + 4 * i));
    return format == QSA_FORMAT_F16 ? f16_at(row + 2 * i) : qsa_bf16_to_f32(u16_at(row + 2 * i));
}
