/* SPDX-License-Identifier: Apache-2.0 */
/* A synthetic long text for retrieval questions: lines like "The access code of vault 0423 is 77120493." */
#ifndef QSA_ENGINE_MAKE_LEDGER_H
#define QSA_ENGINE_MAKE_LEDGER_H

#include <qsa/status.h>

enum {
    LEDGER_LINE_BYTES = 43,                       /* with its line feed */
    LEDGER_MAX_BYTES = 10000 * LEDGER_LINE_BYTES, /* a vault number has four digits */
};

typedef struct ledger_question {
    char prompt[48]; /* "The access code of vault 0423 is" */
    char answer[16]; /* " 77120493." */
} ledger_question;

/* A ledger of exactly size_bytes bytes (for the quoter, as many tokens): unique vault numbers in random order, with
 * random codes. The last line may be cut off. *out_text is terminated; the caller frees it.
 * Errors: QSA_E_ARGUMENT (size 0 or above LEDGER_MAX_BYTES), QSA_E_MEMORY. */
qsa_status ledger_create(uint64_t seed, size_t size_bytes, char **out_text);

/* n questions about different lines of a ledger, in random order. Only complete lines are asked about, and only those
 * where the last context_bytes bytes uniquely determine each byte of the answer. Errors: QSA_E_ARGUMENT (text is not a
 * ledger, or has fewer than n such lines), QSA_E_MEMORY. */
qsa_status ledger_ask(const char *text, size_t size_bytes, uint32_t context_bytes, uint64_t seed, size_t n,
                      ledger_question *out_questions);

#endif
