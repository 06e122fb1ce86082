/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer's entry to the reader of GGUF files: any bytes are a file. */
#include "gguf_touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf_touch_bytes(data, size);
    return 0;
}
