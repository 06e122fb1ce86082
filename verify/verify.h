/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `qsa verify`. */
#ifndef QSA_VERIFY_VERIFY_H
#define QSA_VERIFY_VERIFY_H

#include "console/report.h"
#include "verify/golden_file.h"

/* ---- the strict lane: checks that need no data ---- */

typedef struct lane_check {
    const char *name;
    void (*run)(report *r, bool quick);
} lane_check;

extern const lane_check lane_checks[];
extern const size_t lane_check_count;

/* ---- recorded cases ---- */

/* A folder in the format of tests/golden/README.md. */
typedef struct golden_folder {
    const char *path;
    char **files; /* relative, sorted */
    size_t count;
} golden_folder;

/* Replays the file at folder->path/file, read already. */
typedef void golden_replay(const golden_folder *folder, const char *file, const golden_file *golden, report *r);

golden_replay golden_replay_stage;     /* kinds stage and ties */
golden_replay golden_replay_rope;      /* kind rope */
golden_replay golden_replay_canonical; /* kind canonical */
golden_replay golden_replay_model;     /* kind model; needs the engine */
golden_replay golden_replay_tokenizer; /* kind tokenizer; needs the engine */

/* Every case of a folder: a line per file and a total. True if nothing differed. */
bool golden_replay_folder(const char *path);

#endif
