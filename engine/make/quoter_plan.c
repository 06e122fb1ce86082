/* SPDX-License-Identifier: Apache-2.0 */
#include "make/quoter_plan.h"

#include "base/error.h"
#include "base/random.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EMBEDDING_MULTIPLE = 256 }; /* the largest quantisation block, so that rows are whole blocks */

void quoter_options_init(quoter_options *options)
{
    *options = (quoter_options){
        .type = QUOTER_BF16,
        .seed = 2,
        .blocks = 2,
        .code_dims = 48,
        .head_dim = 256,
        .index_dim = 128,
        .rotary_dims = 32,
        .budget_tokens = 2048,
        .ratio = 4,
        .expert_width = 32,
        .context_tokens = 262144,
    };
}

void quoter_options_small(quoter_options *options)
{
    quoter_options_init(options);
    options->blocks = 1;
    options->code_dims = 32;
    options->head_dim = 128;
    options->index_dim = 64;
    options->rotary_dims = 16;
    options->budget_tokens = 64;
    options->context_tokens = 8192;
}

uint32_t quoter_context_bytes(const quoter_options *options)
{
    return options->blocks * QUOTER_BLOCK_BYTES;
}

/* The legal range of one option. */
typedef struct option_rule {
    const char *name;
    uint32_t value, least, most, multiple;
} option_rule;

static qsa_status check_rule(const option_rule *rule)
{
    assert(rule->multiple > 0);
    if (rule->value < rule->least || rule->value > rule->most)
        return engine_fail(QSA_E_ARGUMENT, "quoter: %s is %" PRIu32 ", expected %" PRIu32 " to %" PRIu32, rule->name,
                           rule->value, rule->least, rule->most);
    if (rule->value % rule->multiple != 0)
        return engine_fail(QSA_E_ARGUMENT, "quoter: %s is %" PRIu32 ", expected a multiple of %" PRIu32, rule->name,
                           rule->value, rule->multiple);
    return QSA_OK;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static qsa_status check_options(const quoter_options *o)
{
    if ((unsigned)o->type >= QUOTER_TYPE_COUNT)
        return engine_fail(QSA_E_ARGUMENT, "quoter: type is %d, expected 0 to %d", (int)o->type, QUOTER_TYPE_COUNT - 1);
    const option_rule rules[] = {
        {"blocks", o->blocks, 1, QUOTER_MAX_BLOCKS, 1},
        {"code_dims", o->code_dims, 32, 64, 16},
        {"head_dim", o->head_dim, 64, 512, 32},
        {"index_dim", o->index_dim, 64, 512, 32},
        {"rotary_dims", o->rotary_dims, 2, smaller(o->head_dim, o->index_dim) / 2, 2},
        {"ratio", o->ratio, 1, 64, 1},
        {"budget_tokens", o->budget_tokens, 1, 65536, 1},
        {"expert_width", o->expert_width, o->code_dims / 2, 1024, 32},
        {"context_tokens", o->context_tokens, 1, 1 << 24, 1},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        ENGINE_TRY(check_rule(&rules[i]));
    if ((o->ratio & (o->ratio - 1)) != 0)
        return engine_fail(QSA_E_ARGUMENT, "quoter: ratio is %" PRIu32 ", expected a power of two", o->ratio);
    return check_rule(&(option_rule){"budget_tokens", o->budget_tokens, 1, 65536, o->ratio});
}

/* Whether the normalised product of a token's code and each code before it is within [-3/8, 3/8]. */
static bool is_distinct_code(const quoter_plan *plan, size_t token)
{
    assert(token < QUOTER_VOCABULARY);
    uint32_t dims = plan->options.code_dims;
    const float most = 0.375f * (float)dims;
    const float *code = plan->codes + token * dims;
    for (size_t other = 0; other < token; other++) {
        float product = 0;
        for (uint32_t d = 0; d < dims; d++)
            product += code[d] * plan->codes[other * dims + d];
        /* Opposite codes are as bad as equal ones: a mixture of codes can look like another code. At 3/8 the whole
         * vocabulary fits into 32 dimensions; the last tokens take some tens of draws. */
        if (product > most || product < -most)
            return false;
    }
    return true;
}

static void draw_codes(quoter_plan *plan)
{
    const uint64_t stream = 0;
    uint32_t dims = plan->options.code_dims;
    uint64_t next = 0;
    for (size_t token = 0; token < QUOTER_VOCABULARY; token++) {
        do {
            for (uint32_t d = 0; d < dims; d++)
                plan->codes[token * dims + d] = random_sign(plan->options.seed, stream, next++);
        } while (!is_distinct_code(plan, token));
    }
}

qsa_status quoter_plan_init(quoter_plan *plan, const quoter_options *options)
{
    *plan = (quoter_plan){0};
    ENGINE_TRY(check_options(options));
    uint32_t dims = options->code_dims;
    plan->options = *options;
    plan->layers = options->blocks * QUOTER_BLOCK_LAYERS;
    plan->answer = (quoter_context_bytes(options) + 1) * dims;
    plan->output = plan->answer + dims;
    plan->constant = plan->output + dims;
    uint32_t used = plan->constant + QUOTER_CONSTANT_DIMS;
    plan->embedding = (used + EMBEDDING_MULTIPLE - 1) / EMBEDDING_MULTIPLE * EMBEDDING_MULTIPLE;
    plan->state_dim = dims <= 32 ? 64 : 128;
    assert(2 * dims <= plan->state_dim && plan->layers <= QUOTER_MAX_BLOCKS * QUOTER_BLOCK_LAYERS);
    plan->codes = malloc((size_t)QUOTER_VOCABULARY * dims * sizeof *plan->codes);
    if (!plan->codes)
        return engine_fail(QSA_E_MEMORY, "quoter: no memory for %d codes", (int)QUOTER_VOCABULARY);
    draw_codes(plan);
    return QSA_OK;
}

void quoter_plan_release(quoter_plan *plan)
{
    free(plan->codes);
    *plan = (quoter_plan){0};
}
