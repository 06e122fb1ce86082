/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files in shards, and memory that runs out while a file is opened. */
#define _POSIX_C_SOURCE 200809L
#include "gguf_fixture.h"

#include <gguf.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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
        assert_true(gguf_write_to_file(out, gguf_path_of(shard_names[shard]), false));
        gguf_free(out);
    }
    ggml_free(loaded);
    gguf_free(whole);
}

static void remove_shards(void)
{
    for (int shard = 0; shard < SHARDS; shard++)
        unlink(gguf_path_of(shard_names[shard]));
}

static void joins_shards(void **state)
{
    (void)state;
    write_shards(&(split_fault){0});
    gguf_file *file = gguf_open_good(gguf_path_of(shard_names[0])), *whole = gguf_open_good(TINY_BF16);
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
        gguf_refuses(gguf_path_of(shard_names[0]), QSA_E_FORMAT, cases[i].says);
    }
    remove_shards();
}

static void names_the_missing_shard(void **state)
{
    (void)state;
    write_shards(&(split_fault){0});
    unlink(gguf_path_of(shard_names[2]));
    gguf_refuses(gguf_path_of(shard_names[0]), QSA_E_IO, "part-00003-of-00003.gguf: No such file");
    gguf_says("shard 3 of 3");
    assert_int_equal(mkdir(gguf_path_of(shard_names[2]), 0700), 0);
    gguf_refuses(gguf_path_of(shard_names[0]), QSA_E_IO, "part-00003-of-00003.gguf: is a directory");
    rmdir(gguf_path_of(shard_names[2]));
    gguf_write_file(shard_names[2], "GGUF", 4);
    gguf_refuses(gguf_path_of(shard_names[0]), QSA_E_FORMAT, "part-00003-of-00003.gguf: truncated");
    remove_shards();
}

static void wants_the_first_shard_under_its_name(void **state)
{
    (void)state;
    write_shards(&(split_fault){0});
    gguf_refuses(gguf_path_of(shard_names[1]), QSA_E_FORMAT, "is shard 2 of 3; open the first one");
    char first[PATH_BYTES];
    snprintf(first, sizeof first, "%s", gguf_path_of(shard_names[0]));
    assert_int_equal(rename(first, gguf_path_of("other.gguf")), 0);
    gguf_refuses(gguf_path_of("other.gguf"), QSA_E_FORMAT, "its name must end in -00001-of-00003.gguf");
    unlink(gguf_path_of("other.gguf"));
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
        qsa_status status = gguf_file_open(gguf_path_of(shard_names[0]), &file);
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
        cmocka_unit_test(joins_shards),
        cmocka_unit_test(refuses_shards_that_do_not_fit),
        cmocka_unit_test(names_the_missing_shard),
        cmocka_unit_test(wants_the_first_shard_under_its_name),
        cmocka_unit_test(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, gguf_make_folder, gguf_remove_folder);
}
