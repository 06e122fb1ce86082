/* The reader of golden files: what it takes, and what it refuses with a line that names the fault. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static golden_file *parse(const char *text, golden_error *error)
{
    *error = (golden_error){{0}};
    return golden_parse(text, strlen(text), "x.txt", error);
}

static golden_file *parse_good(const char *text)
{
    golden_error error;
    golden_file *file = parse(text, &error);
    test_no_golden_error(&error);
    assert_non_null(file);
    return file;
}

/* ---- what is read ---- */

static void words_and_numbers_are_read(void **state)
{
    (void)state;
    golden_error error = {{0}};
    golden_file *file =
        parse_good("golden 1\nkind stage\nname a b c\nn -300\ntheta 10000000.0\neps 1e-06\nscale 2^-76\n"
                   "hash 863980be34c5007c\nnone\nend\n");
    const golden_record *header = golden_header(file);
    assert_string_equal(golden_kind(file), "stage");
    assert_int_equal(golden_record_count(file), 0);
    assert_int_equal(golden_words(header, "name"), 3);
    assert_string_equal(golden_word(header, "name", 2, &error), "c");
    assert_true(golden_is(header, "kind", "stage"));
    assert_false(golden_is(header, "name", "a"));
    assert_int_equal(golden_integer(header, "n", 0, &error), -300);
    assert_int_equal(golden_integer_within(header, "n", 0, -300, 0, &error), -300);
    assert_true(golden_number(header, "theta", 0, &error) == 1e7);
    assert_true(golden_number(header, "eps", 0, &error) == 1e-6);
    assert_true(golden_number(header, "scale", 0, &error) == 0x1p-76);
    assert_true(golden_hex(header, "hash", 0, &error) == UINT64_C(0x863980be34c5007c));
    assert_true(golden_has(header, "none"));
    assert_int_equal(golden_words(header, "none"), 0);
    assert_int_equal(golden_words(header, "missing"), 0);
    test_no_golden_error(&error);
    golden_free(file);
}

static void text_is_unescaped(void **state)
{
    (void)state;
    golden_error error = {{0}};
    size_t size;
    golden_file *file = parse_good("golden 1\nkind model\ntext  a\\x5C\\x00\\xe4 \nnext_text \nend\n");
    const char *text = golden_text(golden_header(file), "text", &size, &error);
    assert_int_equal(size, 6);
    assert_memory_equal(text, " a\\\0\xe4 ", 7);
    text = golden_text(golden_header(file), "next_text", &size, &error);
    assert_int_equal(size, 0);
    assert_string_equal(text, "");
    test_no_golden_error(&error);
    golden_free(file);
}

static void tensors_are_read(void **state)
{
    (void)state;
    golden_error error = {{0}};
    golden_file *file =
        parse_good("golden 1\nkind stage\ntensor a f32 2 3\n3f800000 bf800000 7f800000\n80000000 00000001\n"
                   "7fc00001\ntensor b bf16 2\n3f80 8000\ntensor c i32 3\n-2147483648 0 2147483647\n"
                   "tensor none f32 0 8\nend\n");
    const golden_record *header = golden_header(file);
    const golden_tensor *a = golden_find_tensor(header, "a", &error);
    assert_true(a->type == GOLDEN_F32 && a->rank == 2 && a->dims[0] == 2 && a->dims[1] == 3 && a->count == 6);
    static const uint32_t bits[] = {0x3f800000, 0xbf800000, 0x7f800000, 0x80000000, 1, 0x7fc00001};
    for (int i = 0; i < 6; i++)
        assert_int_equal(test_bits(a->floats[i]), bits[i]);
    const float *b = golden_floats(header, "b", 2, &error);
    assert_true(b[0] == 1.0f && test_bits(b[1]) == 0x80000000);
    const int32_t *c = golden_integers(header, "c", 3, &error);
    assert_true(c[0] == INT32_MIN && c[2] == INT32_MAX);
    assert_non_null(golden_floats(header, "none", 0, &error));
    test_no_golden_error(&error);
    golden_free(file);
}

static void ragged_rows_are_read(void **state)
{
    (void)state;
    golden_error error = {{0}};
    golden_file *file = parse_good("golden 1\nkind stage\ntensor x_begin i32 4\n0 2 2 3\ntensor x i32 3\n7 8 9\nend\n");
    golden_ragged x = golden_find_ragged(golden_header(file), "x", 3, &error);
    test_no_golden_error(&error);
    assert_int_equal(x.begin[3], 3);
    assert_int_equal(x.values->integers[x.begin[2]], 9);
    golden_free(file);
}

static void records_own_the_entries_after_them(void **state)
{
    (void)state;
    golden_error error = {{0}};
    golden_file *file =
        parse_good("golden 1\nkind tokenizer\nvocab 9\ncase 0\nids\ncase 1\nids 4 5\npiece 0\nids 6\nend\n");
    assert_int_equal(golden_record_count(file), 3);
    assert_int_equal(golden_integer(golden_header(file), "vocab", 0, &error), 9);
    const golden_record *piece = golden_record_at(file, 2);
    assert_string_equal(golden_record_type(piece), "piece");
    assert_string_equal(golden_record_name(piece), "0");
    assert_int_equal(golden_integer(piece, "ids", 0, &error), 6);
    assert_int_equal(golden_words(golden_record_at(file, 1), "ids"), 2);
    test_no_golden_error(&error);
    golden_integer(piece, "vocab", 0, &error);
    assert_string_equal(error.text, "x.txt: line 8: piece 0 has no 'vocab'");
    golden_free(file);
    file = parse_good("golden 1\nkind model\ncase plain\nmodel tiny\nend\n"); /* here `case` is a key */
    assert_int_equal(golden_record_count(file), 0);
    assert_true(golden_is(golden_header(file), "case", "plain"));
    golden_free(file);
}

static void recorded_files_are_read_whole(void **state)
{
    golden_error error = {{0}};
    golden_file *file = test_golden(*state, "tokenizer/cases.txt");
    assert_int_equal(golden_record_count(file), 133 + 9);
    golden_free(file);
    file = test_golden(*state, "canonical.txt");
    assert_int_equal(golden_record_count(file), 63);
    golden_free(file);
    file = test_golden(*state, "model/plain.txt");
    assert_non_null(golden_floats(golden_header(file), "logits", 13 * 576, &error));
    golden_find_ragged(golden_header(file), "layer7_selected", 244, &error);
    test_no_golden_error(&error);
    golden_free(file);
}

/* ---- what is refused ---- */

static void malformed_files_are_refused_by_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "x.txt: line 1: the file ends without a line 'end'"},
        {"golden 1", "x.txt: line 1: no line break at the end"},
        {"golden 2\nkind a\nend\n", "x.txt: line 1: the first line must be 'golden 1', not: 'golden 2'"},
        {"golden 1\nend\n", "x.txt: line 2: the second line must be 'kind' and one word, not: 'end'"},
        {"golden 1\nkind a b\nend\n", "x.txt: line 2: the second line must be 'kind' and one word, not: 'kind'"},
        {"golden 1\nkind a\n", "x.txt: line 3: the file ends without a line 'end'"},
        {"golden 1\nkind a\nend\nmore\n", "x.txt: line 3: bytes after the line 'end'"},
        {"golden 1\r\nkind a\nend\n", "x.txt: line 1: a byte outside 0x20 to 0x7e"},
        {"golden 1\nkind a\nkey\tword\nend\n", "x.txt: line 3: a byte outside 0x20 to 0x7e"},
        {"golden 1\nkind a\n\nend\n", "x.txt: line 3: a line without a key"},
        {"golden 1\nkind a\n key\nend\n", "x.txt: line 3: a line without a key"},
        {"golden 1\nkind a\nkey  word\nend\n", "x.txt: line 3: words must be separated by one space: 'key'"},
        {"golden 1\nkind a\nkey word \nend\n", "x.txt: line 3: words must be separated by one space: 'key'"},
        {"golden 1\nkind a\nkey 1\nkey 2\nend\n", "x.txt: line 4: occurs a second time: 'key'"},
        {"golden 1\nkind a\nkind b\nend\n", "x.txt: line 3: occurs a second time: 'kind'"},
        {"golden 1\nkind a\ntext\nend\n", "x.txt: line 3: no space after the key: 'text'"},
        {"golden 1\nkind a\ntext \\x4\nend\n", "x.txt: line 3: a backslash that does not begin \\xHH in: 'text'"},
        {"golden 1\nkind a\ntext \\\nend\n", "x.txt: line 3: a backslash that does not begin \\xHH in: 'text'"},
        {"golden 1\nkind a\ntext \\x\nend\n", "x.txt: line 3: a backslash that does not begin \\xHH in: 'text'"},
        {"golden 1\nkind canonical\ncase\nend\n", "x.txt: line 3: needs one name: 'case'"},
        {"golden 1\nkind canonical\ncase a b\nend\n", "x.txt: line 3: needs one name: 'case'"},
        {"golden 1\nkind a\ntensor\nend\n", "x.txt: line 3: a tensor without a name"},
        {"golden 1\nkind a\ntensor  f32 1\nend\n", "x.txt: line 3: a tensor without a name"},
        {"golden 1\nkind a\ntensor t\nend\n", "x.txt: line 3: the type must be f32, bf16 or i32 of tensor: 't'"},
        {"golden 1\nkind a\ntensor t f16 1\nend\n", "x.txt: line 3: the type must be f32, bf16 or i32 of tensor: 't'"},
        {"golden 1\nkind a\ntensor t f32\nend\n", "x.txt: line 3: no dimension of tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 1 1 1 1 1\n1\nend\n", "x.txt: line 3: too many dimensions of tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 -1\nend\n", "x.txt: line 3: a dimension that is no number of tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 +1\n1\nend\n", "x.txt: line 3: a dimension that is no number of tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 1x\n1\nend\n", "x.txt: line 3: a dimension that is no number of tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 99999999999999999999\nend\n",
         "x.txt: line 3: a dimension that is no number of tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 4294967296 4294967296\nend\n",
         "x.txt: line 3: more numbers announced than the file can hold, tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 9223372036854775807\n1\nend\n",
         "x.txt: line 3: more numbers announced than the file can hold, tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 2\n1\nend\n", "x.txt: line 5: not a number of the tensor's type: 'end'"},
        {"golden 1\nkind a\ntensor t i32 1\n1 2\nend\n", "x.txt: line 4: more numbers than announced in tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 1\n1 \nend\n", "x.txt: line 4: more numbers than announced in tensor: 't'"},
        {"golden 1\nkind a\ntensor t i32 1\n2147483648\nend\n",
         "x.txt: line 4: not a number of the tensor's type: '2147483648'"},
        {"golden 1\nkind a\ntensor t f32 1\n3f80000\nend\n",
         "x.txt: line 4: not a number of the tensor's type: '3f80000'"},
        {"golden 1\nkind a\ntensor t f32 1\n3f8000000\nend\n",
         "x.txt: line 4: not a number of the tensor's type: '3f8000000'"},
        {"golden 1\nkind a\ntensor t bf16 1\n3f8g\nend\n", "x.txt: line 4: not a number of the tensor's type: '3f8g'"},
        {"golden 1\nkind a\ntensor t f32 9\n3f800000\n",
         "x.txt: line 3: more numbers announced than the file can hold, tensor: 't'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        golden_error error;
        assert_null(parse(cases[i][0], &error));
        assert_string_equal(error.text, cases[i][1]);
    }
}

/* Cut anywhere, a file is refused; the whole one is read. Sanitizers look on. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    static const char whole[] =
        "golden 1\nkind tokenizer\nn 3\ntext a\\x0ab\ncase 0\ntensor t f32 2 2\n3f800000 00000000\n"
        "00000000 00000000\nids 1 2\ncase 1\ntensor u bf16 1\n3f80\nend\n";
    for (size_t size = 0; size < sizeof whole - 1; size++) {
        golden_error error = {{0}};
        char *exact = test_alloc(size, 1); /* so that a read past the end is seen */
        memcpy(exact, whole, size);
        assert_null(golden_parse(exact, size, "x.txt", &error));
        assert_true(error.text[0]);
        free(exact);
    }
    golden_free(parse_good(whole));
}

/* One byte changed, at every place and to many values: a file or an error, nothing else. */
static void every_changed_byte_gives_a_file_or_an_error(void **state)
{
    (void)state;
    static const char whole[] =
        "golden 1\nkind tokenizer\ntext a\\x0a\ncase 0\ntensor t f32 2 1\n3f800000 00000000\nids 1\nend\n";
    for (size_t at = 0; at < sizeof whole - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char bytes[sizeof whole - 1];
            golden_error error = {{0}};
            memcpy(bytes, whole, sizeof bytes);
            bytes[at] = (char)byte;
            golden_file *file = golden_parse(bytes, sizeof bytes, "x.txt", &error);
            assert_true((file == NULL) == (error.text[0] != '\0'));
            golden_free(file);
        }
    }
}

static void too_many_entries_are_refused(void **state)
{
    (void)state;
    char *text = test_alloc(GOLDEN_ENTRIES_MAX + 10, 10), *end = text;
    golden_error error;
    end += sprintf(end, "golden 1\nkind a\n");
    for (int i = 0; i < GOLDEN_ENTRIES_MAX; i++) /* with `kind` one more than fits */
        end += sprintf(end, "k%d\n", i);
    sprintf(end, "end\n");
    assert_null(parse(text, &error));
    assert_string_equal(error.text, "x.txt: line 4098: too many entries: 'k4095'");
    free(text);
}

static void paths_that_are_no_file_are_refused(void **state)
{
    golden_error error = {{0}};
    assert_null(golden_read("no/such/file.txt", &error));
    assert_string_equal(error.text, "no/such/file.txt: No such file or directory");
    error = (golden_error){{0}};
    assert_null(golden_read(*state, &error));
    assert_non_null(strstr(error.text, "Is a directory"));
}

static void getters_name_what_is_wrong(void **state)
{
    (void)state;
    golden_file *file =
        parse_good("golden 1\nkind a\nn 3x 5\nhash 12345678901234567\ninf inf\nbig 1e999\npower 2^x\ntext a\n"
                   "tensor t i32 2\n1 2\ntensor r_begin i32 2\n0 3\ntensor r i32 2\n1 2\nend\n");
    const golden_record *h = golden_header(file);
    golden_error e = {{0}};
#define EXPECT(call, message)                                                                                          \
    do {                                                                                                               \
        e = (golden_error){{0}};                                                                                       \
        (void)(call);                                                                                                  \
        assert_string_equal(e.text, "x.txt: " message);                                                                \
    } while (0)
    EXPECT(golden_integer(h, "m", 0, &e), "no 'm'");
    EXPECT(golden_integer(h, "n", 0, &e), "line 3: 'n' must be an integer, not '3x'");
    EXPECT(golden_integer(h, "n", 2, &e), "line 3: 'n' has 2 words, number 3 is missing");
    EXPECT(golden_integer_within(h, "n", 1, 6, 9, &e), "line 3: 'n' must be an integer from 6 to 9, not '5'");
    EXPECT(golden_integer(h, "text", 0, &e), "line 8: 'text' must be words");
    EXPECT(golden_hex(h, "hash", 0, &e), "line 4: 'hash' must be 1 to 16 hexadecimal digits, not '12345678901234567'");
    EXPECT(golden_number(h, "inf", 0, &e), "line 5: 'inf' must be a finite number, not 'inf'");
    EXPECT(golden_number(h, "big", 0, &e), "line 6: 'big' must be a finite number, not '1e999'");
    EXPECT(golden_number(h, "power", 0, &e), "line 7: 'power' must be a finite number, not '2^x'");
    EXPECT(golden_find_tensor(h, "n", &e), "line 3: 'n' must be a tensor");
    EXPECT(golden_floats(h, "t", 2, &e), "line 9: tensor 't' must have 2 f32 or bf16");
    EXPECT(golden_integers(h, "t", 3, &e), "line 9: tensor 't' must have 3 i32");
    EXPECT(golden_find_ragged(h, "r", 1, &e).begin, "line 11: 'r_begin' must rise from 0 to 2, the size of 'r'");
#undef EXPECT
    golden_integer(h, "n", 0, &e); /* the first error stays */
    assert_non_null(strstr(e.text, "r_begin"));
    golden_free(file);
}

int main(void)
{
    char *folder = (char[]){QSA_GOLDEN_DIR};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_numbers_are_read),
        cmocka_unit_test(text_is_unescaped),
        cmocka_unit_test(tensors_are_read),
        cmocka_unit_test(ragged_rows_are_read),
        cmocka_unit_test(records_own_the_entries_after_them),
        cmocka_unit_test_prestate(recorded_files_are_read_whole, folder),
        cmocka_unit_test(malformed_files_are_refused_by_line),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_changed_byte_gives_a_file_or_an_error),
        cmocka_unit_test(too_many_entries_are_refused),
        cmocka_unit_test_prestate(paths_that_are_no_file_are_refused, folder),
        cmocka_unit_test(getters_name_what_is_wrong),
    };
    return cmocka_run_group_tests_name("golden_file", tests, NULL, NULL);
}
