/* SPDX-License-Identifier: Apache-2.0 */
/* Refused input (SPEC section 6, rule 7). The first refusal by (layer, entry, token, tensor) is the one reported, in
 * whatever order threads ran: it is one number, and parts only lower it. */
#ifndef QSA_DEVICE_REFUSAL_H
#define QSA_DEVICE_REFUSAL_H

#include <qsa/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Tensors in the order in which they are reported. */
enum qsa_input {
    QSA_INPUT_Q = 0,
    QSA_INPUT_K,
    QSA_INPUT_V,
    QSA_INPUT_INDEX_Q,
    QSA_INPUT_RAW_KEY,
    QSA_INPUT_K_STORED, /* finite, but beyond what the K/V type can hold */
    QSA_INPUT_V_STORED
};

typedef struct qsa_refusals {
    atomic_uint_fast64_t lowest; /* UINT64_MAX: none */
} qsa_refusals;

void qsa_refusals_begin(qsa_refusals *refusals);
/* token counts from the first of its entry. */
void qsa_refuse(qsa_refusals *refusals, uint32_t layer, uint32_t entry, uint32_t token, enum qsa_input input);
static inline bool qsa_refused(const qsa_refusals *refusals)
{
    return atomic_load(&refusals->lowest) != UINT64_MAX;
}
/* QSA_OK, or QSA_E_NONFINITE with its detail. */
qsa_status qsa_refusals_status(const qsa_refusals *refusals);

#endif
