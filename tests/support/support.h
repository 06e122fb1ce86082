/* What every test file may need: memory, numbers, golden files, and comparisons that say where they fail. */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verify/golden_file.h"
#include "verify/golden_numbers.h"

/* Zeroed memory; ends the test host where there is none. Free with free(). */
void *test_alloc(size_t count, size_t element_size);

/* Values 0 .. count - 1 of a stream of the golden generator. */
void test_fill(uint64_t stream, float *out, size_t count);

uint32_t test_bits(float x);
float test_float(uint32_t bits);

/* Fails the running test, naming `what`, the first index that differs, and both values as bits. */
void test_same_floats(const char *what, const float *expected, const float *actual, size_t count);
void test_same_integers(const char *what, const int32_t *expected, const int32_t *actual, size_t count);

/* Fails where a value is not within `tolerance` (absolute) of the expected one. */
void test_close_floats(const char *what, const float *expected, const float *actual, size_t count, double tolerance);

/* Opens FOLDER/NAME or fails the test. Free with golden_free(). */
golden_file *test_golden(const char *folder, const char *name);

/* Fails the test if the error is set. */
void test_no_golden_error(const golden_error *error);

#endif
