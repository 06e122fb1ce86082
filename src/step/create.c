/* SPDX-License-Identifier: Apache-2.0 */
/* The scratch of a step. It is carved together with the cache's own memory, so qsa_plan_memory and qsa_cache_create
 * are here. */
#include "step/step.h"

#include <assert.h>
#include <string.h>

/* config passed qsa_shape_check. Returns NULL while measuring. */
static void *carve_step(qsa_carve *carve, const qsa_config *config)
{
    struct qsa_step *step = qsa_carve_bytes(carve, 1, sizeof *step), local;
    memset(&local, 0, sizeof local);
    const uint64_t tokens = config->max_step_tokens;
    local.entries = qsa_carve_bytes(carve, tokens, sizeof *local.entries);
    local.batch_entries = qsa_carve_bytes(carve, tokens, sizeof *local.batch_entries);
    local.token_entry = qsa_carve_bytes(carve, tokens, sizeof *local.token_entry);
    local.queries = qsa_carve_bytes(carve, tokens, sizeof *local.queries);
    local.tasks = qsa_carve_bytes(carve, tokens, sizeof *local.tasks);
    local.relative = qsa_carve_bytes(carve, tokens, sizeof *local.relative);
    local.cos_sin = qsa_carve_bytes(carve, 2 * tokens * config->rotary_dim, sizeof(float));
    local.sequence_stamp = qsa_carve_bytes(carve, config->max_sequences, sizeof(uint64_t));
    local.layer.next_phase = qsa_carve_bytes(carve, QSA_MAX_PARTS, 1);
    local.layer_done = qsa_carve_bytes(carve, config->layers, 1);
    if (step == NULL)
        return NULL;
    memset(local.sequence_stamp, 0, config->max_sequences * sizeof(uint64_t));
    memcpy(step, &local, sizeof local);
    step->batch = (qsa_batch){.entries = step->batch_entries,
                              .token_entry = step->token_entry,
                              .queries = step->queries,
                              .tasks = step->tasks,
                              .cos_sin = step->cos_sin,
                              .refusals = &step->refusals};
    return step;
}

qsa_status qsa_plan_memory(const qsa_config *config, qsa_memory_plan *out_plan)
{
    if (out_plan == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "plan: NULL argument");
    return qsa_cache_plan(config, carve_step, out_plan);
}

qsa_status qsa_cache_create(const qsa_config *config, qsa_cache **out_cache)
{
    if (out_cache == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "create: NULL argument");
    qsa_cache *cache;
    QSA_TRY(qsa_cache_make(config, carve_step, &cache));
    qsa_step_of(cache)->cache = cache;
    *out_cache = cache;
    return QSA_OK;
}
