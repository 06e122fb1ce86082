/* SPDX-License-Identifier: Apache-2.0 */
/* Uses everything that an open file offers, so that sanitizers see what a wrong check would let through. */
#ifndef GGUF_TOUCH_H
#define GGUF_TOUCH_H

#include "file/gguf_file.h"

/* All getters on the keys of the seeds, the first and last byte of every tensor, small tensors as f32. */
void gguf_touch(const gguf_file *file);

/* Opens a copy of the bytes in memory of exactly their size, touches and closes it. Returns the status of opening. */
qsa_status gguf_touch_bytes(const uint8_t *data, size_t size);

#endif
