/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling: which token follows, given its logits. The public part (options, create, next, destroy) is in qsa_engine.h;
 * this page says what it computes.
 *
 * Temperature 0 is greedy: the largest logit, of equal ones the lowest id; no random number is drawn.
 * Otherwise the tokens are ordered by (logit descending, id ascending), and weigh exp((logit - largest) / temperature).
 * Each filter keeps a beginning of that order, of what the filter before it kept:
 *   top_k   the first top_k tokens;
 *   top_p   the shortest beginning with at least top_p of the weight that top_k kept;
 *   min_p   the tokens with at least min_p times the first one's weight.
 * One random number u in [0, 1) is drawn, and the token is the first whose weight, added to those before it, exceeds
 * u times the kept weight.
 *
 * u is the upper 53 bits of SplitMix64's next number times 2^-53. The state begins as the seed, and is all that a
 * sampler remembers from token to token. A refused call draws nothing. */
#ifndef QSA_ENGINE_SESSION_SAMPLER_H
#define QSA_ENGINE_SESSION_SAMPLER_H

#include <qsa_engine.h>

/* The random state, for saving a session, and for going on where another sampler stopped. */
uint64_t qsa_sampler_state(const qsa_sampler *sampler);
void qsa_sampler_set_state(qsa_sampler *sampler, uint64_t state);

#endif
