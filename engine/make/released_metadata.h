/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a random model's file: shape, n-gram hash parameters, and a vocabulary of any size. */
#ifndef QSA_ENGINE_MAKE_RELEASED_METADATA_H
#define QSA_ENGINE_MAKE_RELEASED_METADATA_H

#include "make/released_plan.h"

/* Errors: QSA_E_MEMORY. */
qsa_status released_set_keys(const released_plan *plan, struct gguf_context *file);

#endif
