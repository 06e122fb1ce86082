/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel once more, as one would write it who never saw src/kernels: plain arrays of f32, one output at a time.
 * Arguments as in kernels/kernels.h; stored elements come widened. */
#ifndef NAIVE_KERNELS_H
#define NAIVE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Score of one group: q [heads][dim], keys [dim][groups]. */
float naive_score(const float *q, size_t heads, size_t dim, const float *keys, size_t groups, size_t group);

/* A chain over a[i * a_step] and b[i * b_step]. */
float naive_chain(const float *a, size_t a_step, const float *b, size_t b_step, size_t n);

float naive_e2(float x);

/* x[0 .. n) becomes weights; returns L. */
float naive_weights(float *x, size_t n);

/* One output of attention: the chain over p and the d-th numbers of v [n][dim], scaled. */
float naive_weighted_sum(const float *p, const float *v, size_t n, size_t dim, size_t d, float sum);

/* One head. */
void naive_norm_rotate(const float *x, size_t dim, const float *weight, float eps, size_t pairs, const float *cos,
                       const float *sin, bool bf16, float *out);

/* The bf16 nearest to x, the even one of two equally near; found by comparing distances. x is finite. */
uint16_t naive_bf16(float x);

#endif
