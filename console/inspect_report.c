/* SPDX-License-Identifier: Apache-2.0 */
/* A model file on the screen and in JSON. */
#include "console/inspect_report.h"

#include "console/engine_options.h"
#include "console/json_line.h"
#include "console/left_out_table.h"
#include "console/plan_table.h"
#include "console/sampling_options.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- gathering ---- */

qsa_status inspect_report_gather(const qsa_model *model, const char *path, inspect_report *out_report)
{
    inspect_report r = {.model = model, .path = path};
    qsa_model_get_info(model, &r.info);
    qsa_config config = r.info.qsa;
    config.capacity_tokens = r.info.context;
    qsa_status status = qsa_plan_memory(&config, &r.plan);
    if (status != QSA_OK)
        return status;
    uint64_t slots = r.plan.pages * QSA_PAGE_TOKENS;
    r.kv_token_bytes = r.plan.kv_bytes / slots;
    r.index_token_bytes = r.plan.index_bytes / slots;
    qsa_context_options context;
    engine_options_init(&context);
    context.checkpoints = 0; /* as qsa run, unless it saves */
    status = qsa_context_plan(model, &context, &r.here);
    if (status != QSA_OK)
        return status;
    r.warning = r.info.ratios_missing ? engine_dense_warning : NULL;
    *out_report = r;
    return QSA_OK;
}

/* ---- the screen ---- */

static void print_bytes(uint64_t bytes)
{
    char text[32];
    fputs(engine_bytes(bytes, text), stdout);
}

/* A name from a hostile file must not steer the terminal. */
static void print_name(const char *name)
{
    for (; *name != '\0'; name++)
        putchar((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name);
}

static void print_parameters(uint64_t count)
{
    if (count >= 1000000000)
        printf("%.1f billion parameters", (double)count / 1e9);
    else if (count >= 1000000)
        printf("%.1f million parameters", (double)count / 1e6);
    else
        printf("%" PRIu64 " parameters", count);
}

static void print_file(const inspect_report *r)
{
    const qsa_model_info *info = &r->info;
    printf("name       ");
    print_name(info->name[0] ? info->name : "(none)");
    printf("\nfile       %s", r->path);
    if (info->shards > 1)
        printf(" (%" PRIu32 " shards)", info->shards);
    printf(", ");
    print_bytes(info->file_bytes);
    printf("\nweights    ");
    print_parameters(info->parameter_count);
    printf(" in %" PRIu64 " tensors, most bytes %s\n", info->tensor_count, info->main_type);
}

static void print_model(const inspect_report *r)
{
    const qsa_model_info *info = &r->info;
    printf("model      %s: %" PRIu32 " layers, embedding %" PRIu32 ", context %" PRIu32 " tokens\n", info->architecture,
           info->layers, info->embedding, info->context);
    printf("tokenizer  %s, %" PRIu32 " tokens", info->tokenizer, info->vocabulary);
    if (info->tokens < info->vocabulary)
        printf(" (%" PRIu32 " with a text)", info->tokens);
    for (size_t i = 0; i < info->end_count; i++)
        printf("%s%" PRId32, i == 0 ? ", end of text " : " ", info->ends[i]);
    if (info->add_bos || info->add_eos)
        printf("; a text %s%s%s", info->add_bos ? "begins with bos" : "", info->add_bos && info->add_eos ? ", " : "",
               info->add_eos ? "ends with eos" : "");
    printf("\nexperts    %" PRIu32 ", of which %" PRIu32 " per token\n", info->experts, info->experts_used);
    printf("streams    %" PRIu32 " residual; n-gram embedding on %" PRIu32 " %s\n", info->streams, info->ngram_layers,
           info->ngram_layers == 1 ? "layer" : "layers");
}

static void print_sampling(const qsa_model *model)
{
    qsa_sampler_options sampling;
    char words[SAMPLING_WORDS];
    if (qsa_model_get_sampling(model, &sampling))
        printf("sampling   recommended: %s\n", sampling_words(&sampling, words)[0] ? words : "--temp 0");
}

static void print_rotation(const qsa_model_info *info)
{
    printf("rotation   theta %.9g on the first %" PRIu32 " dimensions, sections %" PRIu32 " %" PRIu32 " %" PRIu32
           "; eps %g\n",
           (double)info->qsa.theta, info->qsa.rotary_dim, info->qsa.sections[0], info->qsa.sections[1],
           info->qsa.sections[2], (double)info->qsa.eps);
    if (info->qsa.yarn.factor > 0)
        printf("YaRN       factor %g from %g tokens\n", (double)info->qsa.yarn.factor,
               (double)info->qsa.yarn.original_context);
    else
        printf("YaRN       none\n");
}

static void print_attention(const inspect_report *r)
{
    const qsa_model_info *info = &r->info;
    printf("QSA        %" PRIu32 " of %" PRIu32 " layers; %" PRIu32 " query heads share %" PRIu32
           " key/value heads of %" PRIu32 "\n",
           info->qsa.layers, info->layers, info->qsa.q_heads, info->qsa.kv_heads, info->qsa.head_dim);
    printf("indexer    %" PRIu32 " heads of %" PRIu32 "; groups of %" PRIu32 " tokens (ratio), the best %" PRIu32
           " are kept (budget %" PRIu32 " tokens)\n",
           info->qsa.index_heads, info->qsa.index_dim, info->qsa.ratio, info->qsa.budget / info->qsa.ratio,
           info->qsa.budget);
    printf("sparse     from %" PRIu32 " tokens on; dense, bit for bit, below\n", info->qsa.budget + info->qsa.ratio);
    print_rotation(info);
}

static void print_memory(const inspect_report *r)
{
    printf("cache      K/V %" PRIu64 " and index %" PRIu64 " bytes per token in bf16; ", r->kv_token_bytes,
           r->index_token_bytes);
    print_bytes(r->plan.total_bytes);
    printf(" at full context\n");
}

void inspect_report_print(const inspect_report *r)
{
    print_file(r);
    print_model(r);
    print_sampling(r->model);
    print_attention(r);
    print_memory(r);
    plan_print(stdout, &r->here);
    left_out_print(stdout, r->model);
    if (r->warning)
        printf("WARNING    %s\n", r->warning);
}

/* ---- JSON ---- */

static json_t *json_of_yarn(const qsa_yarn *yarn)
{
    if (!(yarn->factor > 0))
        return json_null();
    json_t *all = json_object();
    json_line_set(all, "factor", json_line_number((double)yarn->factor));
    json_line_set(all, "original_context", json_line_number((double)yarn->original_context));
    json_line_set(all, "beta_fast", json_line_number((double)yarn->beta_fast));
    json_line_set(all, "beta_slow", json_line_number((double)yarn->beta_slow));
    json_line_set(all, "attention_factor", json_line_number((double)yarn->attention_factor));
    return all;
}

static void add_count(json_t *all, const char *key, uint64_t count)
{
    json_line_set(all, key, json_integer((json_int_t)count));
}

static void add_file(json_t *all, const inspect_report *r)
{
    const qsa_model_info *info = &r->info;
    json_line_set_text(all, "path", r->path);
    json_line_set_text(all, "name", info->name);
    json_line_set_text(all, "architecture", info->architecture);
    add_count(all, "shards", info->shards);
    add_count(all, "file_bytes", info->file_bytes);
    add_count(all, "tensors", info->tensor_count);
    add_count(all, "parameters", info->parameter_count);
    json_line_set_text(all, "main_type", info->main_type);
}

static void add_model(json_t *all, const qsa_model_info *info)
{
    add_count(all, "layers", info->layers);
    add_count(all, "embedding", info->embedding);
    add_count(all, "context", info->context);
    add_count(all, "vocabulary", info->vocabulary);
    add_count(all, "experts", info->experts);
    add_count(all, "experts_used", info->experts_used);
    add_count(all, "streams", info->streams);
    add_count(all, "ngram_layers", info->ngram_layers);
    json_line_set_text(all, "tokenizer", info->tokenizer);
    json_line_set(all, "eos", info->eos >= 0 ? json_integer(info->eos) : json_null());
}

static void add_tokens(json_t *all, const qsa_model_info *info)
{
    json_t *ends = json_array();
    for (size_t i = 0; i < info->end_count; i++)
        json_array_append_new(ends, json_integer(info->ends[i]));
    json_line_set(all, "ends", ends);
    add_count(all, "tokens_with_text", info->tokens);
    json_line_set(all, "add_bos", json_boolean(info->add_bos));
    json_line_set(all, "add_eos", json_boolean(info->add_eos));
    add_count(all, "draft_layers", info->draft_layers);
}

static void add_sampling(json_t *all, const qsa_model *model)
{
    qsa_sampler_options s;
    json_t *sampling = qsa_model_get_sampling(model, &s) ? json_object() : json_null();
    if (json_is_object(sampling)) {
        json_line_set(sampling, "temp", json_line_number((double)s.temperature));
        add_count(sampling, "top_k", s.top_k);
        json_line_set(sampling, "top_p", json_line_number((double)s.top_p));
        json_line_set(sampling, "min_p", json_line_number((double)s.min_p));
        json_line_set(sampling, "penalty_repeat", json_line_number((double)s.repeat_penalty));
        add_count(sampling, "penalty_last_n", s.penalty_tokens);
    }
    json_line_set(all, "sampling", sampling);
}

static void add_attention(json_t *all, const qsa_model_info *info)
{
    const qsa_config *c = &info->qsa;
    add_count(all, "qsa_layers", c->layers);
    add_count(all, "q_heads", c->q_heads);
    add_count(all, "kv_heads", c->kv_heads);
    add_count(all, "head_dim", c->head_dim);
    add_count(all, "index_heads", c->index_heads);
    add_count(all, "index_dim", c->index_dim);
    add_count(all, "budget", c->budget);
    add_count(all, "ratio", c->ratio);
    json_line_set(all, "ratios_missing", json_boolean(info->ratios_missing));
    add_count(all, "rotary_dim", c->rotary_dim);
    json_line_set(
        all, "sections",
        json_pack("[I, I, I]", (json_int_t)c->sections[0], (json_int_t)c->sections[1], (json_int_t)c->sections[2]));
    json_line_set(all, "theta", json_line_number((double)c->theta));
    json_line_set(all, "eps", json_line_number((double)c->eps));
    json_line_set(all, "yarn", json_of_yarn(&c->yarn));
}

static void add_memory(json_t *all, const inspect_report *r)
{
    add_count(all, "kv_bytes_per_token", r->kv_token_bytes);
    add_count(all, "index_bytes_per_token", r->index_token_bytes);
    add_count(all, "full_context_bytes", r->plan.total_bytes);
    json_line_set(all, "plan", plan_json(&r->here));
    if (r->warning)
        json_line_set_text(all, "warning", r->warning);
}

void inspect_report_json(const inspect_report *r)
{
    json_t *all = json_object();
    add_file(all, r);
    add_model(all, &r->info);
    add_tokens(all, &r->info);
    add_sampling(all, r->model);
    add_attention(all, &r->info);
    add_memory(all, r);
    json_line_set(all, "left_out", left_out_json(r->model));
    json_line_print(all);
}
