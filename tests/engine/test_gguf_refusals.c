/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files that are refused: no file, cut short, hostile headers. */
#define _POSIX_C_SOURCE 200809L
#include "gguf_fixture.h"

#include "base/error.h"
#include "fuzz/gguf_bytes.h"

#include <gguf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is no file ---- */

static void refuses_what_is_no_file(void **state)
{
    (void)state;
    gguf_refuses(gguf_path_of("missing.gguf"), QSA_E_IO, "missing.gguf: No such file");
    gguf_refuses(gguf_path_of("."), QSA_E_IO, "is a directory");
    gguf_refuses("/dev/null", QSA_E_IO, "is not a regular file");
    assert_int_equal(mkfifo(gguf_path_of("fifo.gguf"), 0600), 0);
    gguf_refuses(gguf_path_of("fifo.gguf"), QSA_E_IO, "is not a regular file");
    unlink(gguf_path_of("fifo.gguf"));
    gguf_write_file("empty.gguf", "", 0);
    gguf_refuses(gguf_path_of("empty.gguf"), QSA_E_FORMAT, "empty.gguf: is empty");
    unlink(gguf_path_of("empty.gguf"));
    gguf_write_file("text.gguf", "GGUG of sorts", 13);
    gguf_refuses(gguf_path_of("text.gguf"), QSA_E_FORMAT, "not a GGUF file");
    unlink(gguf_path_of("text.gguf"));
}

static void refuses_what_it_may_not_read(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* root may read everything */
    gguf_write_file("locked.gguf", "GGUF", 4);
    assert_int_equal(chmod(gguf_path_of("locked.gguf"), 0), 0);
    gguf_refuses(gguf_path_of("locked.gguf"), QSA_E_IO, "Permission denied");
    unlink(gguf_path_of("locked.gguf"));
}

/* ---- files cut short ---- */

static void refuses_the_tiny_model_cut_anywhere(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = gguf_read_file(TINY_BF16, &size);
    for (int cut = 0; cut < 300; cut++) {
        gguf_write_file("cut.gguf", data, 1 + (size_t)cut * ((size - 33) / 299));
        gguf_refuses(gguf_path_of("cut.gguf"), QSA_E_FORMAT, "cut.gguf: ");
    }
    unlink(gguf_path_of("cut.gguf"));
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
        gguf_write_file("hostile.gguf", b.data, b.size);
        gguf_refuses(gguf_path_of("hostile.gguf"), hostiles[i].status, hostiles[i].says);
        assert_null(strchr(engine_error_detail(), '\n'));
        free(b.data);
    }
    unlink(gguf_path_of("hostile.gguf"));
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
        gguf_write_file("sparse.gguf", b.data, b.size);
        assert_int_equal(truncate(gguf_path_of("sparse.gguf"), (off_t)1 << 33), 0);
        gguf_refuses(gguf_path_of("sparse.gguf"), QSA_E_LIMIT, cases[i].says);
        unlink(gguf_path_of("sparse.gguf"));
        free(b.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(refuses_what_it_may_not_read),
        cmocka_unit_test(refuses_the_tiny_model_cut_anywhere),
        cmocka_unit_test(refuses_hostile_headers),
        cmocka_unit_test(refuses_a_huge_claim_that_the_file_could_hold),
    };
    return cmocka_run_group_tests(tests, gguf_make_folder, gguf_remove_folder);
}
