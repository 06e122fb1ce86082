/* SPDX-License-Identifier: Apache-2.0 */
/* Which type each kind of matrix gets in a checkpoint: published quantisations mix types, by rules of their own. */
#ifndef QSA_ENGINE_MAKE_RECIPE_H
#define QSA_ENGINE_MAKE_RECIPE_H

#include <ggml.h>
#include <qsa_engine.h>
#include <stdbool.h>

typedef enum recipe_kind {
    RECIPE_LARGE,  /* any large matrix without a rule of its own */
    RECIPE_VALUES, /* attn_v, ffn_down: more bits in some layers */
    RECIPE_QKV,    /* the joint projection of a delta net */
    RECIPE_WORDS,  /* token_embd */
    RECIPE_HEAD,   /* output */
    RECIPE_NGRAM,  /* the n-gram table */
    RECIPE_SMALL,  /* what converters leave as it is: hyper-connections, gates of a delta net */
    RECIPE_KIND_COUNT
} recipe_kind;

/* llama.cpp's number of the recipe, for general.file_type. */
uint32_t recipe_file_type(qsa_random_type type);

/* The layers whose RECIPE_VALUES matrices get more bits: the first and the last eighth, and every third between. */
bool recipe_has_more_bits(uint32_t layer, uint32_t layers);

/* The type of a matrix of this kind with rows of `columns` elements. A type whose block does not divide a row is
 * replaced by one with blocks of 32. */
enum ggml_type recipe_type(qsa_random_type type, recipe_kind kind, bool more_bits, int64_t columns);

/* Whether ggml takes more than about 10 ns to quantise an element. */
bool recipe_is_slow(enum ggml_type type);

#endif
