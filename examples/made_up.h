/* SPDX-License-Identifier: Apache-2.0 */
/* Projections that no model made: the examples need numbers, and a host gets them from its weights. */
#ifndef MADE_UP_H
#define MADE_UP_H

#include <qsa/qsa.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program where a call failed, with the one line that the library has about it. */
static inline void must(qsa_status status)
{
    if (status != QSA_OK) {
        fprintf(stderr, "%s: %s\n", qsa_status_name(status), qsa_error_detail());
        exit(1);
    }
}

/* A small shape: 8 query heads over 2 kv heads of 64, 2 index heads of 32, 64 groups of four tokens. */
static inline qsa_config small_shape(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 2;
    config.q_heads = 8;
    config.kv_heads = 2;
    config.head_dim = 64;
    config.index_heads = 2;
    config.index_dim = 32;
    config.budget = 256;
    config.rotary_dim = 32;
    config.sections[0] = 6;
    config.sections[1] = config.sections[2] = 5;
    config.capacity_tokens = 8192;
    return config;
}

/* Room for some tokens, of one layer at a time. All tensors of a token lie side by side, `row` floats per token. */
typedef struct made_up {
    float *memory;
    size_t row;
    qsa_tensors tensors;
    qsa_output out;
} made_up;

static inline made_up made_up_open(const qsa_config *config, uint32_t tokens)
{
    const size_t q = (size_t)config->q_heads * config->head_dim, kv = (size_t)config->kv_heads * config->head_dim;
    const size_t index_q = (size_t)config->index_heads * config->index_dim;
    made_up m = {.row = 2 * q + 2 * kv + index_q + config->index_dim};
    m.memory = calloc(tokens * m.row, sizeof *m.memory);
    if (m.memory == NULL)
        exit(1);
    m.tensors.q = (qsa_strided){m.memory, m.row, config->head_dim};
    m.tensors.k = (qsa_strided){m.tensors.q.data + q, m.row, config->head_dim};
    m.tensors.v = (qsa_strided){m.tensors.k.data + kv, m.row, config->head_dim};
    m.tensors.index_q = (qsa_strided){m.tensors.v.data + kv, m.row, config->index_dim};
    m.tensors.raw_key = (qsa_strided){m.tensors.index_q.data + index_q, m.row, 0};
    m.out = (qsa_output){m.memory + q + 2 * kv + index_q + config->index_dim, m.row, config->head_dim};
    return m;
}

static inline void made_up_close(made_up *m)
{
    free(m->memory);
}

/* Fills in place `at` what layer `layer` makes of the token with this id. */
static inline void made_up_token(made_up *m, uint32_t at, uint32_t layer, uint32_t id)
{
    uint64_t x = (uint64_t)id * 64 + layer + 1;
    for (float *value = m->memory + at * m->row; value < m->out.data + at * m->row; value++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        *value = (float)(int32_t)(x >> 32) * 0x1p-31f;
    }
}

#endif
