/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys a file may have. */
#ifndef QSA_ENGINE_MODEL_KNOWN_KEYS_H
#define QSA_ENGINE_MODEL_KNOWN_KEYS_H

#include "file/gguf_file.h"

/* Whether the engine reads a key, and if not, why that is right (out_reason; NULL: it reads it). Errors:
 * QSA_E_UNSUPPORTED (a key that is not known, or whose value asks for something else than the engine does; by name). */
qsa_status key_check(const gguf_file *file, const char *key, const char **out_reason);

#endif
