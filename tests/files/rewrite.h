/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded tiny model (q8_0, 8 layers, gate and up experts fused) with other keys and tensors. */
#ifndef REWRITE_H
#define REWRITE_H

#include "support.h"

#include <ggml.h>
#include <gguf.h>
#include <qsa_engine.h>

typedef struct rewrite {
    struct gguf_context *from;
    struct gguf_context *to;      /* the caller sets and removes keys in it */
    struct ggml_context *tensors; /* of the file; the caller may change their data */
    struct ggml_context *added;
    bool (*drops)(const char *name); /* NULL: no tensor is dropped */
} rewrite;

/* One temporary file per test program. */
int rewrite_setup(void **state);
int rewrite_teardown(void **state);

rewrite rewrite_begin(void);
struct ggml_tensor *rewrite_tensor(const rewrite *r, const char *name); /* of the file */

/* A tensor of f32 numbers, all the same; rows and matrices 0: none. */
struct ggml_tensor *rewrite_add(rewrite *r, const char *name, int64_t columns, int64_t rows, float value);

/* Writes the file and opens it. */
qsa_status rewrite_open(rewrite *r, qsa_model **out_model);
qsa_model *rewrite_open_good(rewrite *r);
/* Writes the file, which is refused with these words. */
void rewrite_refused(rewrite *r, qsa_status status, const char *words);

/* The model as it was recorded. */
qsa_model *rewrite_plain(void);

/* Logits after a text of 40 tokens, [576]; the caller frees them. options NULL: a context of 128 tokens. */
float *rewrite_logits(const qsa_model *model, const qsa_context_options *options);

/* The models say the same, bit for bit; closes both. */
void rewrite_same(qsa_model *a, qsa_model *b);

#endif
