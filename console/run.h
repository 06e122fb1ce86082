/* SPDX-License-Identifier: Apache-2.0 */
/* What `qsa run` does: reads text, continues it, saves the session. */
#ifndef QSA_CONSOLE_RUN_H
#define QSA_CONSOLE_RUN_H

#include "console/generation.h"

typedef struct run_request {
    const char *model;       /* a GGUF file; NULL: the built-in model */
    const char *file, *text; /* the prompt: a file ("-": standard input), then a text; NULL: none */
    const char *save;        /* a snapshot file to write at the end; NULL: none */
    uint32_t tokens;         /* to generate */
    bool recognises_specials;
    qsa_weight_storage weights;
    generation_options generation;
} run_request;

/* Returns the exit status: 128 plus the signal that ended the run, if one did. */
int run_execute(run_request *r);

#endif
