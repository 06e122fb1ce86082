/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax attention over a row in two passes (SPEC section 6, rule 4): dots, weights, accumulate. */
#include "kernels/element.h"
#include "kernels/functions.h"

static inline void dots(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                        float *out, size_t out_stride, enum qsa_element type)
{
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t b = 0; b < n_blocks; b++)
            for (uint32_t t = 0; t < QSA_BLOCK_TOKENS; t++) {
                float dot = 0.0f;
                for (uint32_t d = 0; d < dim; d++)
                    dot = fmaf(q[(size_t)h * dim + d], qsa_k_at(blocks[b], d, t, type), dot);
                out[h * out_stride + (size_t)b * QSA_BLOCK_TOKENS + t] = dot;
            }
}

void qsa_dots_f32__scalar(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                          float *out, size_t out_stride)
{
    dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F32);
}

void qsa_dots_bf16__scalar(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                           float *out, size_t out_stride)
{
    dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_BF16);
}

void qsa_dots_f16__scalar(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                          float *out, size_t out_stride)
{
    dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F16);
}

void qsa_dots_q8_0__scalar(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                           float *out, size_t out_stride)
{
    dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_Q8_0);
}

void qsa_weights__scalar(float *x, size_t stride, uint32_t heads, uint32_t n, float *sum)
{
    for (uint32_t h = 0; h < heads; h++) {
        float *row = x + h * stride;
        float maximum = -INFINITY;
        for (uint32_t j = 0; j < n; j++)
            maximum = row[j] > maximum ? row[j] : maximum;
        sum[h] = 0.0f;
        for (uint32_t j = 0; j < n; j++) {
            row[j] = qsa_e2(row[j] - maximum);
            sum[h] = sum[h] + row[j];
        }
    }
}

static inline void accumulate(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                              uint32_t dim, const float *sum, float *out, size_t out_stride, enum qsa_element type)
{
    for (uint32_t h = 0; h < heads; h++) {
        float reciprocal = 1.0f / sum[h];
        for (uint32_t d = 0; d < dim; d++) {
            float a = 0.0f;
            for (uint32_t j = 0; j < n; j++)
                a = fmaf(p[h * stride + j], qsa_v_at(v[j], d, type), a);
            out[h * out_stride + d] = a * reciprocal + 0.0f;
        }
    }
}

void qsa_accumulate_f32__scalar(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    accumulate(p, stride, heads, v, n, dim, sum, out, out_stride, QSA_ELEMENT_F32);
}

void qsa_accumulate_bf16__scalar(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                 uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    accumulate(p, stride, heads, v, n, dim, sum, out, out_stride, QSA_ELEMENT_BF16);
}

void qsa_accumulate_f16__scalar(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    accumulate(p, stride, heads, v, n, dim, sum, out, out_stride, QSA_ELEMENT_F16);
}

void qsa_accumulate_q8_0__scalar(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                 uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    accumulate(p, stride, heads, v, n, dim, sum, out, out_stride, QSA_ELEMENT_Q8_0);
}
