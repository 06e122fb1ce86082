/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling: draws the next token from logits. The public functions are in qsa_engine.h; this page defines the result.
 *
 * Biases and penalties (qsa_engine.h) change the logits, in f32, in this order: bias, repeat, presence and frequency.
 * A token whose logit is then -infinity is left out of all that follows.
 *
 * Temperature 0 is greedy: the largest logit, of ties the lowest id; no random number is drawn.
 * Otherwise tokens are sorted by (logit descending, id ascending); weight = exp((logit - largest) / temperature).
 * Each filter keeps a prefix of what the filter before it kept:
 *   top_k   the first top_k tokens;
 *   top_p   the shortest prefix whose weights sum to at least top_p times the sum that top_k kept;
 *   min_p   the tokens whose weight is at least min_p times the first one's.
 * Then one random number u in [0, 1) is drawn. The result is the first token whose cumulative weight exceeds u times
 * the sum of the kept weights; if rounding leaves none, the last kept token.
 *
 * u is the upper 53 bits of the next SplitMix64 output times 2^-53. The generator's state starts at the seed, and is
 * all that a sampler carries from token to token. A call that fails draws nothing. */
#ifndef QSA_ENGINE_SESSION_SAMPLER_H
#define QSA_ENGINE_SESSION_SAMPLER_H

#include <qsa_engine.h>

/* The generator's state, to save a session and to continue where another sampler stopped. */
uint64_t qsa_sampler_state(const qsa_sampler *sampler);
void qsa_sampler_set_state(qsa_sampler *sampler, uint64_t state);

#endif
