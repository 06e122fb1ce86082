/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a layer on the host, in order; docs/ARCHITECTURE.md says what each does. A barrier lies between two. */
#ifndef QSA_DEVICE_HOST_PHASES_H
#define QSA_DEVICE_HOST_PHASES_H

#include "device/host/store.h"

void qsa_host_append(const qsa_host_context *c);
void qsa_host_scan(const qsa_host_context *c);
void qsa_host_select(const qsa_host_context *c);
void qsa_host_qk(const qsa_host_context *c);
void qsa_host_attend(const qsa_host_context *c);

/* The tokens of `entries` [begin, end) of a query's selection for one kv head, as addresses: its groups, and after them
 * the tail as one entry more. */
void qsa_host_addresses(const qsa_host_context *c, uint32_t token, uint32_t kv_head, uint32_t begin, uint32_t end,
                        qsa_addresses *out);

/* A complete group: where its first token lies, and that token's cos and sin. */
typedef struct qsa_group {
    qsa_place first;
    const float *cos_sin;
} qsa_group;

/* The pooled keys of n groups, at most QSA_POOLED_AT_ONCE, from their raw keys. */
void qsa_host_pool(qsa_host_store *store, uint32_t layer, const qsa_scratch *scratch, const qsa_group *groups,
                   uint32_t n);

#endif
