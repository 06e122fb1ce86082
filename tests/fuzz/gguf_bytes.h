/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files put together byte by byte: also such as no writer would write. */
#ifndef GGUF_BYTES_H
#define GGUF_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct gguf_bytes {
    uint8_t *data; /* free() */
    size_t size, capacity;
} gguf_bytes;

void bytes_raw(gguf_bytes *b, const void *data, size_t size);
void bytes_u8(gguf_bytes *b, uint8_t value);
void bytes_u16(gguf_bytes *b, uint16_t value);
void bytes_u32(gguf_bytes *b, uint32_t value);
void bytes_u64(gguf_bytes *b, uint64_t value);
void bytes_f32(gguf_bytes *b, float value);
void bytes_f64(gguf_bytes *b, double value);
void bytes_text(gguf_bytes *b, const char *text); /* its length, then the text */
void bytes_text_n(gguf_bytes *b, const char *text, size_t length);
void bytes_pad(gguf_bytes *b, size_t alignment);
void bytes_zeros(gguf_bytes *b, size_t size);

/* Magic, version 3 and the two counts. */
void bytes_header(gguf_bytes *b, uint64_t tensors, uint64_t keys);

/* A key up to its value, which follows; for an array its elements. type: a gguf_type. */
void bytes_key(gguf_bytes *b, const char *name, uint32_t type);
void bytes_array(gguf_bytes *b, const char *name, uint32_t type, uint64_t n);

/* A tensor's info. dims end at the first 0. type: a ggml_type. */
void bytes_tensor(gguf_bytes *b, const char *name, const uint64_t *dims, uint32_t type, uint64_t offset);

/* Well-formed files of a few hundred bytes that together hold every key type and several tensor types. */
enum { GGUF_SEEDS = 4 };
void bytes_seed(gguf_bytes *b, int seed);

/* The keys of all seeds. */
extern const char *const gguf_seed_keys[];
extern const size_t gguf_seed_key_count;

#endif
