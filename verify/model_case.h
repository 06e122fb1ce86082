/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded case of a whole model: the model, and the sequences fed to it. */
#ifndef QSA_VERIFY_MODEL_CASE_H
#define QSA_VERIFY_MODEL_CASE_H

#include "verify/replay.h"

#include <qsa_engine.h>

enum { MODEL_CASE_SEQUENCES = 16, MODEL_CASE_NAME_BYTES = 64 };

/* One sequence of a case. Its entries have a prefix: none, or seq0_, seq1_, ... */
typedef struct sequence {
    char prefix[16];
    const golden_tensor *ids;
    const int32_t *next; /* [n_next] the greedy continuation */
    size_t n_next;
    int64_t anchor;
    uint32_t *points; /* offsets in the run whose layer tensors were recorded */
    size_t n_points;
    qsa_session *session;
    uint32_t fed; /* tokens before the current batch */
    uint32_t n;   /* tokens in the batch */
} sequence;

typedef struct model_case {
    const golden_record *header;
    report *r;
    golden_error error;
    qsa_model *model;
    qsa_model_info info;
    qsa_rotary rotary;
    qsa_context *context;
    sequence sequences[MODEL_CASE_SEQUENCES];
    size_t count;
} model_case;

/* Opens the model and reads the sequences; sessions are left NULL. False after reporting the reason; close m in any
 * case. bf16: the case was computed in bf16, whose model has another name. */
bool model_case_open(model_case *m, const golden_folder *folder, const char *file, bool bf16);
void model_case_close(model_case *m);

/* Records m->error, if set, as a difference. True if it is not set. */
bool model_case_readable(model_case *m);
/* Records an engine status other than QSA_OK as a difference. */
bool model_case_ok(model_case *m, qsa_status status);

/* Entry names in the file: of a sequence, and of a layer of it. Both return the buffer. */
const char *entry_name(const sequence *s, const char *name, char buffer[MODEL_CASE_NAME_BYTES]);
const char *layer_name(const sequence *s, uint32_t layer, const char *name, char buffer[MODEL_CASE_NAME_BYTES]);

#endif
