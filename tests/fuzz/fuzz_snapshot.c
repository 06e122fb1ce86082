/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer's entry to the reader of snapshots: any bytes, as they are and with checksums that are right. */
#include "snapshot_touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    snapshot_touch_bytes(data, size, true);
    if (size < 64) /* beyond that the checksum of the first section decides */
        snapshot_touch_bytes(data, size, false);
    return 0;
}
