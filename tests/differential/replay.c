#include "replay.h"

#include "support.h"

#include <stdlib.h>

qsa_config replay_config(const golden_case *c, qsa_norm_weights *norms)
{
    static const qsa_kv_type kv_types[] = {[GOLDEN_KV_F32] = QSA_KV_F32,
                                           [GOLDEN_KV_BF16] = QSA_KV_BF16,
                                           [GOLDEN_KV_F16] = QSA_KV_F16,
                                           [GOLDEN_KV_Q8_0] = QSA_KV_Q8_0};
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 1;
    config.q_heads = c->q_heads;
    config.kv_heads = c->kv_heads;
    config.head_dim = c->head_dim;
    config.index_heads = c->index_heads;
    config.index_dim = c->index_dim;
    config.ratio = c->ratio;
    config.budget = c->budget;
    config.rotary_dim = c->rotary_dim;
    for (int i = 0; i < 3; i++)
        config.sections[i] = c->sections[i];
    config.theta = c->theta;
    config.eps = c->eps;
    if (c->has_yarn) {
        config.yarn.factor = c->yarn_factor;
        config.yarn.original_context = (float)c->yarn_original_context;
        config.yarn.beta_fast = (float)c->yarn_beta_fast;
        config.yarn.beta_slow = (float)c->yarn_beta_slow;
        config.yarn.attention_factor = c->has_yarn_attention_factor ? c->yarn_attention_factor : 0;
    }
    config.kv_type = kv_types[c->kv_type];
    config.profile = c->index_bf16 ? QSA_PROFILE_BF16 : QSA_PROFILE_F32;
    *norms = (qsa_norm_weights){.q = c->q_norm, .k = c->k_norm, .index_q = c->index_q_norm, .index_k = c->index_k_norm};
    config.norms = norms;
    config.capacity_tokens = c->n + 3 * QSA_PAGE_TOKENS;
    config.max_step_tokens = c->n;
    return config;
}

bool replay_possible(const golden_case *c)
{
    return c->has_attention;
}

static void ok(qsa_status status)
{
    if (status != QSA_OK)
        fail_msg("%s: %s", qsa_status_name(status), qsa_error_detail());
}

static void run_phases(qsa_step *step, uint32_t parts)
{
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
        for (uint32_t part = 0; part < parts; part++)
            ok(qsa_layer_phase(step, phase, parts - 1 - part, parts)); /* any order will do */
}

static void run_chunk(const golden_case *c, qsa_cache *cache, qsa_seq seq, uint32_t first, uint32_t n, uint32_t parts,
                      replay_fn *each, void *user)
{
    const size_t q = (size_t)c->q_heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
    const size_t iq = (size_t)c->index_heads * c->index_dim;
    const qsa_entry entry = {.seq = seq,
                             .position = c->anchor + first,
                             .tokens = n,
                             .triples =
                                 c->triples == NULL ? NULL : (const qsa_triple *)(c->triples + 3 * (size_t)first)};
    const qsa_tensors tensors = {.q = {c->q + first * q, q, c->head_dim},
                                 .k = {c->k + first * kv, kv, c->head_dim},
                                 .v = {c->v + first * kv, kv, c->head_dim},
                                 .index_q = {c->index_q + first * iq, iq, c->index_dim},
                                 .raw_key = {c->raw_key + (size_t)first * c->index_dim, c->index_dim, 0}};
    qsa_seq_info info;
    ok(qsa_seq_query(cache, seq, &info));
    uint32_t gone = info.tokens == 0 ? 0 : (uint32_t)(info.anchor - c->anchor) / c->ratio; /* by a window */
    float *output = test_alloc(n * q, sizeof *output);
    uint32_t *groups = test_alloc(c->budget / c->ratio, sizeof *groups);
    const qsa_output out = {output, q, c->head_dim};
    qsa_step *step;
    ok(qsa_step_begin(cache, &entry, 1, &step));
    ok(qsa_layer_begin(step, 0, &tensors, &out));
    run_phases(step, parts);
    for (uint32_t t = 0; t < n; t++) {
        uint32_t n_groups;
        ok(qsa_step_selection(step, t, groups, &n_groups));
        for (uint32_t i = 0; i < n_groups; i++)
            groups[i] += gone;
        each(user, first + t, groups, n_groups, output + t * q);
    }
    ok(qsa_step_commit(step, NULL));
    ok(qsa_cache_check(cache));
    free(output);
    free(groups);
}

qsa_seq replay_run(const golden_case *c, qsa_cache *cache, replay_options options, replay_fn *each, void *user)
{
    qsa_seq seq;
    ok(qsa_seq_open(cache, &seq));
    ok(qsa_seq_shift(cache, seq, c->frame));
    if (c->window != 0)
        ok(qsa_seq_window(cache, seq, c->window));
    uint32_t chunk = options.chunk == 0 ? c->n : options.chunk;
    for (uint32_t first = 0; first < c->n; first += chunk)
        run_chunk(c, cache, seq, first, c->n - first < chunk ? c->n - first : chunk, options.parts, each, user);
    return seq;
}
