/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs_touch.h"

#include "life.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_VERBS = 400 };

static void give_up(const char *message)
{
    fprintf(stderr, "verbs: %s\n", message);
    abort();
}

void verbs_touch_bytes(const uint8_t *data, size_t size)
{
    if (size < 2)
        return;
    life_on_failure = give_up;
    const life_rules rules = life_mini(data[0]);
    life *l = life_begin(&rules, data[0], data + 1, size - 1);
    for (int verbs = 0; verbs < MOST_VERBS && life_verb(l); verbs++)
        ;
    life_end(l);
    life_on_failure = NULL;
}
