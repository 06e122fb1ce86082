/* SPDX-License-Identifier: Apache-2.0 */
/* q.k over a row (SPEC section 6, rule 4). Lanes are tokens: a block is one vector, a strip of four blocks shares each
 * number of up to six heads. 24 accumulators, four vectors of keys and one of q are 29 of the 32 registers. */
#include "kernels/arm/neon.h"

enum { STRIP_BLOCKS = 4, HEADS = 6, LINE_BYTES = 64, WIDE_FLOATS = 8192 };

typedef struct strip {
    const void *block[STRIP_BLOCKS];
    const void *next[STRIP_BLOCKS]; /* wanted soon */
    uint32_t count;                 /* blocks that are stored */
} strip;

/* Dots of the strip with `heads` heads. out [heads][out_stride] */
QSA_INLINE void dots_strip(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                           float *out, size_t out_stride)
{
    const size_t row_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_F32 ? sizeof(float) : sizeof(uint16_t));
    const uint32_t line_rows = LINE_BYTES / row_bytes;
    float32x4_t sums[HEADS][STRIP_BLOCKS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        QSA_UNROLL
    for (int b = 0; b < STRIP_BLOCKS; b++)
        sums[h][b] = vdupq_n_f32(0.0f);

    for (uint32_t line = 0; line < dim; line += line_rows) {
        for (int b = 0; b < STRIP_BLOCKS; b++)
            __builtin_prefetch((const char *)s->next[b] + line * row_bytes);
        const uint32_t end = dim - line < line_rows ? dim : line + line_rows;
        for (size_t d = line; d < end; d++) {
            float32x4_t keys[STRIP_BLOCKS];
            QSA_UNROLL
            for (int b = 0; b < STRIP_BLOCKS; b++)
                keys[b] = qsa_four_load(s->block[b], d * QSA_BLOCK_TOKENS, type);
            QSA_UNROLL
            for (uint32_t h = 0; h < heads; h++)
                QSA_UNROLL
            for (int b = 0; b < STRIP_BLOCKS; b++)
                sums[h][b] = vfmaq_n_f32(sums[h][b], keys[b], q[(size_t)h * dim + d]);
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        QSA_UNROLL
    for (uint32_t b = 0; b < STRIP_BLOCKS; b++)
        if (b < s->count)
            vst1q_f32(out + h * out_stride + b * QSA_BLOCK_TOKENS, sums[h][b]);
}

static void dots_strip_f32(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS(heads, dots_strip(q, ROWS_CONSTANT, dim, s, QSA_ELEMENT_F32, out, out_stride))
}

static void dots_strip_bf16(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS(heads, dots_strip(q, ROWS_CONSTANT, dim, s, QSA_ELEMENT_BF16, out, out_stride))
}

static void dots_strip_f16(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS(heads, dots_strip(q, ROWS_CONSTANT, dim, s, QSA_ELEMENT_F16, out, out_stride))
}

/* Blocks b .. b + 4; past the last one, the last again. The ones after them are next. */
static strip strip_at(const void *const *blocks, uint32_t n_blocks, uint32_t b)
{
    const uint32_t left = n_blocks - b;
    strip s = {.count = left < STRIP_BLOCKS ? left : STRIP_BLOCKS};
    for (uint32_t i = 0; i < STRIP_BLOCKS; i++) {
        s.block[i] = blocks[b + (i < left ? i : left - 1)];
        s.next[i] = blocks[b + (i + STRIP_BLOCKS < left ? i + STRIP_BLOCKS : left - 1)];
    }
    return s;
}

typedef void strip_fn(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out, size_t out_stride);

/* Strip by strip: the later passes over the heads find the keys in cache. */
static void dots(strip_fn *of_strip, const float *q, uint32_t heads, uint32_t dim, const void *const *blocks,
                 uint32_t n_blocks, float *out, size_t out_stride)
{
    const size_t passes = qsa_passes(heads, HEADS);
    for (uint32_t b = 0; b < n_blocks; b += STRIP_BLOCKS) {
        const strip s = strip_at(blocks, n_blocks, b);
        for (size_t pass = 0; pass < passes; pass++) {
            uint32_t first = (uint32_t)(heads * pass / passes), last = (uint32_t)(heads * (pass + 1) / passes);
            of_strip(q + (size_t)first * dim, last - first, dim, &s,
                     out + first * out_stride + (size_t)b * QSA_BLOCK_TOKENS, out_stride);
        }
    }
}

void qsa_dots_f32__neon(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                        float *out, size_t out_stride)
{
    dots(dots_strip_f32, q, heads, dim, blocks, n_blocks, out, out_stride);
}

void qsa_dots_bf16__neon(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                         float *out, size_t out_stride)
{
    dots(dots_strip_bf16, q, heads, dim, blocks, n_blocks, out, out_stride);
}

void qsa_dots_f16__neon(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                        float *out, size_t out_stride)
{
    dots(dots_strip_f16, q, heads, dim, blocks, n_blocks, out, out_stride);
}

/* A K block of q8_0 to f32: out [dim][4]. */
static void widen_block(const void *block, uint32_t dim, float *out)
{
    const uint8_t *chunk = block;
    for (uint32_t first = 0; first < dim; first += QSA_CHUNK_DIMS, chunk += QSA_K_CHUNK_BYTES) {
        const float32x4_t scales = qsa_four_from_f16((const uint16_t *)(const void *)chunk);
        const uint8_t *quants = chunk + QSA_BLOCK_TOKENS * sizeof(uint16_t);
        for (uint32_t d = 0; d < QSA_CHUNK_DIMS; d++)
            vst1q_f32(out + QSA_BLOCK_TOKENS * (size_t)(first + d),
                      qsa_four_quants(quants + QSA_BLOCK_TOKENS * d, scales));
    }
}

/* Widening costs as much as two heads' products: a few blocks are widened once for all heads. */
void qsa_dots_q8_0__neon(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                         float *out, size_t out_stride)
{
    float wide[WIDE_FLOATS];
    const void *addresses[WIDE_FLOATS / QSA_BLOCK_TOKENS];
    const uint32_t block_floats = dim * QSA_BLOCK_TOKENS, most = WIDE_FLOATS / block_floats;
    if (most == 0) {
        qsa_dots_q8_0__scalar(q, heads, dim, blocks, n_blocks, out, out_stride);
        return;
    }
    for (uint32_t b = 0; b < n_blocks; b += most) {
        const uint32_t count = n_blocks - b < most ? n_blocks - b : most;
        for (uint32_t i = 0; i < count; i++) {
            addresses[i] = wide + (size_t)i * block_floats;
            widen_block(blocks[b + i], dim, wide + (size_t)i * block_floats);
        }
        qsa_dots_f32__neon(q, heads, dim, addresses, count, out + (size_t)b * QSA_BLOCK_TOKENS, out_stride);
    }
}
