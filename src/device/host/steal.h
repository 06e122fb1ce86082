/* SPDX-License-Identifier: Apache-2.0 */
/* Work stealing. Each part begins with its own tasks; one that has finished steals from another that has begun and has
 * not, so that a thread that the system held up is not waited for. Tasks of a part that has not begun are left to it:
 * parts may run one after another, on one thread. */
#ifndef QSA_DEVICE_HOST_STEAL_H
#define QSA_DEVICE_HOST_STEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Phases whose tasks can be stolen. */
enum qsa_stealing { QSA_STEALING_SCAN = 0, QSA_STEALING_QK, QSA_STEALING_ATTEND, QSA_STEALING_COUNT };

#define QSA_NOT_BEGUN UINT64_MAX

/* The next of a part's own tasks; QSA_NOT_BEGUN until the part comes. */
typedef struct qsa_next_task {
    atomic_uint_fast64_t task;
    char padding[64 - sizeof(atomic_uint_fast64_t)]; /* a cache line of its own */
} qsa_next_task;

/* Before the first phase of a layer, by the part itself: a barrier lies between it and the phases that steal. */
void qsa_steal_reset(qsa_next_task *next);

/* The next of n tasks for `part`, [*begin, *end): at most `most` of its own, then of others. False: none are left.
 * next [parts] */
bool qsa_steal(qsa_next_task *next, uint64_t n, uint32_t part, uint32_t parts, uint32_t most, uint64_t *begin,
               uint64_t *end);

#endif
