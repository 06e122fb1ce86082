/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest refusal as one atomic number. */
#include "device/refusal.h"

#include "base/limits.h"
#include "base/status.h"

#include <assert.h>
#include <inttypes.h>
#include <qsa/config.h>

enum { INPUT_BITS = 3, TOKEN_BITS = 17, ENTRY_BITS = 17 };

_Static_assert(QSA_MAX_STEP_TOKENS <= 1 << (TOKEN_BITS - 1), "tokens fit");

void qsa_refusals_begin(qsa_refusals *refusals)
{
    atomic_store(&refusals->lowest, UINT64_MAX);
}

void qsa_refuse(qsa_refusals *refusals, uint32_t layer, uint32_t entry, uint32_t token, enum qsa_input input)
{
    assert(entry < 1u << ENTRY_BITS && token < 1u << TOKEN_BITS && (int)input < 1 << INPUT_BITS);
    uint64_t key = layer;
    key = key << ENTRY_BITS | entry;
    key = key << TOKEN_BITS | token;
    key = key << INPUT_BITS | (uint64_t)input;
    uint_fast64_t seen = atomic_load(&refusals->lowest);
    while (key < seen && !atomic_compare_exchange_weak(&refusals->lowest, &seen, key))
        ;
}

static uint64_t take_bits(uint64_t *key, int bits)
{
    uint64_t value = *key & ((UINT64_C(1) << bits) - 1);
    *key >>= bits;
    return value;
}

qsa_status qsa_refusals_status(const qsa_refusals *refusals)
{
    static const char *const names[] = {[QSA_INPUT_Q] = "q",
                                        [QSA_INPUT_K] = "k",
                                        [QSA_INPUT_V] = "v",
                                        [QSA_INPUT_INDEX_Q] = "index_q",
                                        [QSA_INPUT_RAW_KEY] = "raw_key",
                                        [QSA_INPUT_K_STORED] = "k",
                                        [QSA_INPUT_V_STORED] = "v"};
    uint64_t key = atomic_load(&refusals->lowest);
    if (key == UINT64_MAX)
        return QSA_OK;
    uint64_t input = take_bits(&key, INPUT_BITS), token = take_bits(&key, TOKEN_BITS);
    assert(input <= QSA_INPUT_V_STORED);
    uint64_t entry = take_bits(&key, ENTRY_BITS);
    const char *what =
        input >= QSA_INPUT_K_STORED ? "that its storage type cannot hold" : "that is NaN, infinite or beyond 2^56";
    return qsa_fail(QSA_E_NONFINITE, "layer %" PRIu64 ", entry %" PRIu64 ", token %" PRIu64 ": %s holds a value %s",
                    key, entry, token, names[input], what);
}
