/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/oracle_case.h"

oracle_shape oracle_shape_of(const qsa_config *config, const qsa_norm_weights *norms)
{
    static const oracle_kv types[QSA_KV_TYPE_COUNT] = {
        [QSA_KV_F32] = ORACLE_F32, [QSA_KV_BF16] = ORACLE_BF16, [QSA_KV_F16] = ORACLE_F16, [QSA_KV_Q8_0] = ORACLE_Q8_0};
    return (oracle_shape){
        .q_heads = (int)config->q_heads,
        .kv_heads = (int)config->kv_heads,
        .head_dim = (int)config->head_dim,
        .index_heads = (int)config->index_heads,
        .index_dim = (int)config->index_dim,
        .rotary_dim = (int)config->rotary_dim,
        .sections = {(int)config->sections[0], (int)config->sections[1], (int)config->sections[2]},
        .ratio = (int)config->ratio,
        .budget = (int)config->budget,
        .theta = config->theta,
        .eps = config->eps,
        .index_bf16 = config->profile == QSA_PROFILE_BF16,
        .kv_type = types[config->kv_type],
        .yarn = config->yarn.factor != 0,
        .yarn_factor = config->yarn.factor,
        .yarn_context = (double)config->yarn.original_context,
        .yarn_beta_fast = (double)config->yarn.beta_fast,
        .yarn_beta_slow = (double)config->yarn.beta_slow,
        .yarn_has_attention_factor = config->yarn.attention_factor != 0,
        .yarn_attention_factor = config->yarn.attention_factor,
        .index_q_norm = norms->index_q,
        .index_k_norm = norms->index_k,
        .q_norm = norms->q,
        .k_norm = norms->k,
    };
}

oracle_shape oracle_case_shape(const golden_case *c)
{
    const qsa_norm_weights norms = {c->q_norm, c->k_norm, c->index_q_norm, c->index_k_norm};
    oracle_shape shape = oracle_shape_of(&c->config, &norms);
    shape.final_qk = c->final_qkv;
    return shape;
}

oracle_tokens oracle_case_tokens(const golden_case *c, int first)
{
    const qsa_config *config = &c->config;
    const size_t t = (size_t)first;
    oracle_tokens tokens = {
        .index_q = c->index_q + t * config->index_heads * config->index_dim,
        .raw_key = c->raw_key + t * config->index_dim,
        .triples = c->triples ? c->triples + 3 * t : NULL,
    };
    if (c->has_attention) {
        tokens.q = c->q + t * config->q_heads * config->head_dim;
        tokens.k = c->k + t * config->kv_heads * config->head_dim;
        tokens.v = c->v + t * config->kv_heads * config->head_dim;
    }
    return tokens;
}

bool oracle_case_open(oracle_case *out, const golden_case *c, oracle_refusal *out_refusal)
{
    const oracle_tokens tokens = oracle_case_tokens(c, 0);
    out->shape = oracle_case_shape(c);
    oracle_open(&out->run, &out->shape, c->anchor, c->frame, (int)c->window);
    return oracle_append(&out->run, (int)c->n, &tokens, out_refusal);
}

void oracle_case_close(oracle_case *o)
{
    oracle_close(&o->run);
}
