/* SPDX-License-Identifier: Apache-2.0 */
/* The list of tensors, with names, shapes and types as a converter writes them. */
#include "make/quoter_plan.h"
#include "make/quoter_weights.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct tensor_list {
    const quoter_plan *plan;
    quoter_tensor *tensors;
    size_t count;
    const char *prefix; /* "blk.3." */
    uint32_t layer;
} tensor_list;

typedef struct tensor_shape {
    int64_t columns, rows, matrices; /* 0: no such dimension */
} tensor_shape;

static void add(tensor_list *list, const char *name, enum ggml_type type, tensor_shape shape, quoter_fill *fill)
{
    assert(list->count < QUOTER_MAX_TENSORS);
    quoter_tensor *tensor = &list->tensors[list->count++];
    *tensor = (quoter_tensor){
        .shape = {.dims = {shape.columns, shape.rows, shape.matrices}, .type = type},
        .layer = list->layer,
        .fill = fill,
    };
    snprintf(tensor->shape.name, sizeof tensor->shape.name, "%s%s", list->prefix, name);
}

static void add_f32(tensor_list *list, const char *name, tensor_shape shape, quoter_fill *fill)
{
    add(list, name, GGML_TYPE_F32, shape, fill);
}

/* Thin matrices stay f32: ggml converts the activations of each product to the weight type, which would take longer
 * than the product. */
static bool is_thin(tensor_shape shape)
{
    enum { THIN = 32 };
    return shape.columns <= THIN || shape.rows <= THIN;
}

static void add_matrix(tensor_list *list, const char *name, tensor_shape shape, quoter_fill *fill)
{
    static const enum ggml_type types[QUOTER_TYPE_COUNT] = {
        [QUOTER_F32] = GGML_TYPE_F32,   [QUOTER_BF16] = GGML_TYPE_BF16, [QUOTER_Q8_0] = GGML_TYPE_Q8_0,
        [QUOTER_Q4_K] = GGML_TYPE_Q4_K, [QUOTER_Q6_K] = GGML_TYPE_Q6_K,
    };
    enum ggml_type type = is_thin(shape) ? GGML_TYPE_F32 : types[list->plan->options.type];
    add(list, name, shape.columns % ggml_blck_size(type) == 0 ? type : GGML_TYPE_F16, shape, fill);
}

/* Hyper-connections: all zeros except the norm, so the mix is half of the normalised stream and every gain is 1. */
static void add_head_mixer(tensor_list *list)
{
    int64_t wide = (int64_t)QUOTER_STREAMS * list->plan->embedding;
    add_f32(list, "output_hc_norm.weight", (tensor_shape){wide, 0, 0}, quoter_fill_stream_norm);
    add_matrix(list, "output_hc_down.weight", (tensor_shape){wide, QUOTER_LOW_RANK, 0}, NULL);
    add_matrix(list, "output_hc_up.weight", (tensor_shape){QUOTER_LOW_RANK, wide, 0}, NULL);
}

static void add_attention_mixer(tensor_list *list)
{
    int64_t wide = (int64_t)QUOTER_STREAMS * list->plan->embedding;
    add_f32(list, "hc_attn_norm.weight", (tensor_shape){wide, 0, 0}, quoter_fill_stream_norm);
    add_matrix(list, "hc_attn_down.weight", (tensor_shape){wide, QUOTER_LOW_RANK, 0}, NULL);
    add_matrix(list, "hc_attn_up.weight", (tensor_shape){QUOTER_LOW_RANK, wide, 0}, NULL);
    add_matrix(list, "hc_attn_inject.weight", (tensor_shape){wide, QUOTER_STREAMS, 0}, NULL);
}

static void add_expert_mixer(tensor_list *list)
{
    int64_t wide = (int64_t)QUOTER_STREAMS * list->plan->embedding;
    add_f32(list, "hc_ffn_norm.weight", (tensor_shape){wide, 0, 0}, quoter_fill_stream_norm);
    add_matrix(list, "hc_ffn_down.weight", (tensor_shape){wide, QUOTER_LOW_RANK, 0}, NULL);
    add_matrix(list, "hc_ffn_up.weight", (tensor_shape){QUOTER_LOW_RANK, wide, 0}, NULL);
    add_matrix(list, "hc_ffn_inject.weight", (tensor_shape){wide, QUOTER_STREAMS, 0}, NULL);
}

static void add_delta_net(tensor_list *list)
{
    int64_t embedding = list->plan->embedding;
    int64_t state = list->plan->state_dim;
    int64_t values = QUOTER_STATE_V_HEADS * state;
    int64_t joint = INT64_C(2) * QUOTER_STATE_K_HEADS * state + values;
    add_matrix(list, "attn_qkv.weight", (tensor_shape){embedding, joint, 0}, quoter_fill_state_qkv);
    add_matrix(list, "attn_gate.weight", (tensor_shape){embedding, values, 0}, NULL);
    add_f32(list, "ssm_conv1d.weight", (tensor_shape){QUOTER_CONVOLUTION, joint, 0}, quoter_fill_convolution);
    add_f32(list, "ssm_dt.bias", (tensor_shape){QUOTER_STATE_V_HEADS, 0, 0}, quoter_fill_decay_bias);
    add_f32(list, "ssm_a", (tensor_shape){QUOTER_STATE_V_HEADS, 0, 0}, quoter_fill_decay);
    add_matrix(list, "ssm_beta.weight", (tensor_shape){embedding, QUOTER_STATE_V_HEADS, 0}, NULL);
    add_matrix(list, "ssm_alpha.weight", (tensor_shape){embedding, QUOTER_STATE_V_HEADS, 0}, NULL);
    add_f32(list, "ssm_norm.weight", (tensor_shape){state, 0, 0}, quoter_fill_state_norm);
    add_matrix(list, "ssm_out.weight", (tensor_shape){values, embedding, 0}, quoter_fill_state_out);
}

static void add_attention(tensor_list *list)
{
    int64_t embedding = list->plan->embedding;
    int64_t head = list->plan->options.head_dim;
    int64_t index = list->plan->options.index_dim;
    add_matrix(list, "attn_q.weight", (tensor_shape){embedding, QUOTER_Q_HEADS * head * 2, 0}, quoter_fill_q);
    add_matrix(list, "attn_k.weight", (tensor_shape){embedding, QUOTER_KV_HEADS * head, 0}, quoter_fill_k);
    add_matrix(list, "attn_v.weight", (tensor_shape){embedding, QUOTER_KV_HEADS * head, 0}, quoter_fill_v);
    add_matrix(list, "attn_output.weight", (tensor_shape){QUOTER_Q_HEADS * head, embedding, 0},
               quoter_fill_attention_out);
    add_f32(list, "attn_q_norm.weight", (tensor_shape){head, 0, 0}, quoter_fill_q_norm);
    add_f32(list, "attn_k_norm.weight", (tensor_shape){head, 0, 0}, quoter_fill_k_norm);
    add_matrix(list, "indexer.q_proj.weight", (tensor_shape){embedding, QUOTER_INDEX_HEADS * index, 0},
               quoter_fill_index_q);
    add_matrix(list, "indexer.k_proj.weight", (tensor_shape){embedding, index, 0}, quoter_fill_index_k);
    add_f32(list, "indexer.q_norm.weight", (tensor_shape){index, 0, 0}, quoter_fill_index_norm);
    add_f32(list, "indexer.k_norm.weight", (tensor_shape){index, 0, 0}, quoter_fill_index_norm);
}

static void add_experts(tensor_list *list)
{
    bool last = list->layer + 1 == list->plan->layers;
    int64_t embedding = list->plan->embedding;
    int64_t width = list->plan->options.expert_width;
    tensor_shape in = {embedding, width, QUOTER_EXPERTS}, out = {width, embedding, QUOTER_EXPERTS};
    tensor_shape shared_in = {embedding, width, 0}, shared_out = {width, embedding, 0};
    add_f32(list, "ffn_gate_inp.weight", (tensor_shape){embedding, QUOTER_EXPERTS, 0}, quoter_fill_router);
    add_matrix(list, "ffn_gate_exps.weight", in, last ? quoter_fill_expert_gate : NULL);
    add_matrix(list, "ffn_up_exps.weight", in, last ? quoter_fill_expert_up : NULL);
    add_matrix(list, "ffn_down_exps.weight", out, last ? quoter_fill_expert_down : NULL);
    add_f32(list, "ffn_gate_inp_shexp.weight", (tensor_shape){embedding, 0, 0}, NULL);
    add_matrix(list, "ffn_gate_shexp.weight", shared_in, last ? quoter_fill_shared_gate : NULL);
    add_matrix(list, "ffn_up_shexp.weight", shared_in, last ? quoter_fill_shared_up : NULL);
    add_matrix(list, "ffn_down_shexp.weight", shared_out, last ? quoter_fill_shared_down : NULL);
}

static void add_layer(tensor_list *list)
{
    add_attention_mixer(list);
    if ((list->layer + 1) % QUOTER_BLOCK_LAYERS == 0)
        add_attention(list);
    else
        add_delta_net(list);
    add_expert_mixer(list);
    add_experts(list);
}

size_t quoter_list_tensors(const quoter_plan *plan, quoter_tensor *tensors)
{
    tensor_list list = {.plan = plan, .tensors = tensors, .prefix = ""};
    tensor_shape words = {plan->embedding, QUOTER_VOCABULARY, 0};
    add_matrix(&list, "token_embd.weight", words, quoter_fill_embedding);
    add_matrix(&list, "output.weight", words, quoter_fill_output);
    add_head_mixer(&list);
    for (uint32_t layer = 0; layer < plan->layers; layer++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "blk.%u.", (unsigned)layer);
        list.prefix = prefix;
        list.layer = layer;
        add_layer(&list);
    }
    return list.count;
}
