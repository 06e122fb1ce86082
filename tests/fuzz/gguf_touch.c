/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "gguf_touch.h"

#include "gguf_bytes.h"
#include <stdlib.h>
#include <string.h>

/* What was read goes here, so that no compiler leaves the reading out. */
static volatile uint64_t seen;

static void touch_value(const gguf_file *file, const char *key)
{
    uint32_t u32 = 0;
    float f32 = 0;
    bool flag = false;
    const char *text = "";
    gguf_file_u32(file, key, &u32);
    gguf_file_f32(file, key, &f32);
    gguf_file_bool(file, key, &flag);
    gguf_file_string(file, key, &text);
    seen += u32 + (f32 > 0) + flag + strlen(text) + gguf_file_has(file, key) + gguf_file_is_array(file, key);
}

static void touch_array(const gguf_file *file, const char *key)
{
    size_t n = 0;
    if (gguf_file_length(file, key, &n) != QSA_OK)
        return;
    void *values = malloc(n * sizeof(uint64_t) + 1);
    if (!values)
        return;
    gguf_file_bools(file, key, values, n);
    gguf_file_i32s(file, key, values, n);
    gguf_file_u32s(file, key, values, n);
    gguf_file_u64s(file, key, values, n);
    if (gguf_file_strings(file, key, values, n) == QSA_OK)
        for (size_t i = 0; i < n; i++)
            seen += strlen(((const char **)values)[i]);
    free(values);
}

static void touch_tensor(const gguf_file *file, const gguf_file_tensor *tensor)
{
    enum { MOST_ELEMENTS = 1 << 16 };
    const volatile uint8_t *bytes = tensor->data;
    seen += bytes[0] + (uint64_t)bytes[tensor->bytes - 1];
    if (gguf_file_find(file, tensor->name) != tensor)
        abort();
    uint64_t elements = gguf_file_tensor_elements(tensor);
    if (elements > MOST_ELEMENTS)
        return;
    float *values = malloc(elements * sizeof *values);
    if (!values)
        return;
    gguf_file_dequantise(tensor, values);
    seen += values[0] > 0;
    free(values);
}

void gguf_touch(const gguf_file *file)
{
    for (size_t i = 0; i < gguf_seed_key_count; i++) {
        touch_value(file, gguf_seed_keys[i]);
        touch_array(file, gguf_seed_keys[i]);
    }
    for (size_t i = 0; i < gguf_file_tensor_count(file); i++)
        touch_tensor(file, gguf_file_tensor_at(file, i));
}

qsa_status gguf_touch_bytes(const uint8_t *data, size_t size)
{
    void *copy = NULL;
    if (posix_memalign(&copy, GGUF_FILE_MIN_ALIGNMENT, size > 0 ? size : 1) != 0)
        return QSA_E_MEMORY;
    if (size > 0)
        memcpy(copy, data, size);
    gguf_file *file = NULL;
    qsa_status status = gguf_file_open_memory("memory", copy, size, &file);
    if (status == QSA_OK)
        gguf_touch(file);
    gguf_file_close(file);
    free(copy);
    return status;
}
