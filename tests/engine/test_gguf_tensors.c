/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a GGUF file: where they lie, and their values. */
#define _POSIX_C_SOURCE 200809L
#include "gguf_fixture.h"

#include "fuzz/gguf_bytes.h"
#include "fuzz/gguf_touch.h"

#include <gguf.h>
#include <stdlib.h>
#include <string.h>

/* Every tensor is where ggml's own loading puts it, byte for byte, in ascending order of names. */
static void tensors_equal_those_of_ggml(const char *path)
{
    gguf_file *file = gguf_open_good(path);
    struct ggml_context *loaded = NULL;
    struct gguf_context *gguf = gguf_init_from_file(path, (struct gguf_init_params){false, &loaded});
    assert_non_null(gguf);
    size_t n = gguf_file_tensor_count(file);
    assert_int_equal(n, gguf_get_n_tensors(gguf));
    for (size_t i = 0; i < n; i++) {
        const gguf_file_tensor *tensor = gguf_file_tensor_at(file, i);
        const struct ggml_tensor *expected = ggml_get_tensor(loaded, tensor->name);
        assert_non_null(expected);
        assert_int_equal(tensor->type, expected->type);
        assert_memory_equal(tensor->dims, expected->ne, sizeof tensor->dims);
        assert_int_equal(tensor->bytes, ggml_nbytes(expected));
        assert_memory_equal(tensor->data, expected->data, tensor->bytes);
        assert_int_equal((uintptr_t)tensor->data % GGUF_FILE_MIN_ALIGNMENT, 0);
        assert_ptr_equal(gguf_file_find(file, tensor->name), tensor);
        if (i > 0)
            assert_true(strcmp(gguf_file_tensor_at(file, i - 1)->name, tensor->name) < 0);
    }
    assert_null(gguf_file_tensor_at(file, n));
    assert_null(gguf_file_find(file, "blk.99.attn_q.weight"));
    ggml_free(loaded);
    gguf_free(gguf);
    gguf_file_close(file);
}

static void finds_every_tensor(void **state)
{
    (void)state;
    tensors_equal_those_of_ggml(TINY_BF16);
    tensors_equal_those_of_ggml(TINY_Q8_0);
}

/* ---- dequantising ---- */

/* Of element i, by the definition of the type. */
static float element(const gguf_file_tensor *tensor, size_t i)
{
    const uint8_t *data = tensor->data;
    uint16_t half;
    if (tensor->type == GGML_TYPE_BF16) {
        memcpy(&half, data + 2 * i, sizeof half);
        return test_float((uint32_t)half << 16);
    }
    if (tensor->type == GGML_TYPE_F16) {
        memcpy(&half, data + 2 * i, sizeof half);
        return ggml_fp16_to_fp32(half);
    }
    if (tensor->type == GGML_TYPE_Q8_0) { /* blocks of 32: an f16 scale, then 32 integers */
        const uint8_t *block = data + i / 32 * 34;
        memcpy(&half, block, sizeof half);
        return ggml_fp16_to_fp32(half) * (float)(int8_t)block[2 + i % 32];
    }
    float value;
    memcpy(&value, data + 4 * i, sizeof value);
    return value;
}

static void dequantises_by_definition(void **state)
{
    (void)state;
    const char *const paths[] = {TINY_BF16, TINY_Q8_0};
    for (int p = 0; p < 2; p++) {
        gguf_file *file = gguf_open_good(paths[p]);
        for (size_t t = 0; t < gguf_file_tensor_count(file); t++) {
            const gguf_file_tensor *tensor = gguf_file_tensor_at(file, t);
            size_t n = gguf_file_tensor_elements(tensor);
            float *values = test_alloc(n, sizeof *values);
            gguf_file_dequantise(tensor, values);
            for (size_t i = 0; i < n; i++)
                if (test_bits(values[i]) != test_bits(element(tensor, i)))
                    fail_msg("%s: element %zu", tensor->name, i);
            free(values);
        }
        gguf_file_close(file);
    }
}

static uint64_t rows_bytes(enum ggml_type type, uint64_t columns, uint64_t rows)
{
    return ggml_row_size(type, (int64_t)columns) * rows;
}

/* Every type that ggml's reader takes is taken if it can become f32, and refused by name if not. */
static void takes_every_type_with_an_f32_form(void **state)
{
    (void)state;
    int taken = 0, refused = 0;
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        if (ggml_blck_size(type) == 0) /* a type that was taken out of ggml */
            continue;
        gguf_bytes b = {0};
        bytes_header(&b, 1, 0);
        bytes_tensor(&b, "w", (const uint64_t[]){256, 2, 0}, (uint32_t)type, 0);
        bytes_pad(&b, 32);
        bytes_zeros(&b, rows_bytes(type, 256, 2));
        qsa_status status = gguf_touch_bytes(b.data, b.size);
        bool has_form = type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float;
        assert_int_equal(status, has_form ? QSA_OK : QSA_E_UNSUPPORTED);
        if (!has_form)
            gguf_says(ggml_type_name(type));
        taken += has_form;
        refused += !has_form;
        free(b.data);
    }
    assert_in_range(taken, 20, GGML_TYPE_COUNT);
    assert_in_range(refused, 1, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_every_tensor),
        cmocka_unit_test(dequantises_by_definition),
        cmocka_unit_test(takes_every_type_with_an_f32_form),
    };
    return cmocka_run_group_tests(tests, gguf_make_folder, gguf_remove_folder);
}
