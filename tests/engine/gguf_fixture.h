/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files for the tests of engine/file, in a temporary folder. Everything fails the running test where it fails. */
#ifndef GGUF_FIXTURE_H
#define GGUF_FIXTURE_H

#include "support.h"

#include "file/gguf_file.h"

#define TINY_BF16 QSA_GOLDEN_DIR "/model/tiny-bf16.gguf"
#define TINY_Q8_0 QSA_GOLDEN_DIR "/model/tiny-q8_0.gguf"

enum { PATH_BYTES = 512 };

/* Of the group. A test that leaves a file behind makes the removal fail. */
int gguf_make_folder(void **state);
int gguf_remove_folder(void **state);

/* A path in the folder; valid until the next call. */
const char *gguf_path_of(const char *name);
void gguf_write_file(const char *name, const void *data, size_t size);
/* Free with free(). */
uint8_t *gguf_read_file(const char *path, size_t *out_size);

/* The engine's detail holds these words. */
void gguf_says(const char *expected);

gguf_file *gguf_open_good(const char *path);
gguf_file *gguf_open_seed(int seed); /* of fuzz/gguf_bytes.h */
void gguf_refuses(const char *path, qsa_status expected, const char *detail);

#endif
