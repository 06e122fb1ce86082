/* SPDX-License-Identifier: Apache-2.0 */
/* A long text to be asked about: lines like "The access code of vault 0423 is 77120493." */
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

/* A ledger of exactly size_bytes bytes, which are as many tokens of the quoter: vaults in random order, no number
 * twice, with random codes. The last line is cut where the size ends. *out_text is terminated and the caller's to
 * free(). Errors: QSA_E_ARGUMENT (a size of 0 or above LEDGER_MAX_BYTES), QSA_E_MEMORY. */
qsa_status ledger_create(uint64_t seed, size_t size_bytes, char **out_text);

/* n questions about different lines of a ledger, in random order. A line that was cut is never asked about, nor one
 * whose answer the last context_bytes bytes do not decide at every byte. Errors: QSA_E_ARGUMENT (a text that is no
 * ledger, or that has fewer such lines than n), QSA_E_MEMORY. */
qsa_status ledger_ask(const char *text, size_t size_bytes, uint32_t context_bytes, uint64_t seed, size_t n,
                      ledger_question *out_questions);

#endif
