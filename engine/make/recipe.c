/* SPDX-License-Identifier: Apache-2.0 */
/* The recipes, one row each, after llama.cpp's rules for a model of this shape. */
#include "make/recipe.h"

#include <assert.h>

typedef struct recipe {
    const char *name;
    uint32_t file_type;
    enum ggml_type large, more; /* more: RECIPE_VALUES in the layers that get more bits */
    enum ggml_type qkv, words, head, ngram, small;
} recipe;

/* A recipe of a single type. */
#define PLAIN(name, number, type, small)                                                                               \
    {                                                                                                                  \
        name, number, type, type, type, type, type, type, small                                                        \
    }

/* A mixture: names of ggml's types in the order of the struct. */
#define MIXED(name, number, large, more, qkv, words, head, ngram)                                                      \
    {                                                                                                                  \
        name, number, T(large), T(more), T(qkv), T(words), T(head), T(ngram), GGML_TYPE_BF16                           \
    }
#define T(type) GGML_TYPE_##type

/* clang-format off */
static const recipe recipes[QSA_RANDOM_TYPE_COUNT] = {
    [QSA_RANDOM_Q8_0] = PLAIN("q8_0", 7, GGML_TYPE_Q8_0, GGML_TYPE_BF16),
    [QSA_RANDOM_Q4_0] = PLAIN("q4_0", 2, GGML_TYPE_Q4_0, GGML_TYPE_BF16),
    [QSA_RANDOM_BF16] = PLAIN("bf16", 32, GGML_TYPE_BF16, GGML_TYPE_BF16),
    [QSA_RANDOM_F16]  = PLAIN("f16", 1, GGML_TYPE_F16, GGML_TYPE_F16),
    [QSA_RANDOM_F32]  = PLAIN("f32", 0, GGML_TYPE_F32, GGML_TYPE_F32),
    /*                               large   more    qkv     words   head    ngram */
    [QSA_RANDOM_Q3_K_M] = MIXED("q3_k_m", 12, Q3_K, Q5_K, Q4_K, Q3_K, Q6_K, IQ4_NL),
    [QSA_RANDOM_Q4_K_M] = MIXED("q4_k_m", 15, Q4_K, Q6_K, Q5_K, Q4_K, Q6_K, IQ4_NL),
    [QSA_RANDOM_Q5_K_M] = MIXED("q5_k_m", 17, Q5_K, Q6_K, Q6_K, Q5_K, Q6_K, Q5_1),
    [QSA_RANDOM_Q6_K]   = MIXED("q6_k",   18, Q6_K, Q6_K, Q6_K, Q6_K, Q6_K, Q8_0),
    [QSA_RANDOM_IQ4_XS] = MIXED("iq4_xs", 30, IQ4_XS, Q5_K, IQ4_XS, IQ4_XS, Q6_K, IQ4_NL),
};
/* clang-format on */

static const recipe *row(qsa_random_type type)
{
    assert((unsigned)type < QSA_RANDOM_TYPE_COUNT);
    return &recipes[type];
}

const char *qsa_random_type_name(qsa_random_type type)
{
    return (unsigned)type < QSA_RANDOM_TYPE_COUNT ? recipes[type].name : NULL;
}

uint32_t recipe_file_type(qsa_random_type type)
{
    return row(type)->file_type;
}

bool recipe_has_more_bits(uint32_t layer, uint32_t layers)
{
    assert(layer < layers);
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

static enum ggml_type with_short_blocks(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
        return GGML_TYPE_Q5_1;
    case GGML_TYPE_Q6_K:
        return GGML_TYPE_Q8_0;
    default:
        return GGML_TYPE_IQ4_NL;
    }
}

enum ggml_type recipe_type(qsa_random_type type, recipe_kind kind, bool more_bits, int64_t columns)
{
    assert((unsigned)kind < RECIPE_KIND_COUNT && columns > 0);
    const recipe *r = row(type);
    const enum ggml_type types[RECIPE_KIND_COUNT] = {
        [RECIPE_LARGE] = r->large, [RECIPE_VALUES] = more_bits ? r->more : r->large,
        [RECIPE_QKV] = r->qkv,     [RECIPE_WORDS] = r->words,
        [RECIPE_HEAD] = r->head,   [RECIPE_NGRAM] = r->ngram,
        [RECIPE_SMALL] = r->small,
    };
    const enum ggml_type wanted = types[kind];
    return columns % ggml_blck_size(wanted) == 0 ? wanted : with_short_blocks(wanted);
}

bool recipe_is_slow(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_Q3_K:
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K:
    case GGML_TYPE_IQ4_NL:
    case GGML_TYPE_IQ4_XS:
        return true;
    default:
        return false;
    }
}
