/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of docs/PRODUCTS.md, as it is written there. */
#include "products/tile.h"

#include "base/elementary.h"
#include "base/float_env.h"

/* ---- Columns ---- */

static void quantise_block(const float *x, qsa_column_block *out)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < QSA_RUN; i++) {
        uint32_t magnitude = qsa_f32_bits(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    float a = qsa_f32_from_bits(largest);
    if (!(a >= 0x1p-100f && a < INFINITY)) {
        qsa_quantise_unusual(a, out);
        return;
    }
    int32_t half_sum[2] = {0, 0};
    float inverse = 127.0f / a;
    for (size_t i = 0; i < QSA_RUN; i++) {
        out->q[i] = (int8_t)rintf(x[i] * inverse); /* never beyond 127 */
        half_sum[i / QSA_HALF_RUN] += out->q[i];
    }
    qsa_finish_block(a, half_sum[0], half_sum[1], out);
}

void qsa_quantise_scalar(const qsa_columns *columns, size_t c)
{
    for (size_t b = 0; b < columns->inner / QSA_RUN; b++)
        quantise_block(columns->values + c * columns->stride + b * QSA_RUN, &columns->blocks[b * columns->count + c]);
}

/* ---- Products ---- */

static float integer_sum(const int8_t *w, const int8_t *q, size_t n)
{
    int32_t sum = 0; /* below 2^24 in magnitude: exact as f32 */
    for (size_t i = 0; i < n; i++)
        sum += w[i] * q[i];
    return (float)sum;
}

/* One run joins the sum. */
static float add_run(const qsa_format_row *format, const qsa_run *run, const qsa_column_block *x, float acc)
{
    if (format->sum_weights == QSA_RUN) {
        acc = fmaf(integer_sum(run->w, x->q, QSA_RUN), run->scale[0] * x->scale, acc);
        return format->has_minimum ? fmaf(run->minimum[0], x->scaled_sum, acc) : acc;
    }
    for (size_t h = 0; h < 2; h++) {
        size_t begin = h * QSA_HALF_RUN;
        acc = fmaf(integer_sum(run->w + begin, x->q + begin, QSA_HALF_RUN), run->scale[h] * x->scale, acc);
        acc = format->has_minimum ? fmaf(run->minimum[h], x->scaled_half_sum[h], acc) : acc;
    }
    return acc;
}

static float integer_product(const qsa_tile *tile, size_t r, size_t c)
{
    float acc = 0.0f;
    for (size_t i = 0; i < tile->inner / QSA_RUN; i++) {
        size_t j = qsa_run_in_order(tile->row_format, i);
        qsa_run run;
        qsa_unpack(tile->row_format, tile->weights + r * tile->row_bytes, j, &run);
        acc = add_run(tile->row_format, &run, &tile->block[j * tile->block_count + tile->column[c]], acc);
    }
    return acc;
}

static float float_product(const qsa_tile *tile, size_t r, size_t c)
{
    const float *x = tile->values + tile->column[c] * tile->stride;
    float sum[16] = {0.0f};
    for (size_t k = 0; k < tile->inner; k++)
        sum[k % 16] = fmaf(qsa_float_weight(tile->format, tile->weights + r * tile->row_bytes, k), x[k], sum[k % 16]);
    for (size_t half = 8; half >= 1; half /= 2)
        for (size_t i = 0; i < half; i++)
            sum[i] += sum[i + half];
    return sum[0];
}

void qsa_tile_scalar(const qsa_tile *tile)
{
    for (size_t c = 0; c < tile->columns; c++)
        for (size_t r = 0; r < tile->rows; r++)
            tile->y[c * tile->y_stride + r] =
                tile->row_format->unpack ? integer_product(tile, r, c) : float_product(tile, r, c);
}

QSA_PRODUCTS_TABLE(scalar, "scalar", "scalar");

/* ---- Rows ---- */

static void integer_row(const qsa_format_row *format, const uint8_t *row, size_t inner, float *out)
{
    for (size_t j = 0; j < inner / QSA_RUN; j++) {
        qsa_run run;
        qsa_unpack(format, row, j, &run);
        for (size_t i = 0; i < QSA_RUN; i++) {
            float w = (float)run.w[i], scale = run.scale[i / QSA_HALF_RUN];
            out[j * QSA_RUN + i] = format->has_minimum ? fmaf(w, scale, run.minimum[i / QSA_HALF_RUN]) : w * scale;
        }
    }
}

void qsa_weights_row(const qsa_weights *weights, size_t row, float *out)
{
    const qsa_format_row *format = qsa_format_row_of(weights->format);
    const uint8_t *bytes = (const uint8_t *)weights->data + row * weights->row_bytes;
    qsa_float_env saved = qsa_float_env_enter();
    if (format->unpack)
        integer_row(format, bytes, weights->inner, out);
    else
        for (size_t i = 0; i < weights->inner; i++)
            out[i] = qsa_float_weight(weights->format, bytes, i);
    qsa_float_env_leave(saved);
}
