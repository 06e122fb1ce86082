/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a context, and the memory that it will take. */
#ifndef QSA_ENGINE_SESSION_PLAN_H
#define QSA_ENGINE_SESSION_PLAN_H

#include "model/model.h"

enum { MAX_CHECKPOINTS = 32, DEFAULT_CHECKPOINTS = 8 };

/* Bytes of a session_state before its floats. */
enum { PLAN_STATE_HEAD_BYTES = 24 };

/* Checks the options (NULL: the defaults) and fills in what 0 stands for. Errors: QSA_E_LIMIT, by name. */
qsa_status plan_options(const qsa_model *model, const qsa_context_options *options, qsa_context_options *out_options);

/* The cache of a context, without norms. options: complete. */
qsa_config plan_cache_config(const qsa_model *model, const qsa_context_options *options);

/* Of one recurrent state with its logits. */
size_t plan_state_bytes(const model_shape *shape);

/* As qsa_context_plan, for given room. */
qsa_status plan_within(const qsa_model *model, const qsa_context_options *options,
                       const qsa_available_memory *available, qsa_plan *out_plan);

/* QSA_E_MEMORY, with the numbers, if a context with these complete options cannot be taken now. */
qsa_status plan_check(const qsa_model *model, const qsa_context_options *options);

#endif
