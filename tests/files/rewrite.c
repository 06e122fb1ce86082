/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POOL_BYTES = 8 << 20, TOKENS = 40, VOCABULARY = 576 };

static char path[] = "rewrite.XXXXXX";

int rewrite_setup(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

int rewrite_teardown(void **state)
{
    (void)state;
    return unlink(path);
}

rewrite rewrite_begin(void)
{
    rewrite r = {0};
    r.from = gguf_init_from_file(QSA_GOLDEN_DIR "/model/tiny-q8_0.gguf",
                                 (struct gguf_init_params){.no_alloc = false, .ctx = &r.tensors});
    r.to = gguf_init_empty();
    r.added = ggml_init((struct ggml_init_params){.mem_size = POOL_BYTES});
    assert_non_null(r.from);
    gguf_set_kv(r.to, r.from);
    return r;
}

struct ggml_tensor *rewrite_tensor(const rewrite *r, const char *name)
{
    struct ggml_tensor *t = ggml_get_tensor(r->tensors, name);
    assert_non_null(t);
    return t;
}

struct ggml_tensor *rewrite_add(rewrite *r, const char *name, int64_t columns, int64_t rows, float value)
{
    struct ggml_tensor *t = rows == 0 ? ggml_new_tensor_1d(r->added, GGML_TYPE_F32, columns)
                                      : ggml_new_tensor_2d(r->added, GGML_TYPE_F32, columns, rows);
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        ((float *)t->data)[i] = value;
    ggml_set_name(t, name);
    gguf_add_tensor(r->to, t);
    return t;
}

qsa_status rewrite_open(rewrite *r, qsa_model **out_model)
{
    for (struct ggml_tensor *t = ggml_get_first_tensor(r->tensors); t; t = ggml_get_next_tensor(r->tensors, t))
        if (gguf_find_tensor(r->from, t->name) >= 0 && !(r->drops && r->drops(t->name)))
            gguf_add_tensor(r->to, t);
    assert_true(gguf_write_to_file(r->to, path, false));
    gguf_free(r->from);
    gguf_free(r->to);
    ggml_free(r->tensors);
    ggml_free(r->added);
    return qsa_model_open(path, NULL, out_model);
}

qsa_model *rewrite_open_good(rewrite *r)
{
    qsa_model *model = NULL;
    if (rewrite_open(r, &model) != QSA_OK)
        fail_msg("refused: %s", qsa_engine_error());
    return model;
}

void rewrite_refused(rewrite *r, qsa_status status, const char *words)
{
    qsa_model *model = NULL;
    const qsa_status found = rewrite_open(r, &model);
    if (found == QSA_OK)
        fail_msg("opened, expected a refusal that says: %s", words);
    assert_null(model);
    if (found != status || !strstr(qsa_engine_error(), words))
        fail_msg("status %d, \"%s\" does not say: %s", (int)found, qsa_engine_error(), words);
}

qsa_model *rewrite_plain(void)
{
    qsa_model *model = NULL;
    assert_int_equal(qsa_model_open(QSA_GOLDEN_DIR "/model/tiny-q8_0.gguf", NULL, &model), QSA_OK);
    return model;
}

float *rewrite_logits(const qsa_model *model, const qsa_context_options *options)
{
    qsa_context_options small;
    qsa_context_options_init(&small);
    small.context = 128;
    qsa_context *context = NULL;
    qsa_session *session = NULL;
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (i * 37 + 11) % 550;
    float *logits = test_alloc(VOCABULARY, sizeof *logits);
    if (qsa_context_create(model, options ? options : &small, &context) != QSA_OK)
        fail_msg("%s", qsa_engine_error());
    assert_int_equal(qsa_session_open(context, &session), QSA_OK);
    assert_int_equal(qsa_session_feed(session, tokens, TOKENS, logits, NULL, NULL), QSA_OK);
    qsa_context_destroy(context);
    return logits;
}

void rewrite_same(qsa_model *a, qsa_model *b)
{
    float *x = rewrite_logits(a, NULL), *y = rewrite_logits(b, NULL);
    assert_memory_equal(x, y, VOCABULARY * sizeof *x);
    free(x);
    free(y);
    qsa_model_close(a);
    qsa_model_close(b);
}
