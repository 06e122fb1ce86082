/* SPDX-License-Identifier: Apache-2.0 */
#include "gguf_bytes.h"

#include <ggml.h>
#include <gguf.h>
#include <stdlib.h>
#include <string.h>

void bytes_raw(gguf_bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            abort();
    }
    if (size > 0)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

void bytes_u8(gguf_bytes *b, uint8_t value)
{
    bytes_raw(b, &value, sizeof value);
}

void bytes_u16(gguf_bytes *b, uint16_t value)
{
    bytes_raw(b, &value, sizeof value);
}

void bytes_u32(gguf_bytes *b, uint32_t value)
{
    bytes_raw(b, &value, sizeof value);
}

void bytes_u64(gguf_bytes *b, uint64_t value)
{
    bytes_raw(b, &value, sizeof value);
}

void bytes_f32(gguf_bytes *b, float value)
{
    bytes_raw(b, &value, sizeof value);
}

void bytes_f64(gguf_bytes *b, double value)
{
    bytes_raw(b, &value, sizeof value);
}

void bytes_text_n(gguf_bytes *b, const char *text, size_t length)
{
    bytes_u64(b, length);
    bytes_raw(b, text, length);
}

void bytes_text(gguf_bytes *b, const char *text)
{
    bytes_text_n(b, text, strlen(text));
}

void bytes_zeros(gguf_bytes *b, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes_u8(b, 0);
}

void bytes_pad(gguf_bytes *b, size_t alignment)
{
    bytes_zeros(b, (alignment - b->size % alignment) % alignment);
}

void bytes_header(gguf_bytes *b, uint64_t tensors, uint64_t keys)
{
    bytes_raw(b, GGUF_MAGIC, strlen(GGUF_MAGIC));
    bytes_u32(b, GGUF_VERSION);
    bytes_u64(b, tensors);
    bytes_u64(b, keys);
}

void bytes_key(gguf_bytes *b, const char *name, uint32_t type)
{
    bytes_text(b, name);
    bytes_u32(b, type);
}

void bytes_array(gguf_bytes *b, const char *name, uint32_t type, uint64_t n)
{
    bytes_key(b, name, GGUF_TYPE_ARRAY);
    bytes_u32(b, type);
    bytes_u64(b, n);
}

void bytes_tensor(gguf_bytes *b, const char *name, const uint64_t *dims, uint32_t type, uint64_t offset)
{
    uint32_t n = 0;
    while (dims[n] != 0)
        n++;
    bytes_text(b, name);
    bytes_u32(b, n);
    for (uint32_t d = 0; d < n; d++)
        bytes_u64(b, dims[d]);
    bytes_u32(b, type);
    bytes_u64(b, offset);
}

/* ---- seeds ---- */

const char *const gguf_seed_keys[] = {"u8",
                                      "i8",
                                      "u16",
                                      "i16",
                                      "u32",
                                      "i32",
                                      "u64",
                                      "i64",
                                      "f32",
                                      "f64",
                                      "bool",
                                      "text",
                                      "u8s",
                                      "i8s",
                                      "u16s",
                                      "i16s",
                                      "u32s",
                                      "i32s",
                                      "u64s",
                                      "i64s",
                                      "f32s",
                                      "f64s",
                                      "bools",
                                      "texts",
                                      "none",
                                      "split.no",
                                      "split.count",
                                      "split.tensors.count",
                                      "general.alignment"};
const size_t gguf_seed_key_count = sizeof gguf_seed_keys / sizeof gguf_seed_keys[0];

/* One key of every type. */
static void seed_scalars(gguf_bytes *b)
{
    bytes_header(b, 0, 12);
    bytes_key(b, "u8", GGUF_TYPE_UINT8), bytes_u8(b, 200);
    bytes_key(b, "i8", GGUF_TYPE_INT8), bytes_u8(b, (uint8_t)-100);
    bytes_key(b, "u16", GGUF_TYPE_UINT16), bytes_u16(b, 60000);
    bytes_key(b, "i16", GGUF_TYPE_INT16), bytes_u16(b, (uint16_t)-30000);
    bytes_key(b, "u32", GGUF_TYPE_UINT32), bytes_u32(b, 4000000000u);
    bytes_key(b, "i32", GGUF_TYPE_INT32), bytes_u32(b, 2000000000u);
    bytes_key(b, "u64", GGUF_TYPE_UINT64), bytes_u64(b, UINT64_C(1) << 32);
    bytes_key(b, "i64", GGUF_TYPE_INT64), bytes_u64(b, 77);
    bytes_key(b, "f32", GGUF_TYPE_FLOAT32), bytes_f32(b, 0.25f);
    bytes_key(b, "f64", GGUF_TYPE_FLOAT64), bytes_f64(b, 0.1);
    bytes_key(b, "bool", GGUF_TYPE_BOOL), bytes_u8(b, 1);
    bytes_key(b, "text", GGUF_TYPE_STRING), bytes_text(b, "a text");
}

/* One array of every type, of two elements, the second one small. */
static void seed_arrays(gguf_bytes *b)
{
    bytes_header(b, 0, 12);
    bytes_array(b, "u8s", GGUF_TYPE_UINT8, 2), bytes_u8(b, 255), bytes_u8(b, 1);
    bytes_array(b, "i8s", GGUF_TYPE_INT8, 2), bytes_u8(b, (uint8_t)-1), bytes_u8(b, 2);
    bytes_array(b, "u16s", GGUF_TYPE_UINT16, 2), bytes_u16(b, 65535), bytes_u16(b, 3);
    bytes_array(b, "i16s", GGUF_TYPE_INT16, 2), bytes_u16(b, (uint16_t)-1), bytes_u16(b, 4);
    bytes_array(b, "u32s", GGUF_TYPE_UINT32, 2), bytes_u32(b, UINT32_MAX), bytes_u32(b, 5);
    bytes_array(b, "i32s", GGUF_TYPE_INT32, 2), bytes_u32(b, (uint32_t)INT32_MIN), bytes_u32(b, 6);
    bytes_array(b, "u64s", GGUF_TYPE_UINT64, 2), bytes_u64(b, UINT64_MAX), bytes_u64(b, 7);
    bytes_array(b, "i64s", GGUF_TYPE_INT64, 2), bytes_u64(b, (uint64_t)INT64_MIN), bytes_u64(b, 8);
    bytes_array(b, "f32s", GGUF_TYPE_FLOAT32, 2), bytes_f32(b, 1), bytes_f32(b, 2);
    bytes_array(b, "f64s", GGUF_TYPE_FLOAT64, 2), bytes_f64(b, 1), bytes_f64(b, 2);
    bytes_array(b, "bools", GGUF_TYPE_BOOL, 2), bytes_u8(b, 0), bytes_u8(b, 1);
    bytes_array(b, "texts", GGUF_TYPE_STRING, 2), bytes_text(b, "one"), bytes_text(b, "");
}

/* Five tensors of as many types, with data. */
static void seed_tensors(gguf_bytes *b)
{
    bytes_header(b, 5, 1);
    bytes_key(b, "general.alignment", GGUF_TYPE_UINT32), bytes_u32(b, 64);
    bytes_tensor(b, "f32", (const uint64_t[]){3, 5, 0}, GGML_TYPE_F32, 0);
    bytes_tensor(b, "f16", (const uint64_t[]){7, 0}, GGML_TYPE_F16, 64);
    bytes_tensor(b, "bf16", (const uint64_t[]){2, 2, 2, 2, 0}, GGML_TYPE_BF16, 128);
    bytes_tensor(b, "q8_0", (const uint64_t[]){32, 2, 0}, GGML_TYPE_Q8_0, 192);
    bytes_tensor(b, "q4_K", (const uint64_t[]){256, 0}, GGML_TYPE_Q4_K, 320);
    bytes_pad(b, 64);
    for (uint32_t i = 0; i < 512; i++)
        bytes_u8(b, (uint8_t)(i * 37));
}

/* The one shard of a file that is split into one. */
static void seed_split(gguf_bytes *b)
{
    bytes_header(b, 1, 3);
    bytes_key(b, "split.no", GGUF_TYPE_UINT16), bytes_u16(b, 0);
    bytes_key(b, "split.count", GGUF_TYPE_UINT16), bytes_u16(b, 1);
    bytes_key(b, "split.tensors.count", GGUF_TYPE_INT32), bytes_u32(b, 1);
    bytes_tensor(b, "only", (const uint64_t[]){4, 0}, GGML_TYPE_F32, 0);
    bytes_pad(b, 32);
    bytes_zeros(b, 32);
}

void bytes_seed(gguf_bytes *b, int seed)
{
    void (*const seeds[GGUF_SEEDS])(gguf_bytes *) = {seed_scalars, seed_arrays, seed_tensors, seed_split};
    seeds[seed](b);
}
