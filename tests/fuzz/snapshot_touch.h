/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a snapshot, read beside a live sequence. What is refused must leave no trace; what is read must be
 * whole: it goes on, is saved again, and gives every page back. */
#ifndef SNAPSHOT_TOUCH_H
#define SNAPSHOT_TOUCH_H

#include "mini.h"
#include <stdbool.h>

enum { SNAPSHOT_SEEDS = 4 };

/* A small snapshot: a tail; a group and more; three sequences that share pages; none at all. Free with mini_free. */
mini_bytes snapshot_seed(int seed);

/* Reads a copy of the bytes, in memory of exactly their size; sealed: with checksums that are right. */
qsa_status snapshot_touch_bytes(const uint8_t *data, size_t size, bool sealed);

#endif
