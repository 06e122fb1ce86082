/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot fuzzer's little brother, which every compiler has: seeds changed in a few places, checksums put right,
 * all the same in every run. */
#include "parts.h"
#include "snapshot_touch.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { MUTANTS = 1200 /* of each seed */ };

static void every_seed_is_read(void **state)
{
    (void)state;
    for (int seed = 0; seed < SNAPSHOT_SEEDS; seed++) {
        mini_bytes bytes = snapshot_seed(seed);
        assert_int_equal(snapshot_touch_bytes(bytes.data, bytes.size, false), QSA_OK);
        assert_int_equal(snapshot_touch_bytes(bytes.data, bytes.size, true), QSA_OK);
        mini_free(&bytes);
    }
}

/* Everything but values, byte by byte: heads, configuration, sequences, tables, extents. */
static void every_byte_of_the_structure_may_be_wrong(void **state)
{
    (void)state;
    for (int seed = 0; seed < SNAPSHOT_SEEDS; seed++) {
        mini_bytes bytes = snapshot_seed(seed);
        const size_t end = parts_get(bytes.data, bytes.size, "TRIP", 0).data_at;
        for (size_t i = 0; i < end; i++) {
            const uint8_t good = bytes.data[i];
            const uint8_t wrong[] = {0x00, 0x01, 0x7f, 0x80, 0xff, (uint8_t)(good + 1), (uint8_t)(good - 1)};
            for (size_t w = 0; w < sizeof wrong; w++) {
                bytes.data[i] = wrong[w];
                snapshot_touch_bytes(bytes.data, bytes.size, true);
            }
            bytes.data[i] = good;
        }
        mini_free(&bytes);
    }
}

static void mutate(mini_bytes *bytes, uint64_t *k)
{
    static const uint64_t sizes[] = {0, 1, UINT32_MAX, UINT64_C(1) << 31, INT64_MAX, UINT64_MAX, UINT64_C(1) << 63};
    uint64_t bits = golden_bits64(7, (*k)++), value = golden_bits64(8, (*k)++);
    size_t at = bits % bytes->size, room = bytes->size - at, length = 1 + (bits >> 32) % 8;
    if (bits >> 40 & 1)
        at = at % 600 % bytes->size; /* where structure is */
    if (bits >> 41 & 1)
        value = sizes[value % 7];
    room = bytes->size - at;
    memcpy(bytes->data + at, &value, length < room ? length : room);
}

static void mutants_do_no_harm(void **state)
{
    (void)state;
    uint64_t k = 0;
    for (int seed = 0; seed < SNAPSHOT_SEEDS; seed++) {
        mini_bytes good = snapshot_seed(seed), bytes = {.data = test_alloc(good.size, 1), .size = good.size};
        for (int i = 0; i < MUTANTS; i++) {
            memcpy(bytes.data, good.data, good.size);
            for (uint64_t changes = 1 + golden_bits64(9, k++) % 3; changes > 0; changes--)
                mutate(&bytes, &k);
            snapshot_touch_bytes(bytes.data, bytes.size, true);
        }
        free(bytes.data);
        mini_free(&good);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_seed_is_read),
        cmocka_unit_test(every_byte_of_the_structure_may_be_wrong),
        cmocka_unit_test(mutants_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
