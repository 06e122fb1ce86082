/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "model_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char temporary[] = "model.XXXXXX";

void model_ok(qsa_status status)
{
    if (status != QSA_OK)
        fail_msg("%s: %s", qsa_status_name(status), qsa_engine_error());
}

/* ---- files ---- */

model_bytes model_bytes_read(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/model/%s", QSA_GOLDEN_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    model_bytes bytes = {test_alloc((size_t)size, 1), (size_t)size};
    assert_int_equal(fread(bytes.data, 1, bytes.size, file), bytes.size);
    fclose(file);
    return bytes;
}

/* Where the name stands, its length before it. */
static uint8_t *find_name(model_bytes *file, const char *name)
{
    const uint64_t length = strlen(name);
    for (size_t at = 0; at + sizeof length + length <= file->size; at++)
        if (memcmp(file->data + at, &length, sizeof length) == 0 &&
            memcmp(file->data + at + sizeof length, name, length) == 0)
            return file->data + at + sizeof length;
    fail_msg("the file has no name %s", name);
    return NULL;
}

uint8_t *model_bytes_key(model_bytes *file, const char *key)
{
    return find_name(file, key) + strlen(key) + sizeof(uint32_t);
}

uint8_t *model_bytes_tensor(model_bytes *file, const char *tensor)
{
    return find_name(file, tensor) + strlen(tensor);
}

void model_bytes_rename(model_bytes *file, const char *name, const char *other)
{
    assert_int_equal(strlen(name), strlen(other));
    memcpy(find_name(file, name), other, strlen(other));
}

void model_bytes_set_u32(model_bytes *file, const char *key, uint32_t value)
{
    memcpy(model_bytes_key(file, key), &value, sizeof value);
}

int model_temporary_make(void **state)
{
    (void)state;
    const int file = mkstemp(temporary);
    return file < 0 ? -1 : close(file);
}

int model_temporary_remove(void **state)
{
    (void)state;
    return unlink(temporary);
}

const char *model_temporary(void)
{
    return temporary;
}

static void write_temporary(const model_bytes *bytes)
{
    FILE *file = fopen(temporary, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, bytes->size, file), bytes->size);
    assert_int_equal(fclose(file), 0);
}

qsa_model *model_bytes_open(const model_bytes *file)
{
    qsa_model *model = NULL;
    write_temporary(file);
    model_ok(qsa_model_open(temporary, NULL, &model));
    return model;
}

qsa_status model_bytes_refusal(const model_bytes *file)
{
    qsa_model *model = NULL;
    write_temporary(file);
    const qsa_status status = qsa_model_open(temporary, NULL, &model);
    assert_true(status == QSA_OK || model == NULL);
    qsa_model_close(model);
    return status;
}

/* ---- running ---- */

qsa_model *model_open_golden(const char *name, qsa_weight_storage weights)
{
    char path[512];
    qsa_model *model = NULL;
    qsa_model_options options;
    qsa_model_options_init(&options);
    options.weights = weights;
    snprintf(path, sizeof path, "%s/model/%s", QSA_GOLDEN_DIR, name);
    model_ok(qsa_model_open(path, &options, &model));
    return model;
}

qsa_context_options model_options(uint32_t sessions, uint32_t chunk, uint32_t threads)
{
    qsa_context_options options;
    qsa_context_options_init(&options);
    options.context = 1024;
    options.sessions = sessions;
    options.chunk = chunk;
    options.threads = threads;
    options.kv = QSA_KV_F32;
    options.index = QSA_PROFILE_F32;
    return options;
}

qsa_context *model_context(const qsa_model *model, const qsa_context_options *options)
{
    qsa_context *context = NULL;
    model_ok(qsa_context_create(model, options, &context));
    return context;
}

qsa_session *model_session(qsa_context *context)
{
    qsa_session *session = NULL;
    model_ok(qsa_session_open(context, &session));
    return session;
}

uint32_t model_vocabulary(const qsa_model *model)
{
    qsa_model_info info;
    qsa_model_get_info(model, &info);
    return info.vocabulary;
}

void model_feed_all(const qsa_model *model, qsa_context *context, qsa_session *session, const int32_t *tokens, size_t n,
                    size_t chunk, float *logits)
{
    const uint32_t vocabulary = model_vocabulary(model);
    const uint64_t before = qsa_session_tokens(session);
    for (size_t fed = 0, now; fed < n; fed += now) {
        now = n - fed < chunk ? n - fed : chunk;
        const qsa_batch_item item = {session, tokens + fed, (uint32_t)now, (uint32_t)now, logits + fed * vocabulary};
        model_ok(qsa_batch_run(context, &item, 1));
        assert_int_equal(qsa_session_tokens(session), before + fed + now);
    }
}

float *model_run(const qsa_model *model, const qsa_context_options *options, const int32_t *tokens, size_t n)
{
    qsa_context *context = model_context(model, options);
    float *logits = test_alloc(n * model_vocabulary(model), sizeof *logits);
    model_feed_all(model, context, model_session(context), tokens, n, options->chunk, logits);
    qsa_context_destroy(context);
    return logits;
}
