/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan of a context for people and for programs, and `-c max`. */
#ifndef QSA_CONSOLE_PLAN_TABLE_H
#define QSA_CONSOLE_PLAN_TABLE_H

#include "console/options.h"

#include <jansson.h>
#include <qsa_engine.h>
#include <stdio.h>

/* A context of `-c max`, until plan_resolve_max says how many tokens that is. */
enum { PLAN_CONTEXT_MAX = UINT32_MAX };

/* Takes the option: a number of tokens, or "max". False after saying what is wrong. */
bool plan_option_context(const options *o, int option, uint32_t *out_context);

/* Replaces PLAN_CONTEXT_MAX by the largest context that fits into memory, said on stderr; leaves any other value. False
 * after saying that none fits. */
bool plan_resolve_max(const char *command, const qsa_model *model, qsa_context_options *options);

/* One line on stderr if not all weights fit into memory beside such a context. */
void plan_warn(const char *command, const qsa_model *model, const qsa_context_options *options);

/* What is resident, what is mapped, what is free, and whether the model runs here at which context. */
void plan_print(FILE *out, const qsa_plan *plan);
json_t *plan_json(const qsa_plan *plan);

#endif
