/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the quoter's file: shape, and a byte-level vocabulary. */
#ifndef QSA_ENGINE_MAKE_QUOTER_METADATA_H
#define QSA_ENGINE_MAKE_QUOTER_METADATA_H

#include "make/quoter_plan.h"

#include <gguf.h>

void quoter_set_keys(const quoter_plan *plan, struct gguf_context *file);

#endif
