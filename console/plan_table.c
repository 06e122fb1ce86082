/* SPDX-License-Identifier: Apache-2.0 */
#include "console/plan_table.h"

#include "console/engine_options.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- -c max ---- */

bool plan_option_context(const options *o, int option, uint32_t *out_context)
{
    if (strcmp(optarg, "max") == 0) {
        *out_context = PLAN_CONTEXT_MAX;
        return true;
    }
    return options_count(o, option, 1, INT32_MAX, out_context);
}

/* The memory of machine and cgroup; the weights' address space is taken already. */
static uint64_t available_bytes(const qsa_plan *p)
{
    const qsa_available_memory *a = &p->available;
    return a->machine_bytes < a->cgroup_bytes ? a->machine_bytes : a->cgroup_bytes;
}

/* What is still to be read or allocated. */
static uint64_t needed_bytes(const qsa_plan *p)
{
    return p->resident_bytes - p->copied_bytes - p->taken_bytes;
}

bool plan_resolve_max(const char *command, const qsa_model *model, qsa_context_options *options)
{
    if (options->context != PLAN_CONTEXT_MAX)
        return true;
    qsa_plan plan;
    char weights[32], free[32];
    options->context = 0;
    if (qsa_context_plan(model, options, &plan) != QSA_OK) {
        engine_say(command);
        return false;
    }
    if (plan.largest_context == 0) {
        options_say(command, "-c max: no context fits: the weights take %s, %s are available",
                    engine_bytes(needed_bytes(&plan) - plan.context_bytes, weights),
                    engine_bytes(available_bytes(&plan), free));
        return false;
    }
    options->context = plan.largest_context;
    options_say(command, "-c max: a context of %" PRIu32 " tokens, of the model's %" PRIu32, options->context,
                plan.context);
    return true;
}

void plan_warn(const char *command, const qsa_model *model, const qsa_context_options *options)
{
    qsa_plan plan;
    char needed[32], free[32];
    if (qsa_context_plan(model, options, &plan) != QSA_OK || plan.fit != QSA_FIT_DISK)
        return;
    options_say(command,
                "warning: weights and context take %s, %s are available: some weights will be read from the disk "
                "again and again",
                engine_bytes(needed_bytes(&plan), needed), engine_bytes(available_bytes(&plan), free));
}

/* ---- the table ---- */

static void print_row(FILE *out, const char *label, uint64_t bytes, const char *note)
{
    char text[32];
    if (bytes > 0)
        fprintf(out, "  %-18s %10s%s%s\n", label, engine_bytes(bytes, text), note[0] ? "  " : "", note);
}

static void print_limit(FILE *out, const char *label, uint64_t bytes)
{
    if (bytes != QSA_NO_LIMIT)
        print_row(out, label, bytes == 0 ? 1 : bytes, "");
}

static void print_verdict(FILE *out, const qsa_plan *p)
{
    char needed[32], free[32];
    engine_bytes(needed_bytes(p), needed);
    engine_bytes(available_bytes(p), free);
    if (p->fit == QSA_FIT_MEMORY)
        fprintf(out, "runs here  with a context of %" PRIu32 " tokens, in %s of the %s available\n", p->context, needed,
                free);
    else if (p->largest_context > 0)
        fprintf(out,
                "runs here  with a context of %" PRIu32 " tokens at most (-c max); %" PRIu32
                " tokens take %s, %s are available\n",
                p->largest_context, p->context, needed, free);
    else
        fprintf(out,
                "too large  weights and the smallest context exceed the %s available: slow at best, some weights are "
                "read again for every token\n",
                free);
}

void plan_print(FILE *out, const qsa_plan *p)
{
    static const char rare[] = "mapped; a few rows per token";
    fprintf(out, "memory     of a context of %" PRIu32 " tokens:\n", p->context);
    for (int kind = 0; kind < QSA_WEIGHT_EMBEDDING; kind++)
        print_row(out, qsa_weight_kind_name((qsa_weight_kind)kind), p->weight_bytes[kind], "");
    print_row(out, "weights copied", p->copied_bytes, "");
    print_row(out, "cache", p->cache.total_bytes, "");
    print_row(out, "recurrent states", p->state_bytes, "");
    print_row(out, "activations", p->activation_bytes, "");
    print_row(out, "resident, in all", p->resident_bytes, "");
    print_row(out, qsa_weight_kind_name(QSA_WEIGHT_EMBEDDING), p->weight_bytes[QSA_WEIGHT_EMBEDDING], rare);
    print_row(out, qsa_weight_kind_name(QSA_WEIGHT_TABLE), p->weight_bytes[QSA_WEIGHT_TABLE], rare);
    print_row(out, qsa_weight_kind_name(QSA_WEIGHT_UNUSED), p->weight_bytes[QSA_WEIGHT_UNUSED], "never read");
    print_limit(out, "free: machine", p->available.machine_bytes);
    print_limit(out, "free: cgroup", p->available.cgroup_bytes);
    print_limit(out, "free: ulimit -v", p->available.address_bytes);
    print_verdict(out, p);
}

/* ---- JSON ---- */

static json_t *limit_json(uint64_t bytes)
{
    return bytes == QSA_NO_LIMIT ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *weights_json(const qsa_plan *p)
{
    json_t *weights = json_object();
    for (int kind = 0; kind < QSA_WEIGHT_KIND_COUNT; kind++)
        (void)json_object_set_new(weights, qsa_weight_kind_name((qsa_weight_kind)kind),
                                  json_integer((json_int_t)p->weight_bytes[kind]));
    return weights;
}

json_t *plan_json(const qsa_plan *p)
{
    static const char *const fits[] = {[QSA_FIT_MEMORY] = "memory", [QSA_FIT_DISK] = "disk", [QSA_FIT_NOT] = "not"};
    assert((size_t)p->fit < sizeof fits / sizeof *fits);
    return json_pack("{s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:s, s:I}", "context",
                     (json_int_t)p->context, "sessions", (json_int_t)p->sessions, "weight_bytes", weights_json(p),
                     "copied_bytes", (json_int_t)p->copied_bytes, "cache_bytes", (json_int_t)p->cache.total_bytes,
                     "state_bytes", (json_int_t)p->state_bytes, "activation_bytes", (json_int_t)p->activation_bytes,
                     "resident_bytes", (json_int_t)p->resident_bytes, "mapped_bytes", (json_int_t)p->rare_bytes,
                     "machine_available_bytes", limit_json(p->available.machine_bytes), "cgroup_available_bytes",
                     limit_json(p->available.cgroup_bytes), "address_available_bytes",
                     limit_json(p->available.address_bytes), "fit", fits[p->fit], "largest_context",
                     (json_int_t)p->largest_context);
}
