/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "gguf_fixture.h"

#include "base/error.h"
#include "fuzz/gguf_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/qsa-gguf-XXXXXX";

const char *gguf_path_of(const char *name)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

int gguf_make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

int gguf_remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails if a test left something behind */
}

void gguf_write_file(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(gguf_path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

uint8_t *gguf_read_file(const char *path, size_t *out_size)
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

void gguf_says(const char *expected)
{
    if (!strstr(engine_error_detail(), expected))
        fail_msg("the detail is \"%s\", which lacks \"%s\"", engine_error_detail(), expected);
}

gguf_file *gguf_open_good(const char *path)
{
    gguf_file *file = NULL;
    if (gguf_file_open(path, &file) != QSA_OK)
        fail_msg("%s", engine_error_detail());
    return file;
}

void gguf_refuses(const char *path, qsa_status expected, const char *detail)
{
    gguf_file *file = NULL;
    qsa_status status = gguf_file_open(path, &file);
    if (status != expected)
        fail_msg("%s: %s, expected %s (%s)", path, qsa_status_name(status), qsa_status_name(expected),
                 engine_error_detail());
    assert_null(file);
    gguf_says(detail);
}

gguf_file *gguf_open_seed(int seed)
{
    gguf_bytes b = {0};
    bytes_seed(&b, seed);
    gguf_write_file("seed.gguf", b.data, b.size);
    free(b.data);
    gguf_file *file = gguf_open_good(gguf_path_of("seed.gguf"));
    unlink(gguf_path_of("seed.gguf"));
    return file;
}
