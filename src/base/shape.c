/* SPDX-License-Identifier: Apache-2.0 */
/* Default configuration, and the checks of one, field by field. */
#include "base/shape.h"

#include "base/status.h"

#include <inttypes.h>
#include <math.h>

static const qsa_yarn no_yarn = {.beta_fast = 32, .beta_slow = 1};

void qsa_shape_normalise(qsa_config *config)
{
    if (config->yarn.factor == 0)
        config->yarn = no_yarn;
}

void qsa_config_init(qsa_config *config)
{
    *config = (qsa_config){
        .size_bytes = sizeof(qsa_config),
        .layers = 12,
        .q_heads = 24,
        .kv_heads = 2,
        .head_dim = 256,
        .index_heads = 4,
        .index_dim = 128,
        .ratio = 4,
        .budget = 2048,
        .rotary_dim = 64,
        .sections = {11, 11, 10},
        .theta = 1e7f,
        .eps = 1e-6f,
        .yarn = no_yarn,
        .kv_type = QSA_KV_BF16,
        .profile = QSA_PROFILE_BF16,
        .capacity_tokens = 262144,
        .max_sequences = 1,
        .max_step_tokens = 512,
        .max_parts = 8,
    };
}

static qsa_status check_count(const char *name, uint64_t value, uint64_t limit)
{
    if (value == 0)
        return qsa_fail(QSA_E_ARGUMENT, "%s is 0", name);
    if (value > limit)
        return qsa_fail(QSA_E_LIMIT, "%s is %" PRIu64 ", the limit is %" PRIu64, name, value, limit);
    return QSA_OK;
}

static qsa_status check_positive(const char *name, double value)
{
    if (!(value > 0) || isinf(value))
        return qsa_fail(QSA_E_ARGUMENT, "%s is %g, not a positive number", name, value);
    return QSA_OK;
}

static qsa_status check_heads(const qsa_config *config)
{
    QSA_TRY(check_count("layers", config->layers, QSA_MAX_LAYERS));
    QSA_TRY(check_count("q_heads", config->q_heads, QSA_MAX_Q_HEADS));
    QSA_TRY(check_count("kv_heads", config->kv_heads, QSA_MAX_Q_HEADS));
    QSA_TRY(check_count("head_dim", config->head_dim, QSA_MAX_DIM));
    QSA_TRY(check_count("index_heads", config->index_heads, QSA_MAX_Q_HEADS));
    QSA_TRY(check_count("index_dim", config->index_dim, QSA_MAX_DIM));
    if (config->q_heads % config->kv_heads != 0)
        return qsa_fail(QSA_E_ARGUMENT, "q_heads %" PRIu32 " is not a multiple of kv_heads %" PRIu32, config->q_heads,
                        config->kv_heads);
    return QSA_OK;
}

static qsa_status check_groups(const qsa_config *config)
{
    QSA_TRY(check_count("ratio", config->ratio, QSA_MAX_RATIO));
    if ((config->ratio & (config->ratio - 1)) != 0)
        return qsa_fail(QSA_E_ARGUMENT, "ratio is %" PRIu32 ", not a power of two", config->ratio);
    QSA_TRY(check_count("budget", config->budget, QSA_MAX_BUDGET));
    if (config->budget % config->ratio != 0)
        return qsa_fail(QSA_E_ARGUMENT, "budget %" PRIu32 " is not a multiple of ratio %" PRIu32, config->budget,
                        config->ratio);
    return QSA_OK;
}

static qsa_status check_yarn(const qsa_yarn *yarn)
{
    if (yarn->factor == 0)
        return QSA_OK;
    QSA_TRY(check_positive("yarn.factor", yarn->factor));
    QSA_TRY(check_positive("yarn.original_context", yarn->original_context));
    QSA_TRY(check_positive("yarn.beta_fast", yarn->beta_fast));
    QSA_TRY(check_positive("yarn.beta_slow", yarn->beta_slow));
    if (yarn->attention_factor != 0)
        QSA_TRY(check_positive("yarn.attention_factor", yarn->attention_factor));
    if (yarn->attention_factor > 1024)
        return qsa_fail(QSA_E_LIMIT, "yarn.attention_factor is %g, the limit is 1024", (double)yarn->attention_factor);
    return QSA_OK;
}

static qsa_status check_rotary(const qsa_config *config)
{
    uint32_t smaller = config->head_dim < config->index_dim ? config->head_dim : config->index_dim;
    if (config->rotary_dim == 0 || config->rotary_dim % 2 != 0)
        return qsa_fail(QSA_E_ARGUMENT, "rotary_dim is %" PRIu32 ", not a positive even number", config->rotary_dim);
    if (config->rotary_dim > smaller)
        return qsa_fail(QSA_E_ARGUMENT, "rotary_dim %" PRIu32 " is above head_dim %" PRIu32 " or index_dim %" PRIu32,
                        config->rotary_dim, config->head_dim, config->index_dim);
    uint64_t sum = (uint64_t)config->sections[0] + config->sections[1] + config->sections[2];
    if (sum != 0 && sum != config->rotary_dim / 2)
        return qsa_fail(QSA_E_ARGUMENT, "sections add up to %" PRIu64 ", not to the %" PRIu32 " pairs of rotary_dim",
                        sum, config->rotary_dim / 2);
    QSA_TRY(check_positive("theta", config->theta));
    if (config->theta <= 1)
        return qsa_fail(QSA_E_ARGUMENT, "theta is %g, not above 1", (double)config->theta);
    QSA_TRY(check_positive("eps", config->eps));
    return check_yarn(&config->yarn);
}

static qsa_status check_size(const qsa_config *config)
{
    if ((unsigned)config->kv_type >= QSA_KV_TYPE_COUNT)
        return qsa_fail(QSA_E_ARGUMENT, "kv_type %d is unknown", (int)config->kv_type);
    if (config->kv_type == QSA_KV_Q8_0 && config->head_dim % 32 != 0)
        return qsa_fail(QSA_E_ARGUMENT, "kv_type q8_0 needs a head_dim that is a multiple of 32, not %" PRIu32,
                        config->head_dim);
    if ((unsigned)config->profile >= QSA_PROFILE_COUNT)
        return qsa_fail(QSA_E_ARGUMENT, "profile %d is unknown", (int)config->profile);
    QSA_TRY(check_count("capacity_tokens", config->capacity_tokens, (uint64_t)UINT32_MAX * QSA_PAGE_TOKENS / 2));
    QSA_TRY(check_count("max_sequences", config->max_sequences, QSA_MAX_SEQUENCES));
    QSA_TRY(check_count("max_step_tokens", config->max_step_tokens, QSA_MAX_STEP_TOKENS));
    return check_count("max_parts", config->max_parts, QSA_MAX_PARTS);
}

qsa_status qsa_shape_check(const qsa_config *config)
{
    if (config == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "config is NULL");
    if (config->size_bytes != sizeof(qsa_config))
        return qsa_fail(QSA_E_ARGUMENT, "config.size_bytes is %zu, expected %zu: call qsa_config_init first",
                        config->size_bytes, sizeof(qsa_config));
    QSA_TRY(check_heads(config));
    QSA_TRY(check_groups(config));
    QSA_TRY(check_rotary(config));
    return check_size(config);
}
