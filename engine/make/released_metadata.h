/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the file: shape, n-gram hashes, and a vocabulary of the size asked for. */
#ifndef QSA_ENGINE_MAKE_RELEASED_METADATA_H
#define QSA_ENGINE_MAKE_RELEASED_METADATA_H

#include "make/released_plan.h"

/* Errors: QSA_E_MEMORY. */
qsa_status released_set_keys(const released_plan *plan, struct gguf_context *file);

#endif
