/* SPDX-License-Identifier: Apache-2.0 */
/* The sticky error: one number, ordered by (layer, phase, entry, token, tensor). Parts lower it with compare-and-swap;
 * whoever reads it writes the detail line. */
#include "step/step.h"

#include <inttypes.h>

enum { INPUT_BITS = 3, TOKEN_BITS = 17, ENTRY_BITS = 17, PHASE_BITS = 3 };

_Static_assert(QSA_MAX_STEP_TOKENS <= 1 << (TOKEN_BITS - 1), "tokens fit");
_Static_assert(QSA_PHASES <= 1 << PHASE_BITS, "phases fit");

void qsa_step_refuse(struct qsa_step *step, uint32_t phase, uint32_t entry, uint32_t token, enum qsa_input input)
{
    uint64_t key = step->layer.layer;
    key = key << PHASE_BITS | phase;
    key = key << ENTRY_BITS | entry;
    key = key << TOKEN_BITS | token;
    key = key << INPUT_BITS | (uint64_t)input;
    uint_fast64_t seen = atomic_load(&step->error);
    while (key < seen && !atomic_compare_exchange_weak(&step->error, &seen, key))
        ;
}

static uint64_t take_bits(uint64_t *key, int bits)
{
    uint64_t value = *key & ((UINT64_C(1) << bits) - 1);
    *key >>= bits;
    return value;
}

qsa_status qsa_step_error(const struct qsa_step *step)
{
    static const char *const names[] = {[QSA_INPUT_Q] = "q",
                                        [QSA_INPUT_K] = "k",
                                        [QSA_INPUT_V] = "v",
                                        [QSA_INPUT_INDEX_Q] = "index_q",
                                        [QSA_INPUT_RAW_KEY] = "raw_key",
                                        [QSA_INPUT_K_STORED] = "k",
                                        [QSA_INPUT_V_STORED] = "v"};
    uint64_t key = atomic_load(&step->error);
    if (key == UINT64_MAX)
        return QSA_OK;
    uint64_t input = take_bits(&key, INPUT_BITS), token = take_bits(&key, TOKEN_BITS);
    uint64_t entry = take_bits(&key, ENTRY_BITS), phase = take_bits(&key, PHASE_BITS);
    (void)phase; /* orders errors; a reader does not need it */
    const char *what =
        input >= QSA_INPUT_K_STORED ? "that its storage type cannot hold" : "that is NaN, infinite or beyond 2^56";
    return qsa_fail(QSA_E_NONFINITE, "layer %" PRIu64 ", entry %" PRIu64 ", token %" PRIu64 ": %s holds a value %s",
                    key, entry, token, names[input], what);
}
