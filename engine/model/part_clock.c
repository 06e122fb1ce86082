/* SPDX-License-Identifier: Apache-2.0 */
/* clock_gettime is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model/part_clock.h"

#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void part_clock_start(part_clock *clock)
{
    if (clock != NULL) {
        clock->part = QSA_PART_OTHER;
        clock->since_ns = now_ns();
    }
}

void part_clock_enter(part_clock *clock, qsa_model_part part)
{
    if (clock != NULL) {
        const uint64_t now = now_ns();
        clock->profile.part_ns[clock->part] += now - clock->since_ns;
        clock->since_ns = now;
        clock->part = part;
    }
}

void part_clock_stop(part_clock *clock)
{
    part_clock_enter(clock, QSA_PART_OTHER);
}

void part_clock_count(part_clock *clock, uint32_t tokens)
{
    if (clock != NULL) {
        clock->profile.batches++;
        clock->profile.tokens += tokens;
    }
}

const char *qsa_model_part_name(qsa_model_part part)
{
    static const char *const names[QSA_PART_COUNT] = {
        [QSA_PART_EMBEDDING] = "embedding",
        [QSA_PART_NGRAM] = "n-gram table",
        [QSA_PART_HYPER] = "hyper-connections",
        [QSA_PART_DELTA] = "delta nets",
        [QSA_PART_EXPERTS] = "experts",
        [QSA_PART_QSA_PROJECTIONS] = "QSA projections",
        [QSA_PART_QSA_APPEND] = "QSA append",
        [QSA_PART_QSA_SCAN] = "QSA scan",
        [QSA_PART_QSA_SELECT] = "QSA select",
        [QSA_PART_QSA_ATTEND] = "QSA attend",
        [QSA_PART_QSA_OUTPUT] = "QSA output",
        [QSA_PART_HEAD] = "head",
        [QSA_PART_OTHER] = "other",
    };
    return (size_t)part < QSA_PART_COUNT ? names[part] : "?";
}
