/* SPDX-License-Identifier: Apache-2.0 */
/* Replays of recorded cases, one function per kind of file. */
#ifndef QSA_VERIFY_REPLAY_H
#define QSA_VERIFY_REPLAY_H

#include "console/report.h"
#include "verify/golden_case.h"

typedef struct golden_folder {
    const char *path;
    char **files; /* relative to path, sorted */
    size_t count;
} golden_folder;

/* Replays the file at folder->path/file, which has been read. */
typedef void replay_function(const golden_folder *folder, const char *file, const golden_file *golden, report *r);

replay_function replay_stage;     /* kinds stage and ties */
replay_function replay_rope;      /* kind rope */
replay_function replay_canonical; /* kind canonical */
replay_function replay_model;     /* kind model; needs the engine */
replay_function replay_tokenizer; /* kind tokenizer; needs the engine */

/* The path of `name` in the folder of `file`, plus a suffix. Free with free(). */
char *replay_sibling(const golden_folder *folder, const char *file, const char *name, const char *suffix);

/* Records the golden error, if set, as a difference. True if it is not set. */
bool replay_readable(const golden_error *error, report *r);

/* Compares a header's recorded frequencies and attention factor with those of a rotary table. */
void replay_frequencies(const golden_record *header, const qsa_rotary *rotary, report *r);

#endif
