#include "oracle_case.h"

#include "support.h"

oracle_shape oracle_case_shape(const golden_case *c)
{
    static const oracle_kv types[] = {ORACLE_F32, ORACLE_BF16, ORACLE_F16, ORACLE_Q8_0};
    return (oracle_shape){
        .q_heads = (int)c->q_heads,
        .kv_heads = (int)c->kv_heads,
        .head_dim = (int)c->head_dim,
        .index_heads = (int)c->index_heads,
        .index_dim = (int)c->index_dim,
        .rotary_dim = (int)c->rotary_dim,
        .sections = {(int)c->sections[0], (int)c->sections[1], (int)c->sections[2]},
        .ratio = (int)c->ratio,
        .budget = (int)c->budget,
        .theta = c->theta,
        .eps = c->eps,
        .index_bf16 = c->index_bf16,
        .kv_type = types[c->kv_type],
        .final_qk = c->final_qkv,
        .yarn = c->has_yarn,
        .yarn_factor = c->yarn_factor,
        .yarn_context = c->yarn_original_context,
        .yarn_beta_fast = c->yarn_beta_fast,
        .yarn_beta_slow = c->yarn_beta_slow,
        .yarn_has_attention_factor = c->has_yarn_attention_factor,
        .yarn_attention_factor = c->yarn_attention_factor,
        .index_q_norm = c->index_q_norm,
        .index_k_norm = c->index_k_norm,
        .q_norm = c->q_norm,
        .k_norm = c->k_norm,
    };
}

oracle_tokens oracle_case_tokens(const golden_case *c, int first)
{
    size_t t = (size_t)first;
    oracle_tokens tokens = {
        .index_q = c->index_q + t * c->index_heads * c->index_dim,
        .raw_key = c->raw_key + t * c->index_dim,
        .triples = c->triples ? c->triples + 3 * t : NULL,
    };
    if (c->has_attention) {
        tokens.q = c->q + t * c->q_heads * c->head_dim;
        tokens.k = c->k + t * c->kv_heads * c->head_dim;
        tokens.v = c->v + t * c->kv_heads * c->head_dim;
    }
    return tokens;
}

void oracle_case_run(const golden_case *c, const oracle_shape *shape, oracle_run *out_run)
{
    oracle_refusal refusal;
    oracle_tokens tokens = oracle_case_tokens(c, 0);
    oracle_open(out_run, shape, c->anchor, c->frame, (int)c->window);
    if (!oracle_append(out_run, (int)c->n, &tokens, &refusal))
        fail_msg("token %d: %s is refused", refusal.token, refusal.tensor);
}
