/* SPDX-License-Identifier: Apache-2.0 */
/* What of a model file is not read, and why. */
#ifndef QSA_CONSOLE_LEFT_OUT_TABLE_H
#define QSA_CONSOLE_LEFT_OUT_TABLE_H

#include <jansson.h>
#include <qsa_engine.h>
#include <stdio.h>

/* A line per reason: how many tensors and keys, their bytes, the first names. Nothing if all is read. */
void left_out_print(FILE *out, const qsa_model *model);

/* [{"tensor": NAME or "key": NAME, "bytes": N (of a tensor), "reason": TEXT}, ...] */
json_t *left_out_json(const qsa_model *model);

#endif
