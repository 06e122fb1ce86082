/* SPDX-License-Identifier: Apache-2.0 */
/* The verb fuzzer's little brother: lives that come from bytes, the same in every run. */
#include "support.h"
#include "verbs_touch.h"

enum { LIVES = 120, BYTES = 300 };

static void lives_from_bytes_agree_with_their_models(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < LIVES; i++) {
        uint8_t bytes[BYTES];
        for (uint64_t at = 0; at < BYTES; at++)
            bytes[at] = (uint8_t)golden_bits64(100 + i, at);
        verbs_touch_bytes(bytes, i % BYTES + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lives_from_bytes_agree_with_their_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
