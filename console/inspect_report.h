/* SPDX-License-Identifier: Apache-2.0 */
/* What `qsa inspect` says of a model file, on standard output. */
#ifndef QSA_CONSOLE_INSPECT_REPORT_H
#define QSA_CONSOLE_INSPECT_REPORT_H

#include <qsa_engine.h>
#include <stdbool.h>

/* The file's facts, and what its cache takes with everything in bf16. */
typedef struct inspect_report {
    const qsa_model *model;
    const char *path;
    qsa_model_info info;
    qsa_memory_plan plan;    /* at full context */
    uint64_t kv_token_bytes; /* of one token, all layers */
    uint64_t index_token_bytes;
    qsa_plan here;       /* a context of this model on this machine */
    const char *warning; /* NULL: none */
} inspect_report;

/* path and model must outlive the report. Errors: those of qsa_plan_memory and qsa_context_plan. */
qsa_status inspect_report_gather(const qsa_model *model, const char *path, inspect_report *out_report);

/* One screen. */
void inspect_report_print(const inspect_report *r);

/* One flat object on one line. */
void inspect_report_json(const inspect_report *r);

#endif
