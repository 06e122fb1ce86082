/* SPDX-License-Identifier: Apache-2.0 */
/* Model files for the tests of the engine: the recorded tiny models, changed copies of them, small quoters; and running
 * them. Everything fails the running test where it fails. */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include "support.h"

#include <qsa_engine.h>

/* A file in memory, to be changed and written. */
typedef struct model_bytes {
    uint8_t *data;
    size_t size;
} model_bytes;

/* A recorded model, "tiny-bf16.gguf". Free data with free(). */
model_bytes model_bytes_read(const char *name);

/* The value of a key, or what follows the name in a tensor's info. */
uint8_t *model_bytes_key(model_bytes *file, const char *key);
uint8_t *model_bytes_tensor(model_bytes *file, const char *tensor);

/* Another name of the same length. */
void model_bytes_rename(model_bytes *file, const char *name, const char *other);

void model_bytes_set_u32(model_bytes *file, const char *key, uint32_t value);

/* One temporary file per test program, gone at the end. */
const char *model_temporary(void);
int model_temporary_make(void **state);
int model_temporary_remove(void **state);

/* Writes the bytes to the temporary file and opens it, or only says with which status it is refused. */
qsa_model *model_bytes_open(const model_bytes *file);
qsa_status model_bytes_refusal(const model_bytes *file);

qsa_model *model_open_golden(const char *name, qsa_weight_storage weights);

/* A context of f32 storage and index for 1,024 tokens. */
qsa_context_options model_options(uint32_t sessions, uint32_t chunk, uint32_t threads);
qsa_context *model_context(const qsa_model *model, const qsa_context_options *options);
qsa_session *model_session(qsa_context *context);

uint32_t model_vocabulary(const qsa_model *model);

/* Feeds n tokens in batches of at most chunk tokens; logits [n][vocabulary] of all of them. */
void model_feed_all(const qsa_model *model, qsa_context *context, qsa_session *session, const int32_t *tokens, size_t n,
                    size_t chunk, float *logits);

/* One context, one session, all tokens; logits [n][vocabulary] are the caller's to free(). */
float *model_run(const qsa_model *model, const qsa_context_options *options, const int32_t *tokens, size_t n);

/* Asserts that the status is OK, with the engine's line. */
void model_ok(qsa_status status);

#endif
