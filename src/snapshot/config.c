/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration in a snapshot: writes it, and compares it field by field when reading. */
#include "snapshot/config.h"

#include "base/shape.h"

#include <inttypes.h>

static uint64_t norms_digest(const qsa_cache *cache)
{
    size_t floats = 2 * ((size_t)cache->layout.config.head_dim + cache->layout.config.index_dim);
    return XXH3_64bits(cache->weights, cache->layout.config.layers * floats * sizeof(float));
}

qsa_file_config qsa_snapshot_config(const qsa_cache *cache, uint64_t model_digest, uint32_t host_sections)
{
    const qsa_config *c = &cache->layout.config;
    return (qsa_file_config){
        .model_digest = model_digest,
        .norms_digest = norms_digest(cache),
        .layers = c->layers,
        .q_heads = c->q_heads,
        .kv_heads = c->kv_heads,
        .head_dim = c->head_dim,
        .index_heads = c->index_heads,
        .index_dim = c->index_dim,
        .ratio = c->ratio,
        .budget = c->budget,
        .rotary_dim = c->rotary_dim,
        .sections = {c->sections[0], c->sections[1], c->sections[2]},
        .theta = c->theta,
        .eps = c->eps,
        .yarn_factor = c->yarn.factor,
        .yarn_original_context = c->yarn.original_context,
        .yarn_beta_fast = c->yarn.beta_fast,
        .yarn_beta_slow = c->yarn.beta_slow,
        .yarn_attention_factor = c->yarn.attention_factor,
        .kv_type = (uint32_t)c->kv_type,
        .profile = (uint32_t)c->profile,
        .host_sections = host_sections,
    };
}

qsa_config qsa_snapshot_shape(const qsa_file_config *file)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = file->layers;
    config.q_heads = file->q_heads;
    config.kv_heads = file->kv_heads;
    config.head_dim = file->head_dim;
    config.index_heads = file->index_heads;
    config.index_dim = file->index_dim;
    config.ratio = file->ratio;
    config.budget = file->budget;
    config.rotary_dim = file->rotary_dim;
    for (int i = 0; i < 3; i++)
        config.sections[i] = file->sections[i];
    config.theta = file->theta;
    config.eps = file->eps;
    config.yarn = (qsa_yarn){file->yarn_factor, file->yarn_original_context, file->yarn_beta_fast, file->yarn_beta_slow,
                             file->yarn_attention_factor};
    qsa_shape_normalise(&config);
    config.kv_type = file->kv_type < QSA_KV_TYPE_COUNT ? (qsa_kv_type)file->kv_type : QSA_KV_TYPE_COUNT;
    config.profile = file->profile < QSA_PROFILE_COUNT ? (qsa_profile)file->profile : QSA_PROFILE_COUNT;
    return config;
}

qsa_status qsa_snapshot_check_shape(const qsa_file_config *file)
{
    qsa_config config = qsa_snapshot_shape(file);
    if (qsa_shape_check(&config) != QSA_OK) {
        char reason[256];
        qsa_copy_detail(reason, sizeof reason);
        return qsa_fail(QSA_E_FORMAT, "snapshot: configuration: %s", reason);
    }
    if (file->host_sections > QSA_SNAPSHOT_MAX_SECTIONS)
        return qsa_fail(QSA_E_FORMAT, "snapshot: configuration: %" PRIu32 " host sections, at most %d",
                        file->host_sections, QSA_SNAPSHOT_MAX_SECTIONS);
    return QSA_OK;
}

static qsa_status differs(const char *name, double here, double there)
{
    return qsa_fail(QSA_E_UNSUPPORTED, "snapshot: %s is %.9g in the file, %.9g here", name, there, here);
}

/* The enum of index profiles uses the numbers of the K/V types. */
static qsa_status differs_in_type(const char *name, uint32_t here, uint32_t there)
{
    static const char *const names[] = {"f32", "bf16", "f16", "q8_0"};
    _Static_assert(QSA_KV_F32 == 0 && QSA_KV_BF16 == 1 && QSA_KV_F16 == 2 && QSA_KV_Q8_0 == 3 && QSA_KV_TYPE_COUNT == 4,
                   "names");
    _Static_assert(QSA_PROFILE_F32 == 0 && QSA_PROFILE_BF16 == 1 && QSA_PROFILE_COUNT == 2, "names");
    return qsa_fail(QSA_E_UNSUPPORTED, "snapshot: %s is %s in the file, %s here", name, names[there], names[here]);
}

/* sections[0] is what the others leave. */
static qsa_status compare_shapes(const qsa_config *here, const qsa_config *there)
{
    const struct {
        const char *name;
        double here, there;
    } fields[] = {
        {"layers", here->layers, there->layers},
        {"q_heads", here->q_heads, there->q_heads},
        {"kv_heads", here->kv_heads, there->kv_heads},
        {"head_dim", here->head_dim, there->head_dim},
        {"index_heads", here->index_heads, there->index_heads},
        {"index_dim", here->index_dim, there->index_dim},
        {"ratio", here->ratio, there->ratio},
        {"budget", here->budget, there->budget},
        {"rotary_dim", here->rotary_dim, there->rotary_dim},
        {"sections[1]", here->sections[1], there->sections[1]},
        {"sections[2]", here->sections[2], there->sections[2]},
        {"theta", here->theta, there->theta},
        {"eps", here->eps, there->eps},
        {"yarn.factor", here->yarn.factor, there->yarn.factor},
        {"yarn.original_context", here->yarn.original_context, there->yarn.original_context},
        {"yarn.beta_fast", here->yarn.beta_fast, there->yarn.beta_fast},
        {"yarn.beta_slow", here->yarn.beta_slow, there->yarn.beta_slow},
        {"yarn.attention_factor", here->yarn.attention_factor, there->yarn.attention_factor},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].here != fields[i].there)
            return differs(fields[i].name, fields[i].here, fields[i].there);
    if (here->kv_type != there->kv_type)
        return differs_in_type("kv_type", here->kv_type, there->kv_type);
    if (here->profile != there->profile)
        return differs_in_type("profile", here->profile, there->profile);
    return QSA_OK;
}

qsa_status qsa_snapshot_compare(const qsa_cache *cache, uint64_t model_digest, const qsa_file_config *there)
{
    const qsa_config shape = qsa_snapshot_shape(there);
    QSA_TRY(compare_shapes(&cache->layout.config, &shape));
    const uint64_t norms = norms_digest(cache);
    if (norms != there->norms_digest)
        return qsa_fail(QSA_E_UNSUPPORTED,
                        "snapshot: saved with another model: norm weights %016" PRIx64 " in the file, %016" PRIx64
                        " here",
                        there->norms_digest, norms);
    if (model_digest != there->model_digest)
        return qsa_fail(QSA_E_UNSUPPORTED,
                        "snapshot: saved with another model: model digest %016" PRIx64 " in the file, %016" PRIx64
                        " here",
                        there->model_digest, model_digest);
    return QSA_OK;
}
