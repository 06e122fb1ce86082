/* SPDX-License-Identifier: Apache-2.0 */
/* A model file on the screen and in JSON. */
#include "console/inspect_report.h"
#include "console/left_out_table.h"

#include "console/engine_options.h"
#include "console/plan_table.h"

#include <inttypes.h>
#include <jansson.h>
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
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "factor", (double)yarn->factor, "original_context",
                     (double)yarn->original_context, "beta_fast", (double)yarn->beta_fast, "beta_slow",
                     (double)yarn->beta_slow, "attention_factor", (double)yarn->attention_factor);
}

static json_t *json_of_file(const inspect_report *r)
{
    const qsa_model_info *info = &r->info;
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "path", r->path, "name", info->name, "architecture",
                     info->architecture, "shards", (json_int_t)info->shards, "file_bytes", (json_int_t)info->file_bytes,
                     "tensors", (json_int_t)info->tensor_count, "parameters", (json_int_t)info->parameter_count,
                     "main_type", info->main_type);
}

static json_t *json_of_model(const qsa_model_info *info)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "layers", (json_int_t)info->layers,
                     "embedding", (json_int_t)info->embedding, "context", (json_int_t)info->context, "vocabulary",
                     (json_int_t)info->vocabulary, "experts", (json_int_t)info->experts, "experts_used",
                     (json_int_t)info->experts_used, "streams", (json_int_t)info->streams, "ngram_layers",
                     (json_int_t)info->ngram_layers, "tokenizer", info->tokenizer, "eos",
                     info->eos >= 0 ? json_integer(info->eos) : json_null());
}

static json_t *json_of_tokens(const qsa_model_info *info)
{
    json_t *ends = json_array();
    for (size_t i = 0; ends && i < info->end_count; i++)
        json_array_append_new(ends, json_integer(info->ends[i]));
    return json_pack("{s:o, s:I, s:b, s:b, s:I}", "ends", ends, "tokens_with_text", (json_int_t)info->tokens, "add_bos",
                     (int)info->add_bos, "add_eos", (int)info->add_eos, "draft_layers", (json_int_t)info->draft_layers);
}

static json_t *json_of_attention(const qsa_model_info *info)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:[I, I, I], s:f, s:f, s:o}", "qsa_layers",
                     (json_int_t)info->qsa.layers, "q_heads", (json_int_t)info->qsa.q_heads, "kv_heads",
                     (json_int_t)info->qsa.kv_heads, "head_dim", (json_int_t)info->qsa.head_dim, "index_heads",
                     (json_int_t)info->qsa.index_heads, "index_dim", (json_int_t)info->qsa.index_dim, "budget",
                     (json_int_t)info->qsa.budget, "ratio", (json_int_t)info->qsa.ratio, "ratios_missing",
                     (int)info->ratios_missing, "rotary_dim", (json_int_t)info->qsa.rotary_dim, "sections",
                     (json_int_t)info->qsa.sections[0], (json_int_t)info->qsa.sections[1],
                     (json_int_t)info->qsa.sections[2], "theta", (double)info->qsa.theta, "eps", (double)info->qsa.eps,
                     "yarn", json_of_yarn(&info->qsa.yarn));
}

static json_t *json_of_memory(const inspect_report *r)
{
    return json_pack("{s:I, s:I, s:I, s:o, s:s*}", "kv_bytes_per_token", (json_int_t)r->kv_token_bytes,
                     "index_bytes_per_token", (json_int_t)r->index_token_bytes, "full_context_bytes",
                     (json_int_t)r->plan.total_bytes, "plan", plan_json(&r->here), "warning", r->warning);
}

bool inspect_report_json(const inspect_report *r)
{
    json_t *parts[] = {json_of_file(r),          json_of_model(&r->info),
                       json_of_tokens(&r->info), json_of_attention(&r->info),
                       json_of_memory(r),        json_pack("{s:o}", "left_out", left_out_json(r->model))};
    json_t *all = json_object();
    bool is_good = all != NULL;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        is_good = is_good && parts[i] && json_object_update(all, parts[i]) == 0;
        json_decref(parts[i]);
    }
    is_good = is_good && json_dumpf(all, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
    json_decref(all);
    return is_good;
}
