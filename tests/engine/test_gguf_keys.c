/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a GGUF file: getters of every type, and what they refuse. */
#define _POSIX_C_SOURCE 200809L
#include "gguf_fixture.h"

#include "fuzz/gguf_bytes.h"

#include <gguf.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static void reads_keys_of_the_tiny_model(void **state)
{
    (void)state;
    gguf_file *file = gguf_open_good(TINY_BF16);
    uint32_t u32 = 0;
    float f32 = 0;
    bool flag = true;
    const char *text = NULL;
    assert_int_equal(gguf_file_u32(file, "qwen4exp.block_count", &u32), QSA_OK);
    assert_int_equal(u32, 8);
    assert_int_equal(gguf_file_f32(file, "qwen4exp.rope.freq_base", &f32), QSA_OK);
    assert_true(f32 == 1e7f);
    assert_int_equal(gguf_file_bool(file, "tokenizer.ggml.add_bos_token", &flag), QSA_OK);
    assert_false(flag);
    assert_int_equal(gguf_file_string(file, "general.architecture", &text), QSA_OK);
    assert_string_equal(text, "qwen4exp");
    assert_int_equal(gguf_file_shards(file), 1);
    assert_string_equal(gguf_file_name(file), TINY_BF16);
    gguf_file_close(file);
}

static void reads_arrays_of_the_tiny_model(void **state)
{
    (void)state;
    gguf_file *file = gguf_open_good(TINY_BF16);
    int32_t sections[4];
    bool recurrent[8];
    uint64_t multipliers[3];
    const char *tokens[576];
    size_t n = 0;
    assert_int_equal(gguf_file_i32s(file, "qwen4exp.rope.dimension_sections", sections, 4), QSA_OK);
    test_same_integers("sections", (const int32_t[]){3, 3, 2, 0}, sections, 4);
    assert_int_equal(gguf_file_bools(file, "qwen4exp.attention.recurrent_layers", recurrent, 8), QSA_OK);
    for (int layer = 0; layer < 8; layer++)
        assert_int_equal(recurrent[layer], layer % 4 != 3);
    assert_int_equal(gguf_file_u64s(file, "qwen4exp.ple.layer_multipliers", multipliers, 3), QSA_OK);
    assert_true(multipliers[1] == UINT64_C(11435418644576253));
    assert_int_equal(gguf_file_length(file, "tokenizer.ggml.tokens", &n), QSA_OK);
    assert_int_equal(n, 576);
    assert_int_equal(gguf_file_strings(file, "tokenizer.ggml.tokens", tokens, n), QSA_OK);
    assert_string_equal(tokens[1], "\"");
    assert_true(gguf_file_is_array(file, "tokenizer.ggml.tokens"));
    assert_false(gguf_file_is_array(file, "qwen4exp.block_count"));
    gguf_file_close(file);
}

static void integers_of_any_width_fit_or_not(void **state)
{
    (void)state;
    gguf_file *file = gguf_open_seed(0);
    static const struct {
        const char *key;
        bool fits;
        uint32_t value;
    } cases[] = {{"u8", true, 200}, {"u16", true, 60000}, {"u32", true, 4000000000u}, {"i32", true, 2000000000},
                 {"i64", true, 77}, {"i8", false, 0},     {"i16", false, 0},          {"u64", false, 0},
                 {"f32", false, 0}, {"bool", false, 0},   {"text", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t value = 12345;
        qsa_status status = gguf_file_u32(file, cases[i].key, &value);
        assert_int_equal(status, cases[i].fits ? QSA_OK : QSA_E_FORMAT);
        assert_int_equal(value, cases[i].fits ? cases[i].value : 12345);
        if (!cases[i].fits)
            gguf_says(cases[i].key);
    }
    gguf_file_close(file);
}

static void arrays_of_any_width_fit_or_not(void **state)
{
    (void)state;
    gguf_file *file = gguf_open_seed(1);
    static const struct {
        const char *key;
        bool u32, i32, u64; /* which getters it fits */
        uint64_t first, second;
    } cases[] = {
        {"u8s", true, true, true, 255, 1},           {"i8s", false, true, false, (uint64_t)-1, 2},
        {"u16s", true, true, true, 65535, 3},        {"i16s", false, true, false, (uint64_t)-1, 4},
        {"u32s", true, false, true, UINT32_MAX, 5},  {"i32s", false, true, false, (uint64_t)INT32_MIN, 6},
        {"u64s", false, false, true, UINT64_MAX, 7}, {"i64s", false, false, false, 0, 0},
        {"f32s", false, false, false, 0, 0},         {"bools", false, false, false, 0, 0},
        {"texts", false, false, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t u32[2];
        int32_t i32[2];
        uint64_t u64[2];
        assert_int_equal(gguf_file_u32s(file, cases[i].key, u32, 2), cases[i].u32 ? QSA_OK : QSA_E_FORMAT);
        if (cases[i].u32)
            assert_true(u32[0] == cases[i].first && u32[1] == cases[i].second);
        assert_int_equal(gguf_file_i32s(file, cases[i].key, i32, 2), cases[i].i32 ? QSA_OK : QSA_E_FORMAT);
        if (cases[i].i32)
            assert_true((uint64_t)(int64_t)i32[0] == cases[i].first && (uint64_t)i32[1] == cases[i].second);
        assert_int_equal(gguf_file_u64s(file, cases[i].key, u64, 2), cases[i].u64 ? QSA_OK : QSA_E_FORMAT);
        if (cases[i].u64)
            assert_true(u64[0] == cases[i].first && u64[1] == cases[i].second);
    }
    gguf_file_close(file);
}

static void getters_name_what_is_wrong(void **state)
{
    (void)state;
    gguf_file *file = gguf_open_seed(1);
    uint32_t u32;
    uint64_t u64[3];
    float f32;
    bool flag;
    const char *text;
    size_t n;
    assert_int_equal(gguf_file_u32(file, "a.key", &u32), QSA_E_FORMAT);
    gguf_says("seed.gguf: key 'a.key' is missing");
    assert_false(gguf_file_has(file, "a.key"));
    assert_int_equal(gguf_file_u32(file, "u32s", &u32), QSA_E_FORMAT);
    gguf_says("key 'u32s' is an array of u32, expected an unsigned integer");
    assert_int_equal(gguf_file_u64s(file, "u64s", u64, 3), QSA_E_FORMAT);
    gguf_says("key 'u64s' has 2 elements, expected 3");
    assert_int_equal(gguf_file_u64s(file, "i64s", u64, 2), QSA_E_FORMAT);
    gguf_says("key 'i64s', element 0, is -9223372036854775808");
    gguf_file_close(file);
    file = gguf_open_seed(0);
    assert_int_equal(gguf_file_f32(file, "text", &f32), QSA_E_FORMAT);
    gguf_says("key 'text' is str, expected a finite f32");
    assert_int_equal(gguf_file_bool(file, "u8", &flag), QSA_E_FORMAT);
    assert_int_equal(gguf_file_string(file, "u8", &text), QSA_E_FORMAT);
    assert_int_equal(gguf_file_length(file, "u8", &n), QSA_E_FORMAT);
    gguf_says("key 'u8' is u8, expected an array");
    assert_int_equal(gguf_file_f32(file, "f64", &f32), QSA_OK);
    assert_true(f32 == 0.1f);
    gguf_file_close(file);
}

static void a_number_that_is_none_is_refused(void **state)
{
    (void)state;
    const double values[] = {(double)INFINITY, (double)NAN, 1e300};
    for (int i = 0; i < 3; i++) {
        gguf_bytes b = {0};
        bytes_header(&b, 0, 1);
        bytes_key(&b, "theta", GGUF_TYPE_FLOAT64), bytes_f64(&b, values[i]);
        gguf_write_file("number.gguf", b.data, b.size);
        gguf_file *file = gguf_open_good(gguf_path_of("number.gguf"));
        float f32 = 1;
        assert_int_equal(gguf_file_f32(file, "theta", &f32), QSA_E_FORMAT);
        gguf_says("expected a finite f32");
        assert_true(f32 == 1);
        gguf_file_close(file);
        unlink(gguf_path_of("number.gguf"));
        free(b.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_keys_of_the_tiny_model),     cmocka_unit_test(reads_arrays_of_the_tiny_model),
        cmocka_unit_test(integers_of_any_width_fit_or_not), cmocka_unit_test(arrays_of_any_width_fit_or_not),
        cmocka_unit_test(getters_name_what_is_wrong),       cmocka_unit_test(a_number_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, gguf_make_folder, gguf_remove_folder);
}
