/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer's entry to the verbs: the bytes choose what happens to a cache and to its model, and the two must stay the
 * same. */
#include "verbs_touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    verbs_touch_bytes(data, size);
    return 0;
}
