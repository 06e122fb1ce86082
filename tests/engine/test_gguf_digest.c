/* SPDX-License-Identifier: Apache-2.0 */
/* The fingerprint of a model file: every byte counts; the cache of digests saves time and is never believed wrongly. */
#define _XOPEN_SOURCE 700 /* nftw, mkdtemp, pwrite */
#include "model_fixture.h"

#include "file/digest_cache.h"
#include "file/gguf_file.h"
#include "file/gguf_shard.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/qsa_digest_XXXXXX";
static char model_path[64], cache_path[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(model_path, sizeof model_path, "%s/model.gguf", folder);
    snprintf(cache_path, sizeof cache_path, "%s/cache", folder);
    return setenv("XDG_CACHE_HOME", cache_path, 1);
}

static int remove_one(const char *name, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(name);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_model(const model_bytes *bytes)
{
    FILE *file = fopen(model_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, bytes->size, file), bytes->size);
    assert_int_equal(fclose(file), 0);
}

static uint64_t digest_at_path(void)
{
    gguf_file *file = NULL;
    uint64_t digest = 0;
    model_ok(gguf_file_open(model_path, &file));
    model_ok(gguf_file_digest(file, &digest));
    gguf_file_close(file);
    return digest;
}

/* Flips a bit of one byte in place: the same inode and length. */
static void flip(uint64_t at)
{
    unsigned char byte;
    const int descriptor = open(model_path, O_RDWR);
    assert_true(descriptor >= 0);
    assert_int_equal(pread(descriptor, &byte, 1, (off_t)at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, (off_t)at), 1);
    close(descriptor);
}

/* One byte in every slice of every tensor: of a tensor of experts, in each expert. */
static void one_byte_in_any_tensor_and_expert_counts(void **state)
{
    (void)state;
    const model_bytes bytes = model_bytes_read("tiny-q8_0.gguf");
    gguf_file *file = NULL;
    write_model(&bytes);
    const uint64_t whole = digest_at_path();
    model_ok(gguf_file_open(model_path, &file));
    size_t slices = 0;
    for (size_t i = 0; i < gguf_file_tensor_count(file); i++) {
        const gguf_file_tensor *t = gguf_file_tensor_at(file, i);
        const uint64_t start = (uint64_t)((const uint8_t *)t->data - file->shards[0].data);
        const uint64_t slice = t->bytes / (uint64_t)t->dims[2];
        for (uint64_t s = 0; s < (uint64_t)t->dims[2]; s++, slices++) {
            const uint64_t at = start + s * slice + (slice * (i % 7)) / 7;
            flip(at);
            assert_int_not_equal(digest_at_path(), whole);
            flip(at);
        }
    }
    assert_true(slices > gguf_file_tensor_count(file)); /* there are experts */
    assert_int_equal(digest_at_path(), whole);
    gguf_file_close(file);
    free(bytes.data);
}

/* ---- the cache ---- */

static digest_key key_of_model(void)
{
    digest_key key;
    const int descriptor = open(model_path, O_RDONLY);
    assert_true(digest_key_of(descriptor, &key));
    close(descriptor);
    return key;
}

/* The digest of a file that changed a moment ago is not kept: a second change could have the same time. */
static void settle(void)
{
    const digest_key key = key_of_model();
    while (!digest_key_is_settled(&key))
        nanosleep(&(struct timespec){0, 100000000}, NULL);
}

static void settled_file_is_hashed_once(void **state)
{
    (void)state;
    const model_bytes bytes = model_bytes_read("tiny-q8_0.gguf");
    uint64_t kept;
    write_model(&bytes);
    const uint64_t whole = digest_at_path();
    digest_key key = key_of_model();
    assert_false(digest_cache_find(&key, &kept));
    settle();
    assert_int_equal(digest_at_path(), whole);
    assert_true(digest_cache_find(&key, &kept));
    digest_cache_keep(&key, kept + 1); /* another digest in the cache is what comes out: nothing was hashed */
    assert_int_not_equal(digest_at_path(), whole);
    digest_cache_keep(&key, kept);
    assert_int_equal(digest_at_path(), whole);
    free(bytes.data);
}

/* Length and modification time as before; the file of the cache is there. */
static void edit_that_hides_its_time_is_seen(void **state)
{
    (void)state;
    struct stat before;
    settle();
    const uint64_t whole = digest_at_path();
    assert_int_equal(stat(model_path, &before), 0);
    flip(1181000);
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, model_path, times, 0), 0);
    assert_int_not_equal(digest_at_path(), whole);
    flip(1181000);
    assert_int_equal(digest_at_path(), whole);
}

/* The same open model: what it remembers is of the file as it was. */
static void edit_of_an_open_file_is_seen(void **state)
{
    (void)state;
    gguf_file *file = NULL;
    uint64_t first = 0, second = 0;
    settle();
    model_ok(gguf_file_open(model_path, &file));
    model_ok(gguf_file_digest(file, &first));
    flip(1181001);
    model_ok(gguf_file_digest(file, &second));
    assert_int_not_equal(first, second);
    flip(1181001);
    gguf_file_close(file);
}

static char *only_entry(void)
{
    static char found[128];
    char command[160];
    snprintf(command, sizeof command, "ls %s/qsa/digest-*", cache_path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(found, sizeof found, pipe));
    pclose(pipe);
    found[strcspn(found, "\n")] = '\0';
    return found;
}

static void empty_cache(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", cache_path);
    assert_int_equal(system(command), 0);
}

/* Every bit of an entry flipped, every length of it, and what is no file: the right digest comes out, always. */
static void damaged_cache_only_costs_time(void **state)
{
    (void)state;
    uint8_t entry[256];
    settle();
    empty_cache();
    const uint64_t whole = digest_at_path();
    char *name = only_entry();
    FILE *file = fopen(name, "rb");
    const size_t size = fread(entry, 1, sizeof entry, file);
    fclose(file);
    for (size_t i = 0; i < size * 8 + size; i++) {
        file = fopen(name, "wb");
        assert_non_null(file);
        entry[i / 8 % size] ^= i < size * 8 ? 1 << i % 8 : 0;
        fwrite(entry, 1, i < size * 8 ? size : i - size * 8, file);
        entry[i / 8 % size] ^= i < size * 8 ? 1 << i % 8 : 0;
        fclose(file);
        assert_int_equal(digest_at_path(), whole);
    }
    assert_int_equal(unlink(name), 0);
    assert_int_equal(symlink("/dev/zero", name), 0);
    assert_int_equal(digest_at_path(), whole);
    (void)unlink(name);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(digest_at_path(), whole);
    empty_cache();
    file = fopen(cache_path, "wb"); /* no folder can be made there */
    fclose(file);
    assert_int_equal(digest_at_path(), whole);
    unlink(cache_path);
}

static void file_cut_short_while_open_is_an_error(void **state)
{
    (void)state;
    gguf_file *file = NULL;
    uint64_t digest = 7;
    empty_cache();
    model_ok(gguf_file_open(model_path, &file));
    assert_int_equal(truncate(model_path, 5000), 0);
    assert_int_equal(gguf_file_digest(file, &digest), QSA_E_IO);
    assert_non_null(strstr(qsa_engine_error(), "was cut short while it was open"));
    assert_int_equal(digest, 7);
    gguf_file_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_byte_in_any_tensor_and_expert_counts),
        cmocka_unit_test(settled_file_is_hashed_once),
        cmocka_unit_test(edit_that_hides_its_time_is_seen),
        cmocka_unit_test(edit_of_an_open_file_is_seen),
        cmocka_unit_test(damaged_cache_only_costs_time),
        cmocka_unit_test(file_cut_short_while_open_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
