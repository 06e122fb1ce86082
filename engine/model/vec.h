/* SPDX-License-Identifier: Apache-2.0 */
/* A vector of floats as wide as the compiler may use, for loops of our own nodes that a compiler left alone keeps in
 * memory instead of in registers.
 *
 * Vectors run across independent results, or hold the SUM_LANES partial sums of a dot product; so the width cannot be
 * seen in a result. Where the target has no fused multiply-add, fmaf gives the same bits, slowly. */
#ifndef QSA_ENGINE_MODEL_VEC_H
#define QSA_ENGINE_MODEL_VEC_H

#include "model/elementwise.h"

#if defined(__AVX512F__)
#include <immintrin.h>
enum { VEC = 16 };
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
enum { VEC = 8 };
#else
#if defined(__aarch64__)
#include <arm_neon.h>
#endif
enum { VEC = 4 };
#endif

typedef float vec __attribute__((vector_size(VEC * sizeof(float))));
typedef uint32_t vec_bits __attribute__((vector_size(VEC * sizeof(float))));

static inline vec vec_load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void vec_store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

/* Of n elements; the rest are 0. */
static inline vec vec_load_some(const float *from, size_t n)
{
    if (n >= VEC)
        return vec_load(from);
    vec v = {0};
    memcpy(&v, from, n * sizeof *from);
    return v;
}

static inline void vec_store_some(float *to, size_t n, vec v)
{
    memcpy(to, &v, n < VEC ? n * sizeof *to : sizeof v);
}

static inline vec vec_of(float x)
{
    return x - (vec){0};
}

/* a * b + c, rounded once. */
static inline vec vec_fma(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    for (int i = 0; i < VEC; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

/* x, but no less than `least` and no more than `most`. */
static inline vec vec_clamp(vec x, float least, float most)
{
#if defined(__AVX512F__)
    return (vec)_mm512_min_ps(_mm512_set1_ps(most), _mm512_max_ps(_mm512_set1_ps(least), (__m512)x));
#elif defined(__AVX2__) && defined(__FMA__)
    return (vec)_mm256_min_ps(_mm256_set1_ps(most), _mm256_max_ps(_mm256_set1_ps(least), (__m256)x));
#else
    for (int i = 0; i < VEC; i++) {
        x[i] = x[i] < least ? least : x[i];
        x[i] = x[i] > most ? most : x[i];
    }
    return x;
#endif
}

/* exp_f32 and sigmoid_f32 of each element, bit for bit. */
static inline vec vec_exp(vec x)
{
    x = vec_clamp(x, EXP_LEAST, EXP_MOST);
    const vec shifted = x * EXP_LOG2E + EXP_MAGIC, n = shifted - EXP_MAGIC;
    const vec r = (x - n * EXP_LN2_HIGH) + n * EXP_LN2_LOW;
    vec p = vec_of(EXP_C5);
    p = p * r + EXP_C4;
    p = p * r + EXP_C3;
    p = p * r + EXP_C2;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const vec_bits exponent = (vec_bits)shifted - (vec_bits)vec_of(EXP_MAGIC);
    return (vec)((vec_bits)p + (exponent << 23));
}

static inline vec vec_sigmoid(vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

#endif
