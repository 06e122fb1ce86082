/* SPDX-License-Identifier: Apache-2.0 */
/* A session in a snapshot: the host sections that the engine adds (docs/SNAPSHOT.md, section 8). */
#ifndef QSA_ENGINE_SESSION_SAVED_H
#define QSA_ENGINE_SESSION_SAVED_H

#include <assert.h>
#include <stdint.h>

#define SAVED_TAG(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

enum {
    /* Version of the layout and of the arithmetic behind the states: a change of either makes older files unusable. */
    SAVED_VERSION = 3,
    SAVED_TAG_HEAD = SAVED_TAG('E', 'N', 'G', 'N'),
    SAVED_TAG_TOKENS = SAVED_TAG('T', 'O', 'K', 'S'),
    SAVED_TAG_SAMPLER = SAVED_TAG('S', 'A', 'M', 'P')
};

/* Section 0 is the current state; the checkpoints follow from 1 on. */
static inline uint32_t saved_tag_state(uint32_t number)
{
    assert(number < 100);
    return SAVED_TAG('S', 'T', '0' + number / 10, '0' + number % 10);
}

typedef struct saved_head {
    uint32_t version;
    uint32_t checkpoints;
    int64_t anchor;
    uint32_t fed; /* 0 or 1 */
    uint32_t has_sampler;
} saved_head;

_Static_assert(sizeof(saved_head) == 24, "file layout");

#endif
