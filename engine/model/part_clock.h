/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long each part of the model takes. Between start and stop exactly one part is running at any moment, so
 * the parts add up to the whole. */
#ifndef QSA_ENGINE_MODEL_PART_CLOCK_H
#define QSA_ENGINE_MODEL_PART_CLOCK_H

#include <qsa_engine.h>

typedef struct part_clock {
    qsa_context_profile profile;
    qsa_model_part part;
    uint64_t since_ns;
} part_clock;

/* A NULL clock is legal and measures nothing. */
void part_clock_start(part_clock *clock); /* the first part is QSA_PART_OTHER */
void part_clock_enter(part_clock *clock, qsa_model_part part);
void part_clock_stop(part_clock *clock);
void part_clock_count(part_clock *clock, uint32_t tokens); /* a batch that has run */

#endif
