/* SPDX-License-Identifier: Apache-2.0 */
#include "model/pass.h"

/* clang-format off */
#define TASK(name)                                                                                                     \
    void task_##name(const void *context, const void *operation, size_t begin, size_t end)                             \
    {                                                                                                                  \
        ((const pass *)context)->ops->name(operation, (ops_range){begin, end});                                        \
    }
/* clang-format on */

TASK(norm)
TASK(squash)
TASK(mix)
TASK(residual)
TASK(unit)
TASK(gates)
TASK(gated_norm)
TASK(route)
TASK(swiglu)
TASK(ngram_gate)
TASK(ngram_add)
TASK(gate)
