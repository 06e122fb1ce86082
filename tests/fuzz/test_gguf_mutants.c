/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzer's little brother, which every compiler has: seeds cut, and seeds changed in a few places, all of them the
 * same in every run. What it looks for is what sanitizers, assertions and crashes show. */
#include "gguf_bytes.h"
#include "gguf_touch.h"

#include "base/error.h"
#include "base/splitmix64.h"
#include "support.h"
#include <stdlib.h>
#include <string.h>

enum { MUTANTS = 5000 /* of each seed */ };

static void opens_or_says_why(const uint8_t *data, size_t size)
{
    if (gguf_touch_bytes(data, size) != QSA_OK) {
        assert_string_not_equal(engine_error_detail(), "");
        assert_null(strchr(engine_error_detail(), '\n'));
    }
}

static void every_seed_opens(void **state)
{
    (void)state;
    for (int seed = 0; seed < GGUF_SEEDS; seed++) {
        gguf_bytes b = {0};
        bytes_seed(&b, seed);
        assert_int_equal(gguf_touch_bytes(b.data, b.size), QSA_OK);
        free(b.data);
    }
}

/* A file cut anywhere is refused, but for the padding behind the last tensor. */
static void every_cut_is_refused(void **state)
{
    (void)state;
    const size_t padding[GGUF_SEEDS] = {0, 0, 512 - 320 - 144, 32 - 16};
    for (int seed = 0; seed < GGUF_SEEDS; seed++) {
        gguf_bytes b = {0};
        bytes_seed(&b, seed);
        for (size_t size = 0; size < b.size; size++) {
            bool is_whole = size >= b.size - padding[seed];
            assert_int_equal(gguf_touch_bytes(b.data, size) == QSA_OK, is_whole);
        }
        free(b.data);
    }
}

/* Every byte in turn takes the values that most often matter. */
static void every_byte_may_be_wrong(void **state)
{
    (void)state;
    for (int seed = 0; seed < GGUF_SEEDS; seed++) {
        gguf_bytes b = {0};
        bytes_seed(&b, seed);
        for (size_t i = 0; i < b.size; i++) {
            const uint8_t good = b.data[i];
            const uint8_t wrong[] = {0x00, 0x01, 0x7f, 0x80, 0xff, (uint8_t)(good + 1), (uint8_t)(good - 1)};
            for (size_t w = 0; w < sizeof wrong; w++) {
                b.data[i] = wrong[w];
                opens_or_says_why(b.data, b.size);
            }
            b.data[i] = good;
        }
        free(b.data);
    }
}

/* Up to eight bytes somewhere become random, or one of the sizes that break arithmetic. */
static void mutate(gguf_bytes *b, uint64_t *random)
{
    static const uint64_t sizes[] = {0, 1, UINT32_MAX, UINT64_C(1) << 40, INT64_MAX, UINT64_MAX, UINT64_MAX - 31};
    size_t at = splitmix64_next(random) % b->size, room = b->size - at;
    size_t length = 1 + splitmix64_next(random) % 8;
    uint64_t value = splitmix64_next(random) % 2 ? splitmix64_next(random)
                                                 : sizes[splitmix64_next(random) % (sizeof sizes / sizeof sizes[0])];
    memcpy(b->data + at, &value, length < room ? length : room);
}

static void mutants_do_no_harm(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int seed = 0; seed < GGUF_SEEDS; seed++) {
        gguf_bytes good = {0};
        bytes_seed(&good, seed);
        gguf_bytes b = {.data = test_alloc(good.size, 1), .size = good.size};
        for (int i = 0; i < MUTANTS; i++) {
            memcpy(b.data, good.data, good.size);
            for (uint64_t changes = 1 + splitmix64_next(&random) % 3; changes > 0; changes--)
                mutate(&b, &random);
            opens_or_says_why(b.data, b.size);
        }
        free(b.data);
        free(good.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_seed_opens),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_byte_may_be_wrong),
        cmocka_unit_test(mutants_do_no_harm),
    };
    return cmocka_run_group_tests_name("gguf_mutants", tests, NULL, NULL);
}
