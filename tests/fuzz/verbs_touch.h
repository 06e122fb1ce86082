/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a life of verbs: after each, invariants and digests are compared with the model. */
#ifndef VERBS_TOUCH_H
#define VERBS_TOUCH_H

#include <stddef.h>
#include <stdint.h>

/* Aborts where cache and model differ. */
void verbs_touch_bytes(const uint8_t *data, size_t size);

#endif
