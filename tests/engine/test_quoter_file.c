/* SPDX-License-Identifier: Apache-2.0 */
/* The quoter's file: the same bytes each time, keys and tensors as engines expect them, refusals that leave nothing. */
#define _POSIX_C_SOURCE 200809L

#include "support.h"
#include "text_fixture.h"

#include "base/error.h"
#include "make/quoter.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <dirent.h>
#include <gguf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static char folder[] = "quoter_file.XXXXXX";
static char path[64]; /* folder/model.gguf */

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static size_t count_files(void)
{
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    size_t files = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        files += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return files;
}

static long size_of_file(const char *name)
{
    struct stat info;
    return stat(name, &info) == 0 ? (long)info.st_size : -1;
}

static uint64_t hash_of_file(const char *name)
{
    size_t size = (size_t)size_of_file(name);
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    char *bytes = test_alloc(size, 1);
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
    uint64_t hash = XXH3_64bits(bytes, size);
    free(bytes);
    return hash;
}

static quoter_options small_of(quoter_type type)
{
    quoter_options options;
    quoter_options_small(&options);
    options.type = type;
    return options;
}

static uint64_t hash_of(const quoter_options *options)
{
    assert_int_equal(quoter_write(path, options), QSA_OK);
    return hash_of_file(path);
}

/* ---- bytes ---- */

static void same_options_give_the_same_bytes(void **state)
{
    (void)state;
    for (int type = 0; type < QUOTER_TYPE_COUNT; type++) {
        quoter_options options = small_of((quoter_type)type);
        uint64_t first = hash_of(&options);
        assert_true(first == hash_of(&options));
    }
}

/* Other bytes than these need another QUOTER_VERSION. Only types that need no quantisation are the same everywhere. */
static void bytes_are_those_of_this_version(void **state)
{
    (void)state;
    assert_int_equal(QUOTER_VERSION, 3);
    quoter_options options = small_of(QUOTER_F32);
    assert_int_equal(hash_of(&options), UINT64_C(0x1DCAE9A08FBE6C));
    options.type = QUOTER_BF16;
    assert_int_equal(hash_of(&options), UINT64_C(0xBB341E1EF73285CC));
    quoter_options_init(&options);
    assert_int_equal(hash_of(&options), QUOTER_DEFAULT_HASH);
}

static void every_option_changes_the_bytes(void **state)
{
    (void)state;
    enum { CHANGES = 11 };
    uint64_t hashes[CHANGES + 1];
    for (int change = 0; change <= CHANGES; change++) {
        quoter_options o = small_of(QUOTER_BF16);
        o.type = change == 1 ? QUOTER_Q8_0 : o.type;
        o.seed += change == 2;
        o.blocks += change == 3;
        o.code_dims += change == 4 ? 16 : 0;
        o.head_dim += change == 5 ? 32 : 0;
        o.index_dim += change == 6 ? 32 : 0;
        o.rotary_dims += change == 7 ? 2 : 0;
        o.budget_tokens += change == 8 ? 4 : 0;
        o.ratio *= change == 9 ? 2 : 1;
        o.expert_width += change == 10 ? 32 : 0;
        o.context_tokens += change == 11;
        hashes[change] = hash_of(&o);
        for (int other = 0; other < change; other++)
            assert_true(hashes[other] != hashes[change]);
    }
}

static void context_grows_by_nine_bytes_a_block(void **state)
{
    (void)state;
    quoter_options options;
    quoter_options_init(&options);
    assert_int_equal(quoter_context_bytes(&options), 18);
    quoter_options_small(&options);
    assert_int_equal(quoter_context_bytes(&options), 9);
}

/* ---- keys ---- */

static struct gguf_context *read_model(const quoter_options *options)
{
    assert_int_equal(quoter_write(path, options), QSA_OK);
    struct gguf_init_params parameters = {.no_alloc = true};
    struct gguf_context *file = gguf_init_from_file(path, parameters);
    assert_non_null(file);
    return file;
}

static int64_t key_of(const struct gguf_context *file, const char *name, enum gguf_type type)
{
    char key[96];
    snprintf(key, sizeof key, "qwen4exp.%s", name);
    int64_t id = gguf_find_key(file, key);
    if (id < 0)
        fail_msg("no key %s", key);
    assert_int_equal(gguf_get_kv_type(file, id), type);
    return id;
}

static void keys_are_those_of_the_shape(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t value;
    } keys[] = {
        {"block_count", 8},
        {"context_length", 262144},
        {"embedding_length", 1024},
        {"attention.head_count", 4},
        {"attention.head_count_kv", 2},
        {"attention.key_length", 256},
        {"attention.value_length", 256},
        {"rope.dimension_count", 32},
        {"expert_count", 2},
        {"expert_used_count", 1},
        {"expert_feed_forward_length", 32},
        {"expert_shared_feed_forward_length", 32},
        {"ssm.conv_kernel", 4},
        {"ssm.state_size", 128},
        {"ssm.group_count", 2},
        {"ssm.time_step_rank", 4},
        {"ssm.inner_size", 512},
        {"full_attention_interval", 4},
        {"hyper_connection.count", 4},
        {"hyper_connection.low_rank", 32},
        {"attention.indexer.head_count", 4},
        {"attention.indexer.key_length", 128},
        {"attention.indexer.top_k", 2048},
    };
    quoter_options options;
    quoter_options_init(&options);
    struct gguf_context *file = read_model(&options);
    for (size_t i = 0; i < COUNT(keys); i++)
        assert_int_equal(gguf_get_val_u32(file, key_of(file, keys[i].name, GGUF_TYPE_UINT32)), keys[i].value);
    assert_true(gguf_get_val_f32(file, key_of(file, "rope.freq_base", GGUF_TYPE_FLOAT32)) == 1e7f);
    assert_true(gguf_get_val_f32(file, key_of(file, "attention.layer_norm_rms_epsilon", GGUF_TYPE_FLOAT32)) == 1e-6f);
    assert_string_equal(gguf_get_val_str(file, gguf_find_key(file, "general.architecture")), "qwen4exp");
    gguf_free(file);
}

static void layer_kinds_and_sections_are_arrays(void **state)
{
    (void)state;
    quoter_options options;
    quoter_options_init(&options);
    options.ratio = 2;
    struct gguf_context *file = read_model(&options);
    const int8_t *recurrent = gguf_get_arr_data(file, key_of(file, "attention.recurrent_layers", GGUF_TYPE_ARRAY));
    const int32_t *ratios = gguf_get_arr_data(file, key_of(file, "attention.compress_ratios", GGUF_TYPE_ARRAY));
    for (int layer = 0; layer < 8; layer++) {
        assert_int_equal(recurrent[layer], layer % 4 != 3);
        assert_int_equal(ratios[layer], layer % 4 == 3 ? 2 : 0);
    }
    int64_t sections = key_of(file, "rope.dimension_sections", GGUF_TYPE_ARRAY);
    assert_int_equal(gguf_get_arr_n(file, sections), 4);
    const int32_t expected[4] = {6, 5, 5, 0};
    test_same_integers("sections", expected, gguf_get_arr_data(file, sections), 4);
    gguf_free(file);
}

static void tokens_of_text_are_its_bytes(void **state)
{
    (void)state;
    quoter_options options = small_of(QUOTER_BF16);
    assert_int_equal(quoter_write(path, &options), QSA_OK);
    tokenizer *tokens = fixture_from_gguf(path, "qwen2");
    assert_int_equal(tokenizer_count(tokens), 259);
    int32_t end;
    assert_true(tokenizer_ends_with(tokens, &end));
    assert_int_equal(end, 257);
    static const char text[] =
        "The access code of vault 0423 is 77120493.\n\tna\xc3\xafve \xe2\x82\xac 1,5 \x01\x7f don't";
    int32_t ids[sizeof text];
    for (size_t i = 0; i < sizeof text - 1; i++)
        ids[i] = (unsigned char)text[i];
    fixture_expect(tokens, text, sizeof text - 1, TOKENIZER_SPECIALS_NONE, ids, sizeof text - 1);
    tokenizer_destroy(tokens);
}

/* ---- tensors ---- */

typedef struct expected_tensor {
    const char *name;
    int64_t dims[3];
    enum ggml_type type; /* in a bf16 file */
} expected_tensor;

enum { E = 1024, WIDE = 4 * E };
#define F GGML_TYPE_F32
#define B GGML_TYPE_BF16

static const expected_tensor GLOBAL[] = {
    {"token_embd.weight", {E, 259, 1}, B},      {"output.weight", {E, 259, 1}, B},
    {"output_hc_norm.weight", {WIDE, 1, 1}, F}, {"output_hc_down.weight", {WIDE, 32, 1}, F},
    {"output_hc_up.weight", {32, WIDE, 1}, F},
};

static const expected_tensor EVERY_LAYER[] = {
    {"hc_attn_norm.weight", {WIDE, 1, 1}, F},    {"hc_attn_down.weight", {WIDE, 32, 1}, F},
    {"hc_attn_up.weight", {32, WIDE, 1}, F},     {"hc_attn_inject.weight", {WIDE, 4, 1}, F},
    {"hc_ffn_norm.weight", {WIDE, 1, 1}, F},     {"hc_ffn_down.weight", {WIDE, 32, 1}, F},
    {"hc_ffn_up.weight", {32, WIDE, 1}, F},      {"hc_ffn_inject.weight", {WIDE, 4, 1}, F},
    {"ffn_gate_inp.weight", {E, 2, 1}, F},       {"ffn_gate_exps.weight", {E, 32, 2}, F},
    {"ffn_up_exps.weight", {E, 32, 2}, F},       {"ffn_down_exps.weight", {32, E, 2}, F},
    {"ffn_gate_inp_shexp.weight", {E, 1, 1}, F}, {"ffn_gate_shexp.weight", {E, 32, 1}, F},
    {"ffn_up_shexp.weight", {E, 32, 1}, F},      {"ffn_down_shexp.weight", {32, E, 1}, F},
};

static const expected_tensor QSA_LAYER[] = {
    {"attn_q.weight", {E, 2048, 1}, B},        {"attn_k.weight", {E, 512, 1}, B},
    {"attn_v.weight", {E, 512, 1}, B},         {"attn_output.weight", {1024, E, 1}, B},
    {"attn_q_norm.weight", {256, 1, 1}, F},    {"attn_k_norm.weight", {256, 1, 1}, F},
    {"indexer.q_proj.weight", {E, 512, 1}, B}, {"indexer.k_proj.weight", {E, 128, 1}, B},
    {"indexer.q_norm.weight", {128, 1, 1}, F}, {"indexer.k_norm.weight", {128, 1, 1}, F},
};

static const expected_tensor DELTA_LAYER[] = {
    {"attn_qkv.weight", {E, 1024, 1}, B},
    {"attn_gate.weight", {E, 512, 1}, B},
    {"ssm_conv1d.weight", {4, 1024, 1}, F},
    {"ssm_dt.bias", {4, 1, 1}, F},
    {"ssm_a", {4, 1, 1}, F},
    {"ssm_beta.weight", {E, 4, 1}, F},
    {"ssm_alpha.weight", {E, 4, 1}, F},
    {"ssm_norm.weight", {128, 1, 1}, F},
    {"ssm_out.weight", {512, E, 1}, B},
};

/* Checks a list of tensors and returns how many it is. */
static int64_t check_tensors(const struct gguf_context *file, const char *prefix, const expected_tensor *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, list[i].name);
        int64_t id = gguf_find_tensor(file, name);
        if (id < 0)
            fail_msg("no tensor %s", name);
        const int64_t *dims = gguf_get_tensor_ne(file, id);
        for (int d = 0; d < 3; d++)
            if (dims[d] != list[i].dims[d])
                fail_msg("%s: dimension %d is %d", name, d, (int)dims[d]);
        if (gguf_get_tensor_type(file, id) != list[i].type)
            fail_msg("%s has type %s", name, ggml_type_name(gguf_get_tensor_type(file, id)));
    }
    return (int64_t)n;
}

static void tensors_are_those_of_the_shape(void **state)
{
    (void)state;
    quoter_options options;
    quoter_options_init(&options);
    options.type = QUOTER_BF16;
    struct gguf_context *file = read_model(&options);
    int64_t checked = check_tensors(file, "", GLOBAL, COUNT(GLOBAL));
    for (int layer = 0; layer < 8; layer++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "blk.%d.", layer);
        checked += check_tensors(file, prefix, EVERY_LAYER, COUNT(EVERY_LAYER));
        checked += layer % 4 == 3 ? check_tensors(file, prefix, QSA_LAYER, COUNT(QSA_LAYER))
                                  : check_tensors(file, prefix, DELTA_LAYER, COUNT(DELTA_LAYER));
    }
    assert_int_equal(gguf_get_n_tensors(file), checked);
    gguf_free(file);
}

static void tensors_end_where_the_file_ends(void **state)
{
    (void)state;
    for (int type = 0; type < QUOTER_TYPE_COUNT; type++) {
        quoter_options options = small_of((quoter_type)type);
        struct gguf_context *file = read_model(&options);
        int64_t last = gguf_get_n_tensors(file) - 1;
        size_t end = gguf_get_data_offset(file) + gguf_get_tensor_offset(file, last) + gguf_get_tensor_size(file, last);
        assert_int_equal(size_of_file(path), (end + 31) / 32 * 32);
        gguf_free(file);
    }
}

static enum ggml_type type_of(const struct gguf_context *file, const char *name)
{
    int64_t id = gguf_find_tensor(file, name);
    assert_true(id >= 0);
    return gguf_get_tensor_type(file, id);
}

static void matrices_have_the_type_where_rows_allow(void **state)
{
    (void)state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K,
                                           GGML_TYPE_Q6_K};
    assert_int_equal(COUNT(types), QUOTER_TYPE_COUNT);
    for (int type = 0; type < QUOTER_TYPE_COUNT; type++) {
        quoter_options options = small_of((quoter_type)type);
        struct gguf_context *file = read_model(&options);
        int64_t block = ggml_blck_size(types[type]);
        assert_int_equal(type_of(file, "blk.3.attn_q.weight"), types[type]);
        assert_int_equal(type_of(file, "blk.3.ffn_up_exps.weight"), GGML_TYPE_F32); /* thin */
        assert_int_equal(type_of(file, "blk.3.ffn_down_exps.weight"), GGML_TYPE_F32);
        assert_int_equal(type_of(file, "blk.3.hc_attn_up.weight"), GGML_TYPE_F32);
        assert_int_equal(type_of(file, "blk.0.ssm_conv1d.weight"), GGML_TYPE_F32);
        assert_int_equal(type_of(file, "blk.3.ffn_gate_inp.weight"), GGML_TYPE_F32);
        gguf_free(file);
        options.expert_width = 96;
        file = read_model(&options);
        assert_int_equal(type_of(file, "blk.3.ffn_up_exps.weight"), types[type]);
        assert_int_equal(type_of(file, "blk.3.ffn_down_exps.weight"), block <= 32 ? types[type] : GGML_TYPE_F16);
        gguf_free(file);
        options.expert_width = 256;
        file = read_model(&options);
        assert_int_equal(type_of(file, "blk.3.ffn_down_exps.weight"), types[type]);
        gguf_free(file);
    }
}

/* ---- refusals ---- */

static void assert_one_line(const char *part)
{
    const char *detail = engine_error_detail();
    if (!strstr(detail, part))
        fail_msg("\"%s\" does not name %s", detail, part);
    assert_null(strchr(detail, '\n'));
}

static void bad_options_are_refused_by_name(void **state)
{
    (void)state;
    quoter_options ok = small_of(QUOTER_F32);
    struct {
        const char *name;
        quoter_options options;
    } cases[32];
    size_t n = 0;
#define BAD(field, bad) (cases[n].name = #field, cases[n].options = ok, cases[n].options.field = (bad), n++)
    BAD(type, QUOTER_TYPE_COUNT);
    BAD(blocks, 0);
    BAD(blocks, 7);
    BAD(code_dims, 16);
    BAD(code_dims, 40);
    BAD(code_dims, 80);
    BAD(head_dim, 32);
    BAD(head_dim, 100);
    BAD(head_dim, 544);
    BAD(index_dim, 0);
    BAD(index_dim, UINT32_MAX);
    BAD(rotary_dims, 0);
    BAD(rotary_dims, 15);
    BAD(rotary_dims, 34);
    BAD(budget_tokens, 0);
    BAD(budget_tokens, 65);
    BAD(budget_tokens, 65540);
    BAD(ratio, 0);
    BAD(ratio, 3);
    BAD(ratio, 128);
    BAD(expert_width, 0);
    BAD(expert_width, 33);
    BAD(expert_width, 1056);
    BAD(context_tokens, 0);
    BAD(context_tokens, (1 << 24) + 1);
#undef BAD
    unlink(path);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(quoter_write(path, &cases[i].options), QSA_E_ARGUMENT);
        assert_one_line(cases[i].name);
        assert_int_equal(count_files(), 0);
    }
}

static void path_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    unlink(path);
    quoter_options options = small_of(QUOTER_Q8_0);
    char missing[96];
    snprintf(missing, sizeof missing, "%s/missing/model.gguf", folder);
    assert_int_equal(quoter_write(missing, &options), QSA_E_IO);
    assert_one_line(missing);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(quoter_write(path, &options), QSA_E_IO);
    assert_one_line(path);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(count_files(), 0);
    assert_int_equal(quoter_write("", &options), QSA_E_IO);
}

static void full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    quoter_options options = small_of(QUOTER_Q8_0);
    uint64_t before = hash_of(&options);
    struct rlimit unlimited, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    tight = unlimited;
    options.type = QUOTER_F32;
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 1 << 10; most <= 1 << 22; most <<= 6) { /* in the keys, and among the tensors */
        tight.rlim_cur = most;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
        qsa_status status = quoter_write(path, &options);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        assert_int_equal(status, QSA_E_IO);
        assert_one_line("cannot write");
        assert_int_equal(count_files(), 1);
        assert_true(hash_of_file(path) == before);
    }
    signal(SIGXFSZ, SIG_DFL);
}

static void file_that_was_there_is_replaced(void **state)
{
    (void)state;
    quoter_options options = small_of(QUOTER_Q4_K);
    uint64_t before = hash_of(&options);
    options.seed++;
    assert_true(hash_of(&options) != before);
    assert_int_equal(count_files(), 1);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_options_give_the_same_bytes), cmocka_unit_test(bytes_are_those_of_this_version),
        cmocka_unit_test(every_option_changes_the_bytes),   cmocka_unit_test(context_grows_by_nine_bytes_a_block),
        cmocka_unit_test(keys_are_those_of_the_shape),      cmocka_unit_test(layer_kinds_and_sections_are_arrays),
        cmocka_unit_test(tokens_of_text_are_its_bytes),     cmocka_unit_test(tensors_are_those_of_the_shape),
        cmocka_unit_test(tensors_end_where_the_file_ends),  cmocka_unit_test(matrices_have_the_type_where_rows_allow),
        cmocka_unit_test(bad_options_are_refused_by_name),  cmocka_unit_test(path_that_cannot_be_written_is_named),
        cmocka_unit_test(full_disk_leaves_the_old_file),    cmocka_unit_test(file_that_was_there_is_replaced),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
