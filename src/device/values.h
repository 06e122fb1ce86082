/* SPDX-License-Identifier: Apache-2.0 */
/* Values to and from a page in host memory; x is f32, widened or rounded on the way. `page` is the start of the page in
 * the arena that the function names. Everything but the kernels accesses elements through here; kernels read blocks,
 * tiles and V rows in place. */
#ifndef QSA_DEVICE_VALUES_H
#define QSA_DEVICE_VALUES_H

#include "device/layout.h"
#include "index/pool.h"

/* False if the K/V type cannot hold one of the head_dim values of x: it would round to infinity. */
bool qsa_storable(const qsa_kernels *kernels, const qsa_layout *layout, const float *x);

void qsa_store_k(const qsa_kernels *kernels, const qsa_layout *layout, uint8_t *page, uint32_t slot, uint32_t head,
                 const float *x);
/* A whole block of K: four tokens, slot a multiple of four; token t at x + t * stride. */
void qsa_store_k_block(const qsa_kernels *kernels, const qsa_layout *layout, uint8_t *page, uint32_t slot,
                       uint32_t head, const float *x, size_t stride);
void qsa_store_v(const qsa_kernels *kernels, const qsa_layout *layout, uint8_t *page, uint32_t slot, uint32_t head,
                 const float *x);
void qsa_store_raw(const qsa_layout *layout, uint8_t *page, uint32_t slot, const float *x);
void qsa_store_pooled(const qsa_layout *layout, uint8_t *page, uint32_t first_slot, const float *x);

void qsa_load_k(const qsa_layout *layout, const uint8_t *page, uint32_t slot, uint32_t head, float *x);
void qsa_load_v(const qsa_layout *layout, const uint8_t *page, uint32_t slot, uint32_t head, float *x);
void qsa_load_raw(const qsa_layout *layout, const uint8_t *page, uint32_t slot, float *x);
void qsa_load_pooled(const qsa_layout *layout, const uint8_t *page, uint32_t first_slot, float *x);

/* Copies one token between K pages; between other arenas rows are plain bytes. */
void qsa_copy_kv(const qsa_layout *layout, const uint8_t *from, uint32_t from_slot, uint8_t *to, uint32_t to_slot);

/* The pooled key of the group at first_slot of a page of raw keys. raw: working memory [ratio][index_dim]. */
void qsa_pool_page_group(const qsa_kernels *kernels, const qsa_layout *layout, const qsa_pool_rule *rule,
                         const uint8_t *raw_page, uint32_t first_slot, const float *cos_sin, float *raw, float *out);

#endif
