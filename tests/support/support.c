#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *test_alloc(size_t count, size_t element_size)
{
    void *memory = calloc(count ? count : 1, element_size);
    if (!memory)
        abort();
    return memory;
}

void test_fill(uint64_t stream, float *out, size_t count)
{
    for (size_t k = 0; k < count; k++)
        out[k] = golden_value(stream, k);
}

uint32_t test_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float test_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void test_same_floats(const char *what, const float *expected, const float *actual, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (test_bits(expected[i]) != test_bits(actual[i])) {
            fail_msg("%s[%zu]: expected %08x (%.9g), found %08x (%.9g)", what, i, (unsigned)test_bits(expected[i]),
                     (double)expected[i], (unsigned)test_bits(actual[i]), (double)actual[i]);
        }
    }
}

void test_same_integers(const char *what, const int32_t *expected, const int32_t *actual, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (expected[i] != actual[i])
            fail_msg("%s[%zu]: expected %d, found %d", what, i, (int)expected[i], (int)actual[i]);
}

void test_close_floats(const char *what, const float *expected, const float *actual, size_t count, double tolerance)
{
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)expected[i] - (double)actual[i]);
        if (!(difference <= tolerance)) { /* also true for NaN */
            fail_msg("%s[%zu]: expected %.9g, found %.9g, %.3g apart, tolerance %.3g", what, i, (double)expected[i],
                     (double)actual[i], difference, tolerance);
        }
    }
}

void test_no_golden_error(const golden_error *error)
{
    if (error->text[0])
        fail_msg("%s", error->text);
}

golden_file *test_golden(const char *folder, const char *name)
{
    char path[1024];
    golden_error error = {{0}};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    golden_file *file = golden_read(path, &error);
    test_no_golden_error(&error);
    return file;
}
