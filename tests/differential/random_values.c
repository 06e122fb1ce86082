/* SPDX-License-Identifier: Apache-2.0 */
#include "random_values.h"

#include "src/base/splitmix64.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

enum { BORDER = 17 };
static const uint32_t MARK = 0x7fa5a5a5; /* a NaN, so that whoever computes with it shows */

uint64_t random_next(random_source *r)
{
    return splitmix64_next(&r->state);
}

size_t random_between(random_source *r, size_t low, size_t high)
{
    return low + (size_t)(random_next(r) % (high - low + 1));
}

bool random_chance(random_source *r, unsigned one_in)
{
    return random_next(r) % one_in == 0;
}

float random_float(random_source *r, flavour f, int most)
{
    float sign = random_chance(r, 2) ? -1.0f : 1.0f;
    float fraction = (float)(random_next(r) >> 40) * 0x1p-24f; /* [0, 1) */
    switch (f) {
    case ORDINARY:
        return sign * fraction;
    case WIDE:
        return sign * ldexpf(fraction, most - (int)random_between(r, 0, 100));
    case SUBNORMAL:
        return sign * ldexpf(fraction, -126 + (int)random_between(r, 0, 60) - 20);
    case SIGNED_ZEROS:
        return random_chance(r, 8) ? sign * fraction : sign * 0.0f;
    default:
        return random_float(r, (flavour)random_between(r, 0, MIXED - 1), most);
    }
}

void random_fill(random_source *r, float *out, size_t count, int most)
{
    flavour f = (flavour)random_between(r, 0, FLAVOUR_COUNT - 1);
    for (size_t i = 0; i < count; i++)
        out[i] = random_float(r, f, most);
}

guarded guarded_alloc(size_t count)
{
    guarded g = {.count = count, .memory = test_alloc(count + 2 * BORDER, sizeof(float))};
    g.values = (float *)g.memory + BORDER;
    for (size_t i = 0; i < count + 2 * BORDER; i++)
        ((float *)g.memory)[i] = test_float(MARK);
    return g;
}

bool guarded_intact(const guarded *g)
{
    const float *all = g->memory;
    for (size_t i = 0; i < BORDER; i++)
        if (test_bits(all[i]) != MARK || test_bits(all[BORDER + g->count + i]) != MARK)
            return false;
    return true;
}

void guarded_free(guarded *g)
{
    free(g->memory);
}
