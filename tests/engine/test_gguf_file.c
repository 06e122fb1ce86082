/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files: what a good one gives, and that a bad one of any kind is refused by name. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include "base/error.h"
#include "file/gguf_file.h"
#include "fuzz/gguf_bytes.h"
#include "fuzz/gguf_touch.h"
#include <gguf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TINY_BF16 QSA_GOLDEN_DIR "/model/tiny-bf16.gguf"
#define TINY_Q8_0 QSA_GOLDEN_DIR "/model/tiny-q8_0.gguf"

enum { PATH_BYTES = 512 };
static char folder[] = "/tmp/qsa-gguf-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails if a test left something behind */
}

static void write_file(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static uint8_t *read_file(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *out_size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = test_alloc(*out_size, 1);
    assert_int_equal(fread(data, 1, *out_size, file), *out_size);
    fclose(file);
    return data;
}

static void says(const char *expected)
{
    if (!strstr(engine_error_detail(), expected))
        fail_msg("the detail is \"%s\", which lacks \"%s\"", engine_error_detail(), expected);
}

static gguf_file *open_good(const char *path)
{
    gguf_file *file = NULL;
    if (gguf_file_open(path, &file) != QSA_OK)
        fail_msg("%s", engine_error_detail());
    return file;
}

static void refuses(const char *path, qsa_status expected, const char *detail)
{
    gguf_file *file = NULL;
    qsa_status status = gguf_file_open(path, &file);
    if (status != expected)
        fail_msg("%s: %s, expected %s (%s)", path, qsa_status_name(status), qsa_status_name(expected),
                 engine_error_detail());
    assert_null(file);
    says(detail);
}

/* ---- a good file ---- */

static void reads_keys_of_the_tiny_model(void **state)
{
    (void)state;
    gguf_file *file = open_good(TINY_BF16);
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
    gguf_file *file = open_good(TINY_BF16);
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

/* Every tensor is where ggml's own loading puts it, byte for byte, in ascending order of names. */
static void tensors_equal_those_of_ggml(const char *path)
{
    gguf_file *file = open_good(path);
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
        gguf_file *file = open_good(paths[p]);
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
            says(ggml_type_name(type));
        taken += has_form;
        refused += !has_form;
        free(b.data);
    }
    assert_in_range(taken, 20, GGML_TYPE_COUNT);
    assert_in_range(refused, 1, 10);
}

/* ---- getters ---- */

static gguf_file *open_seed(int seed)
{
    gguf_bytes b = {0};
    bytes_seed(&b, seed);
    write_file("seed.gguf", b.data, b.size);
    free(b.data);
    gguf_file *file = open_good(path_of("seed.gguf"));
    unlink(path_of("seed.gguf"));
    return file;
}

static void integers_of_any_width_fit_or_not(void **state)
{
    (void)state;
    gguf_file *file = open_seed(0);
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
            says(cases[i].key);
    }
    gguf_file_close(file);
}

static void arrays_of_any_width_fit_or_not(void **state)
{
    (void)state;
    gguf_file *file = open_seed(1);
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
    gguf_file *file = open_seed(1);
    uint32_t u32;
    uint64_t u64[3];
    float f32;
    bool flag;
    const char *text;
    size_t n;
    assert_int_equal(gguf_file_u32(file, "a.key", &u32), QSA_E_FORMAT);
    says("seed.gguf: key 'a.key' is missing");
    assert_false(gguf_file_has(file, "a.key"));
    assert_int_equal(gguf_file_u32(file, "u32s", &u32), QSA_E_FORMAT);
    says("key 'u32s' is an array of u32, expected an unsigned integer");
    assert_int_equal(gguf_file_u64s(file, "u64s", u64, 3), QSA_E_FORMAT);
    says("key 'u64s' has 2 elements, expected 3");
    assert_int_equal(gguf_file_u64s(file, "i64s", u64, 2), QSA_E_FORMAT);
    says("key 'i64s', element 0, is -9223372036854775808");
    gguf_file_close(file);
    file = open_seed(0);
    assert_int_equal(gguf_file_f32(file, "text", &f32), QSA_E_FORMAT);
    says("key 'text' is str, expected a finite f32");
    assert_int_equal(gguf_file_bool(file, "u8", &flag), QSA_E_FORMAT);
    assert_int_equal(gguf_file_string(file, "u8", &text), QSA_E_FORMAT);
    assert_int_equal(gguf_file_length(file, "u8", &n), QSA_E_FORMAT);
    says("key 'u8' is u8, expected an array");
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
        write_file("number.gguf", b.data, b.size);
        gguf_file *file = open_good(path_of("number.gguf"));
        float f32 = 1;
        assert_int_equal(gguf_file_f32(file, "theta", &f32), QSA_E_FORMAT);
        says("expected a finite f32");
        assert_true(f32 == 1);
        gguf_file_close(file);
        unlink(path_of("number.gguf"));
        free(b.data);
    }
}

/* ---- what is no file ---- */

static void refuses_what_is_no_file(void **state)
{
    (void)state;
    refuses(path_of("missing.gguf"), QSA_E_IO, "missing.gguf: No such file");
    refuses(folder, QSA_E_IO, "is a directory");
    refuses("/dev/null", QSA_E_IO, "is not a regular file");
    assert_int_equal(mkfifo(path_of("fifo.gguf"), 0600), 0);
    refuses(path_of("fifo.gguf"), QSA_E_IO, "is not a regular file");
    unlink(path_of("fifo.gguf"));
    write_file("empty.gguf", "", 0);
    refuses(path_of("empty.gguf"), QSA_E_FORMAT, "empty.gguf: is empty");
    unlink(path_of("empty.gguf"));
    write_file("text.gguf", "GGUG of sorts", 13);
    refuses(path_of("text.gguf"), QSA_E_FORMAT, "not a GGUF file");
    unlink(path_of("text.gguf"));
}

static void refuses_what_it_may_not_read(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* root may read everything */
    write_file("locked.gguf", "GGUF", 4);
    assert_int_equal(chmod(path_of("locked.gguf"), 0), 0);
    refuses(path_of("locked.gguf"), QSA_E_IO, "Permission denied");
    unlink(path_of("locked.gguf"));
}

/* ---- files cut short ---- */

static void refuses_the_tiny_model_cut_anywhere(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = read_file(TINY_BF16, &size);
    for (int cut = 0; cut < 300; cut++) {
        write_file("cut.gguf", data, 1 + (size_t)cut * ((size - 33) / 299));
        refuses(path_of("cut.gguf"), QSA_E_FORMAT, "cut.gguf: ");
    }
    unlink(path_of("cut.gguf"));
    free(data);
}

/* ---- hostile headers ---- */

static void four_tebibytes(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "huge", (const uint64_t[]){UINT64_C(1) << 40, 0}, GGML_TYPE_F32, 0);
    bytes_pad(b, 32);
}

/* 34 bytes per block times this many blocks of 32 is more than 2^64 before the division by 32, and small after it. */
static void size_that_wraps_around(gguf_bytes *b)
{
    const uint64_t blocks = UINT64_MAX / (32 * 34) + 1;
    bytes_header(b, 1, 0);
    bytes_tensor(b, "wrap", (const uint64_t[]){blocks * 32, 0}, GGML_TYPE_Q8_0, 0);
    bytes_pad(b, 32);
    bytes_zeros(b, 4096);
}

static void dims_that_overflow(gguf_bytes *b)
{
    const uint64_t n = UINT64_C(1) << 32;
    bytes_header(b, 1, 0);
    bytes_tensor(b, "many", (const uint64_t[]){n, n, n, n, 0}, GGML_TYPE_F32, 0);
    bytes_pad(b, 32);
}

static void negative_dim(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "minus", (const uint64_t[]){UINT64_MAX, 0}, GGML_TYPE_F32, 0);
    bytes_pad(b, 32);
}

static void zero_dim(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_text(b, "none");
    bytes_u32(b, 2), bytes_u64(b, 32), bytes_u64(b, 0);
    bytes_u32(b, GGML_TYPE_F32), bytes_u64(b, 0);
    bytes_pad(b, 32);
}

static void no_dims(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "point", (const uint64_t[]){0}, GGML_TYPE_F32, 0);
    bytes_pad(b, 32);
    bytes_zeros(b, 32);
}

static void five_dims(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "five", (const uint64_t[]){1, 1, 1, 1, 1, 0}, GGML_TYPE_F32, 0);
    bytes_pad(b, 32);
    bytes_zeros(b, 32);
}

static void two_tensors(gguf_bytes *b, const char *first, size_t first_length, const char *second, uint64_t offset)
{
    bytes_header(b, 2, 0);
    bytes_text_n(b, first, first_length);
    bytes_u32(b, 1), bytes_u64(b, 8), bytes_u32(b, GGML_TYPE_F32), bytes_u64(b, 0);
    bytes_tensor(b, second, (const uint64_t[]){8, 0}, GGML_TYPE_F32, offset);
    bytes_pad(b, 32);
    bytes_zeros(b, 64);
}

static void nul_in_tensor_name(gguf_bytes *b)
{
    two_tensors(b, "a\0b", 3, "a", 32);
}

static void empty_tensor_name(gguf_bytes *b)
{
    two_tensors(b, "", 0, "a", 32);
}

static void long_tensor_name(gguf_bytes *b)
{
    char name[65] = "";
    memset(name, 'n', 64);
    two_tensors(b, name, 64, "a", 32);
}

static void same_tensor_twice(gguf_bytes *b)
{
    two_tensors(b, "a", 1, "a", 32);
}

static void tensors_that_overlap(gguf_bytes *b)
{
    two_tensors(b, "a", 1, "b", 0);
}

static void offset_beyond_everything(gguf_bytes *b)
{
    two_tensors(b, "a", 1, "b", UINT64_MAX - 31);
}

static void unknown_tensor_type(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "typed", (const uint64_t[]){32, 0}, 4711, 0);
    bytes_pad(b, 32);
}

static void withdrawn_tensor_type(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "typed", (const uint64_t[]){32, 0}, 4 /* once Q4_2 */, 0);
    bytes_pad(b, 32);
    bytes_zeros(b, 128);
}

static void row_of_half_a_block(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "half", (const uint64_t[]){48, 2, 0}, GGML_TYPE_Q8_0, 0);
    bytes_pad(b, 32);
    bytes_zeros(b, 128);
}

static void integer_tensor(gguf_bytes *b)
{
    bytes_header(b, 1, 0);
    bytes_tensor(b, "whole", (const uint64_t[]){8, 0}, GGML_TYPE_I32, 0);
    bytes_pad(b, 32);
    bytes_zeros(b, 32);
}

static void many_tensors(gguf_bytes *b)
{
    bytes_header(b, UINT64_C(1) << 40, 0);
}

static void negative_tensors(gguf_bytes *b)
{
    bytes_header(b, UINT64_MAX, 0);
}

static void many_keys(gguf_bytes *b)
{
    bytes_header(b, 0, UINT64_MAX);
}

static void fewer_keys_than_claimed(gguf_bytes *b)
{
    bytes_header(b, 0, 2);
    bytes_key(b, "one", GGUF_TYPE_UINT32), bytes_u32(b, 1);
}

static void key_beyond_file(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_u64(b, UINT64_C(1) << 62);
}

static void string_beyond_file(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_key(b, "text", GGUF_TYPE_STRING), bytes_u64(b, UINT64_MAX);
}

static void array_beyond_file(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_array(b, "numbers", GGUF_TYPE_UINT64, UINT64_C(1) << 61);
}

static void strings_beyond_file(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_array(b, "texts", GGUF_TYPE_STRING, UINT64_C(1) << 30);
}

static void array_of_arrays(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_array(b, "nested", GGUF_TYPE_ARRAY, 1);
    bytes_zeros(b, 64);
}

static void unknown_key_type(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_key(b, "odd", 99), bytes_zeros(b, 64);
}

static void empty_key(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_key(b, "", GGUF_TYPE_UINT8), bytes_u8(b, 0);
}

static void nul_in_key(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_text_n(b, "k\0l", 3);
    bytes_u32(b, GGUF_TYPE_UINT8), bytes_u8(b, 0);
}

static void nul_in_string(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_key(b, "text", GGUF_TYPE_STRING), bytes_text_n(b, "x\0y", 3);
}

static void same_key_twice(gguf_bytes *b)
{
    bytes_header(b, 0, 2);
    bytes_key(b, "twin", GGUF_TYPE_UINT8), bytes_u8(b, 0);
    bytes_key(b, "twin", GGUF_TYPE_UINT8), bytes_u8(b, 1);
}

static void alignment_of_another_type(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_key(b, "general.alignment", GGUF_TYPE_UINT64), bytes_u64(b, 32);
}

static void alignment_in_an_array(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_array(b, "general.alignment", GGUF_TYPE_UINT32, 0);
}

static void alignment_of(gguf_bytes *b, uint32_t alignment)
{
    bytes_header(b, 1, 1);
    bytes_key(b, "general.alignment", GGUF_TYPE_UINT32), bytes_u32(b, alignment);
    bytes_tensor(b, "w", (const uint64_t[]){8, 0}, GGML_TYPE_F32, 0);
    bytes_zeros(b, 256);
}

static void alignment_zero(gguf_bytes *b)
{
    alignment_of(b, 0);
}

static void alignment_no_power_of_two(gguf_bytes *b)
{
    alignment_of(b, 48);
}

static void alignment_too_fine(gguf_bytes *b)
{
    alignment_of(b, 16);
}

static void alignment_beyond_file(gguf_bytes *b)
{
    alignment_of(b, UINT32_C(1) << 31);
}

static void version_one(gguf_bytes *b)
{
    bytes_header(b, 0, 0);
    b->data[4] = 1;
}

static void version_of_the_other_byte_order(gguf_bytes *b)
{
    bytes_header(b, 0, 0);
    b->data[4] = 0, b->data[7] = 3;
}

static void name_with_control_characters(gguf_bytes *b)
{
    bytes_header(b, 0, 1);
    bytes_key(b, "two\nlines\x1b[2J", 99), bytes_zeros(b, 8);
}

static const struct hostile {
    void (*make)(gguf_bytes *);
    qsa_status status;
    const char *says;
} hostiles[] = {
    {four_tebibytes, QSA_E_FORMAT, "truncated: tensor 'huge' takes 4398046511104 bytes"},
    {size_that_wraps_around, QSA_E_FORMAT, "tensor 'wrap'"},
    {dims_that_overflow, QSA_E_FORMAT, "'many'"},
    {negative_dim, QSA_E_FORMAT, "tensor 'minus' has dimension 0"},
    {zero_dim, QSA_E_FORMAT, "tensor 'none' has dimension 1 of 0 elements"},
    {no_dims, QSA_E_FORMAT, "tensor 'point' has 0 dimensions"},
    {five_dims, QSA_E_FORMAT, "tensor 'five' has 5 dimensions"},
    {nul_in_tensor_name, QSA_E_FORMAT, "the name of tensor 0 holds a NUL byte after 'a'"},
    {empty_tensor_name, QSA_E_FORMAT, "the name of tensor 0 is empty"},
    {long_tensor_name, QSA_E_FORMAT, "too long"},
    {same_tensor_twice, QSA_E_FORMAT, "duplicate tensor name 'a'"},
    {tensors_that_overlap, QSA_E_FORMAT, "tensor 'b' has offset 0"},
    {offset_beyond_everything, QSA_E_FORMAT, "tensor 'b' has offset"},
    {unknown_tensor_type, QSA_E_FORMAT, "'typed' has invalid ggml type 4711"},
    {withdrawn_tensor_type, QSA_E_FORMAT, "'typed'"},
    {row_of_half_a_block, QSA_E_FORMAT, "'half'"},
    {integer_tensor, QSA_E_UNSUPPORTED, "tensor 'whole' has type i32"},
    {many_tensors, QSA_E_LIMIT, "claims 1099511627776 tensors"},
    {negative_tensors, QSA_E_LIMIT, "claims 18446744073709551615 tensors"},
    {many_keys, QSA_E_LIMIT, "claims 18446744073709551615 keys"},
    {fewer_keys_than_claimed, QSA_E_FORMAT, "truncated: key at byte"},
    {key_beyond_file, QSA_E_FORMAT, "truncated: key at byte"},
    {string_beyond_file, QSA_E_FORMAT, "truncated: a string at byte"},
    {array_beyond_file, QSA_E_FORMAT, "key 'numbers' claims 2305843009213693952 values"},
    {strings_beyond_file, QSA_E_FORMAT, "key 'texts' claims 1073741824 strings"},
    {array_of_arrays, QSA_E_FORMAT, "key 'nested' is an array of type 9"},
    {unknown_key_type, QSA_E_FORMAT, "key 'odd' has type 99"},
    {empty_key, QSA_E_FORMAT, "the name of key 0 is empty"},
    {nul_in_key, QSA_E_FORMAT, "the name of key 0 holds a NUL byte after 'k'"},
    {nul_in_string, QSA_E_FORMAT, "key 'text' has a string with a NUL byte"},
    {same_key_twice, QSA_E_FORMAT, "duplicate key 'twin'"},
    {alignment_of_another_type, QSA_E_FORMAT, "'general.alignment' must be of type u32"},
    {alignment_in_an_array, QSA_E_FORMAT, "'general.alignment' must be of type u32"},
    {alignment_zero, QSA_E_FORMAT, "alignment 0 is not a power of 2"},
    {alignment_no_power_of_two, QSA_E_FORMAT, "alignment 48 is not a power of 2"},
    {alignment_too_fine, QSA_E_UNSUPPORTED, "general.alignment is 16"},
    {alignment_beyond_file, QSA_E_FORMAT, "hostile.gguf: "},
    {version_one, QSA_E_UNSUPPORTED, "GGUF version 1"},
    {version_of_the_other_byte_order, QSA_E_UNSUPPORTED, "GGUF version 50331648"},
    {name_with_control_characters, QSA_E_FORMAT, "key 'two?lines?[2J' has type 99"},
};

static void refuses_hostile_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        gguf_bytes b = {0};
        hostiles[i].make(&b);
        write_file("hostile.gguf", b.data, b.size);
        refuses(path_of("hostile.gguf"), hostiles[i].status, hostiles[i].says);
        assert_null(strchr(engine_error_detail(), '\n'));
        free(b.data);
    }
    unlink(path_of("hostile.gguf"));
}

/* A sparse file costs its maker nothing, so a size alone must not make us allocate. */
static void refuses_a_huge_claim_that_the_file_could_hold(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint64_t n;
        const char *says;
    } cases[] = {{GGUF_TYPE_UINT8, UINT64_C(1) << 31, "more than 268435456 bytes"},
                 {GGUF_TYPE_STRING, UINT64_C(1) << 29, "more than 4194304 strings"}};
    for (int i = 0; i < 2; i++) {
        gguf_bytes b = {0};
        bytes_header(&b, 0, 1);
        bytes_array(&b, "zeros", cases[i].type, cases[i].n);
        write_file("sparse.gguf", b.data, b.size);
        assert_int_equal(truncate(path_of("sparse.gguf"), (off_t)1 << 33), 0);
        refuses(path_of("sparse.gguf"), QSA_E_LIMIT, cases[i].says);
        unlink(path_of("sparse.gguf"));
        free(b.data);
    }
}

/* ---- split files ---- */

enum { SHARDS = 3 };
static const char *const shard_names[SHARDS] = {"part-00001-of-00003.gguf", "part-00002-of-00003.gguf",
                                                "part-00003-of-00003.gguf"};

/* What a writer of shards may get wrong, one at a time. */
typedef struct split_fault {
    int number;       /* added to split.no of the second shard */
    int count;        /* added to split.count of the second shard */
    int tensors;      /* added to split.tensors.count of all */
    bool twice;       /* the first tensor of the third shard is in the second one too */
    bool no_tensors;  /* split.tensors.count is missing in the first shard */
    bool text_number; /* split.no of the second shard is a string */
} split_fault;

static void set_split_keys(struct gguf_context *out, int shard, int tensors, const split_fault *fault)
{
    bool second = shard == 1;
    if (second && fault->text_number)
        gguf_set_val_str(out, "split.no", "two");
    else
        gguf_set_val_u16(out, "split.no", (uint16_t)(shard + (second ? fault->number : 0)));
    gguf_set_val_u16(out, "split.count", (uint16_t)(SHARDS + (second ? fault->count : 0)));
    if (shard > 0 || !fault->no_tensors)
        gguf_set_val_i32(out, "split.tensors.count", tensors + fault->tensors);
}

/* The tiny model in three shards: keys, then the two halves of the tensors. */
static void write_shards(const split_fault *fault)
{
    struct ggml_context *loaded = NULL;
    struct gguf_context *whole = gguf_init_from_file(TINY_BF16, (struct gguf_init_params){false, &loaded});
    assert_non_null(whole);
    int n = (int)gguf_get_n_tensors(whole);
    for (int shard = 0; shard < SHARDS; shard++) {
        struct gguf_context *out = gguf_init_empty();
        if (shard == 0)
            gguf_set_kv(out, whole);
        set_split_keys(out, shard, n, fault);
        int begin = shard == 0 ? 0 : (shard - 1) * (n / 2), end = shard == 0 ? 0 : shard == 1 ? n / 2 : n;
        if (shard == 1 && fault->twice)
            end++;
        for (int i = begin; i < end; i++)
            gguf_add_tensor(out, ggml_get_tensor(loaded, gguf_get_tensor_name(whole, i)));
        assert_true(gguf_write_to_file(out, path_of(shard_names[shard]), false));
        gguf_free(out);
    }
    ggml_free(loaded);
    gguf_free(whole);
}

static void remove_shards(void)
{
    for (int shard = 0; shard < SHARDS; shard++)
        unlink(path_of(shard_names[shard]));
}

static void joins_shards(void **state)
{
    (void)state;
    write_shards(&(split_fault){0});
    gguf_file *file = open_good(path_of(shard_names[0])), *whole = open_good(TINY_BF16);
    assert_int_equal(gguf_file_shards(file), SHARDS);
    assert_int_equal(gguf_file_tensor_count(file), gguf_file_tensor_count(whole));
    for (size_t i = 0; i < gguf_file_tensor_count(whole); i++) {
        const gguf_file_tensor *expected = gguf_file_tensor_at(whole, i), *tensor = gguf_file_tensor_at(file, i);
        assert_string_equal(tensor->name, expected->name);
        assert_memory_equal(tensor->dims, expected->dims, sizeof tensor->dims);
        assert_int_equal(tensor->bytes, expected->bytes);
        assert_memory_equal(tensor->data, expected->data, tensor->bytes);
        assert_in_range(tensor->shard, 1, 2);
    }
    uint32_t layers = 0;
    assert_int_equal(gguf_file_u32(file, "qwen4exp.block_count", &layers), QSA_OK);
    assert_int_equal(layers, 8);
    assert_true(gguf_file_bytes(file) > gguf_file_bytes(whole));
    gguf_file_close(file);
    gguf_file_close(whole);
    remove_shards();
}

static void refuses_shards_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        split_fault fault;
        const char *says;
    } cases[] = {
        {{.number = 1}, "part-00002-of-00003.gguf: says it is shard 3, its name says 2"},
        {{.number = -1}, "part-00002-of-00003.gguf: says it is shard 1, its name says 2"},
        {{.number = 7}, "split.no is 8, but split.count is 3"},
        {{.count = 1}, "says it is one of 4 shards, the first says 3"},
        {{.count = -3}, "split.count is 0"},
        {{.tensors = 1}, "split.tensors.count is 215, but there are 214 tensors"},
        {{.tensors = -300}, "split.tensors.count', element 0, is -86"},
        {{.twice = true}, "is in shard"},
        {{.no_tensors = true}, "key 'split.tensors.count' is missing"},
        {{.text_number = true}, "key 'split.no' is str"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_shards(&cases[i].fault);
        refuses(path_of(shard_names[0]), QSA_E_FORMAT, cases[i].says);
    }
    remove_shards();
}

static void names_the_missing_shard(void **state)
{
    (void)state;
    write_shards(&(split_fault){0});
    unlink(path_of(shard_names[2]));
    refuses(path_of(shard_names[0]), QSA_E_IO, "part-00003-of-00003.gguf: No such file");
    says("shard 3 of 3");
    assert_int_equal(mkdir(path_of(shard_names[2]), 0700), 0);
    refuses(path_of(shard_names[0]), QSA_E_IO, "part-00003-of-00003.gguf: is a directory");
    rmdir(path_of(shard_names[2]));
    write_file(shard_names[2], "GGUF", 4);
    refuses(path_of(shard_names[0]), QSA_E_FORMAT, "part-00003-of-00003.gguf: truncated");
    remove_shards();
}

static void wants_the_first_shard_under_its_name(void **state)
{
    (void)state;
    write_shards(&(split_fault){0});
    refuses(path_of(shard_names[1]), QSA_E_FORMAT, "is shard 2 of 3; open the first one");
    char first[PATH_BYTES];
    snprintf(first, sizeof first, "%s", path_of(shard_names[0]));
    assert_int_equal(rename(first, path_of("other.gguf")), 0);
    refuses(path_of("other.gguf"), QSA_E_FORMAT, "its name must end in -00001-of-00003.gguf");
    unlink(path_of("other.gguf"));
    remove_shards();
}

/* ---- memory that runs out ---- */

/* Linked in the place of the C library's; with fail_at = n the n-th call from then on finds no memory. */
static int fail_at;

static bool is_failing(void)
{
    return fail_at > 0 && --fail_at == 0;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

void *__wrap_calloc(size_t n, size_t size)
{
    return is_failing() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return is_failing() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return is_failing() ? NULL : __real_strdup(text);
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    write_shards(&(split_fault){0});
    int n = 1;
    for (bool is_done = false; !is_done; n++) {
        gguf_file *file = NULL;
        fail_at = n;
        qsa_status status = gguf_file_open(path_of(shard_names[0]), &file);
        is_done = fail_at > 0; /* there were fewer allocations than n */
        fail_at = 0;
        assert_int_equal(status, is_done ? QSA_OK : QSA_E_MEMORY);
        assert_int_equal(file != NULL, is_done);
        gguf_file_close(file);
    }
    assert_in_range(n, 9, 20); /* two for the file, names of shards, the list of shards, the list of tensors */
    remove_shards();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_keys_of_the_tiny_model),
        cmocka_unit_test(reads_arrays_of_the_tiny_model),
        cmocka_unit_test(finds_every_tensor),
        cmocka_unit_test(dequantises_by_definition),
        cmocka_unit_test(takes_every_type_with_an_f32_form),
        cmocka_unit_test(integers_of_any_width_fit_or_not),
        cmocka_unit_test(arrays_of_any_width_fit_or_not),
        cmocka_unit_test(getters_name_what_is_wrong),
        cmocka_unit_test(a_number_that_is_none_is_refused),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(refuses_what_it_may_not_read),
        cmocka_unit_test(refuses_the_tiny_model_cut_anywhere),
        cmocka_unit_test(refuses_hostile_headers),
        cmocka_unit_test(refuses_a_huge_claim_that_the_file_could_hold),
        cmocka_unit_test(joins_shards),
        cmocka_unit_test(refuses_shards_that_do_not_fit),
        cmocka_unit_test(names_the_missing_shard),
        cmocka_unit_test(wants_the_first_shard_under_its_name),
        cmocka_unit_test(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("gguf_file", tests, make_folder, remove_folder);
}
