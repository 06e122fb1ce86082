/* SPDX-License-Identifier: Apache-2.0 */
#include "session/plan.h"

#include "base/available.h"
#include "base/error.h"
#include "model/forward.h"
#include "model/state.h"
#include "model/weight_kinds.h"

#include <stdio.h>

enum { MAX_YARN_FACTOR = 1024 };

/* ---- options ---- */

void qsa_context_options_init(qsa_context_options *options)
{
    *options = (qsa_context_options){
        .size_bytes = sizeof *options,
        .context = 0,
        .sessions = 1,
        .chunk = 0,
        .threads = 1,
        .kv = QSA_KV_BF16,
        .index = QSA_PROFILE_BF16,
        .checkpoints = DEFAULT_CHECKPOINTS,
        .profile = false,
    };
}

static qsa_status check_options(const qsa_context_options *o)
{
    if (o->context > QSA_MAX_POSITION) {
        return engine_fail(QSA_E_LIMIT, "context is %u tokens, at most %lld are supported", o->context,
                           (long long)QSA_MAX_POSITION);
    }
    if (o->sessions < 1 || o->sessions >= QSA_MAX_SEQUENCES)
        return engine_fail(QSA_E_LIMIT, "sessions is %u, supported are 1 to %d", o->sessions, QSA_MAX_SEQUENCES - 1);
    if (o->chunk < 1 || o->chunk > QSA_MAX_STEP_TOKENS)
        return engine_fail(QSA_E_LIMIT, "chunk is %u, supported are 1 to %d", o->chunk, QSA_MAX_STEP_TOKENS);
    if (o->checkpoints > MAX_CHECKPOINTS)
        return engine_fail(QSA_E_LIMIT, "checkpoints is %u, at most %d are supported", o->checkpoints, MAX_CHECKPOINTS);
    if (o->threads < 1 || o->threads > QSA_MAX_PARTS)
        return engine_fail(QSA_E_LIMIT, "threads is %u, supported are 1 to %d", o->threads, QSA_MAX_PARTS);
    return QSA_OK;
}

/* What YaRN stretches: the context of the training. */
static float original_context(const model_shape *s)
{
    return s->qsa.yarn.factor > 0 ? s->qsa.yarn.original_context : (float)s->context;
}

static uint64_t plan_longest(const qsa_model *model, const qsa_context_options *o)
{
    if (o->yarn_factor == 0)
        return model->shape.context;
    const double longest = (double)original_context(&model->shape) * (double)o->yarn_factor;
    return longest < (double)QSA_MAX_POSITION ? (uint64_t)longest : (uint64_t)QSA_MAX_POSITION;
}

/* A context beyond what its table of rotary angles was stretched to is refused, where a factor was asked for. */
static qsa_status check_yarn(const qsa_model *model, const qsa_context_options *o)
{
    if (o->yarn_factor == 0)
        return QSA_OK;
    if (!(o->yarn_factor >= 1 && o->yarn_factor <= MAX_YARN_FACTOR)) {
        return engine_fail(QSA_E_LIMIT, "yarn_factor is %g, supported are 1 to %d", (double)o->yarn_factor,
                           MAX_YARN_FACTOR);
    }
    const uint64_t longest = plan_longest(model, o);
    if (o->context > longest) {
        return engine_fail(QSA_E_LIMIT,
                           "context is %u tokens, but YaRN with factor %g reaches %llu: %g times the %g of "
                           "the file",
                           o->context, (double)o->yarn_factor, (unsigned long long)longest, (double)o->yarn_factor,
                           (double)original_context(&model->shape));
    }
    return QSA_OK;
}

qsa_status plan_options(const qsa_model *model, const qsa_context_options *options, qsa_context_options *out_options)
{
    qsa_context_options complete;
    if (options == NULL)
        qsa_context_options_init(&complete);
    else
        complete = *options;
    ENGINE_TRY(check_yarn(model, &complete));
    if (complete.context == 0)
        complete.context = (uint32_t)plan_longest(model, &complete);
    if (complete.chunk == 0)
        complete.chunk = forward_best_chunk(&model->shape);
    ENGINE_TRY(check_options(&complete));
    *out_options = complete;
    return QSA_OK;
}

/* Extra capacity, so that the requested tokens always fit: sequences take whole pages, and two that share a page both
 * copy it if both write at one time. One more sequence than sessions: a session that forks another keeps its own until
 * the fork exists. */
qsa_config plan_cache_config(const qsa_model *model, const qsa_context_options *o)
{
    qsa_config config = model->shape.qsa;
    const uint32_t others = o->sessions - 1;
    if (o->yarn_factor > 0) {
        config.yarn.factor = o->yarn_factor;
        config.yarn.original_context = original_context(&model->shape);
        config.yarn.attention_factor = 0; /* that of this factor */
    }
    config.kv_type = o->kv;
    config.profile = o->index;
    config.capacity_tokens = o->context + (uint64_t)others * (2 * QSA_PAGE_TOKENS - 1);
    config.max_sequences = o->sessions + (others > 0);
    config.max_step_tokens = o->chunk;
    config.max_parts = forward_threads(o->threads);
    config.device = o->device;
    return config;
}

/* ---- bytes ---- */

size_t plan_state_bytes(const model_shape *shape)
{
    return PLAN_STATE_HEAD_BYTES + (state_floats(shape) + shape->vocabulary) * sizeof(float);
}

/* Two states that batches write in turn, the checkpoints, the mark, and one more while another is chosen to go. */
static uint64_t states_of_session(const qsa_context_options *o)
{
    return o->checkpoints == 0 ? 3 : 2 + o->checkpoints + 2;
}

/* Pages of a device that is not the host are in its memory. */
static uint64_t host_bytes(const qsa_memory_plan *cache, const qsa_context_options *o)
{
    return o->device == NULL ? cache->total_bytes
                             : cache->total_bytes - cache->kv_bytes - cache->index_bytes - cache->device_bytes;
}

static uint64_t resident_weights(const qsa_model *model)
{
    uint64_t bytes = 0;
    for (int kind = 0; kind < QSA_WEIGHT_KIND_COUNT; kind++)
        bytes += weight_kind_is_resident((qsa_weight_kind)kind) ? model->weight_bytes[kind] : 0;
    return bytes;
}

/* All but what is known of the machine. A list of tokens has room for half as many again. */
static qsa_status measure(const qsa_model *model, const qsa_context_options *o, qsa_plan *p)
{
    const model_shape *s = &model->shape;
    const qsa_config config = plan_cache_config(model, o);
    const uint64_t list_bytes = sizeof(int32_t) * 3 / 2;
    ENGINE_TRY_LIBRARY(qsa_plan_memory(&config, &p->cache));
    for (int kind = 0; kind < QSA_WEIGHT_KIND_COUNT; kind++)
        p->weight_bytes[kind] = model->weight_bytes[kind];
    p->context = o->context;
    p->sessions = o->sessions;
    p->copied_bytes = model->weights.owned_bytes;
    p->taken_bytes = model->taken_bytes;
    p->session_bytes = states_of_session(o) * plan_state_bytes(s);
    p->token_bytes = p->cache.bytes_per_token + list_bytes;
    p->state_bytes = o->sessions * p->session_bytes + o->context * list_bytes;
    p->activation_bytes =
        forward_planned_bytes(model, o->chunk) + (uint64_t)o->sessions * s->vocabulary * sizeof(float);
    p->context_bytes = host_bytes(&p->cache, o) + p->state_bytes + p->activation_bytes;
    p->resident_bytes = p->context_bytes + p->copied_bytes + resident_weights(model);
    p->rare_bytes = p->weight_bytes[QSA_WEIGHT_EMBEDDING] + p->weight_bytes[QSA_WEIGHT_TABLE];
    return QSA_OK;
}

/* Mapped pages need memory, but no more address space: they are mapped already. */
static qsa_fit fit_of(const qsa_plan *p, const qsa_available_memory *available)
{
    const qsa_available_memory memory = {available->machine_bytes, available->cgroup_bytes, QSA_NO_LIMIT};
    if (p->context_bytes > available_memory_least(available))
        return QSA_FIT_NOT;
    return p->resident_bytes - p->copied_bytes - p->taken_bytes > available_memory_least(&memory) ? QSA_FIT_DISK
                                                                                                  : QSA_FIT_MEMORY;
}

/* ---- the largest context ---- */

static bool fits(const qsa_model *model, const qsa_context_options *options, uint32_t context, qsa_fit wanted,
                 const qsa_available_memory *available)
{
    qsa_context_options o = *options;
    qsa_plan p = {0};
    o.context = context;
    return measure(model, &o, &p) == QSA_OK && fit_of(&p, available) <= wanted;
}

/* By bisection: what fits below the answer, does not above. At most the model's; 0: none. */
static uint32_t largest(const qsa_model *model, const qsa_context_options *options, qsa_fit wanted,
                        const qsa_available_memory *available)
{
    uint32_t good = 0, bad = (uint32_t)plan_longest(model, options);
    if (fits(model, options, bad, wanted, available))
        return bad;
    while (bad - good > 1) {
        const uint32_t middle = good + (bad - good) / 2;
        if (fits(model, options, middle, wanted, available))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

/* ---- the plan ---- */

qsa_status plan_within(const qsa_model *model, const qsa_context_options *options,
                       const qsa_available_memory *available, qsa_plan *out_plan)
{
    qsa_context_options o;
    qsa_plan p = {.available = *available};
    ENGINE_TRY(plan_options(model, options, &o));
    ENGINE_TRY(measure(model, &o, &p));
    p.fit = fit_of(&p, available);
    p.largest_context = largest(model, &o, QSA_FIT_MEMORY, available);
    *out_plan = p;
    return QSA_OK;
}

qsa_status qsa_context_plan(const qsa_model *model, const qsa_context_options *options, qsa_plan *out_plan)
{
    if (model == NULL || out_plan == NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_context_plan: model or out_plan is NULL");
    if (options != NULL)
        ENGINE_TRY(engine_check_size("qsa_context_options", options->size_bytes, sizeof *options));
    qsa_available_memory available;
    qsa_get_available_memory(&available);
    return plan_within(model, options, &available, out_plan);
}

uint64_t qsa_plan_session_bytes(const qsa_plan *plan, uint64_t tokens)
{
    const uint64_t pages = tokens / QSA_PAGE_TOKENS + (tokens % QSA_PAGE_TOKENS > 0);
    return plan->session_bytes + pages * QSA_PAGE_TOKENS * plan->token_bytes;
}

static const char *limit_name(const qsa_available_memory *available)
{
    const uint64_t least = available_memory_least(available);
    if (least == available->address_bytes)
        return "the limit on address space (ulimit -v)";
    return least == available->cgroup_bytes ? "the memory limit of the cgroup" : "the machine's memory";
}

qsa_status plan_check(const qsa_model *model, const qsa_context_options *options)
{
    qsa_available_memory available;
    qsa_plan p = {0};
    ENGINE_TRY(measure(model, options, &p));
    qsa_get_available_memory(&available);
    if (fit_of(&p, &available) != QSA_FIT_NOT)
        return QSA_OK;
    const uint32_t fitting = largest(model, options, QSA_FIT_DISK, &available);
    char advice[64] = "not even the smallest fits";
    if (fitting > 0)
        snprintf(advice, sizeof advice, "the largest that fits has %u tokens", fitting);
    const double mib = 1 << 20;
    return engine_fail(QSA_E_MEMORY, "a context of %u tokens takes %.1f MiB, %s leaves %.1f MiB; %s", options->context,
                       (double)p.context_bytes / mib, limit_name(&available),
                       (double)available_memory_least(&available) / mib, advice);
}
