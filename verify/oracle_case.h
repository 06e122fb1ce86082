/* SPDX-License-Identifier: Apache-2.0 */
/* A case (golden_case.h) computed by the oracle. */
#ifndef QSA_VERIFY_ORACLE_CASE_H
#define QSA_VERIFY_ORACLE_CASE_H

#include "oracle/oracle.h"
#include "verify/golden_case.h"

/* The same shape as the oracle's struct. It points to the norm weights of one layer, all four or those in use. */
oracle_shape oracle_shape_of(const qsa_config *config, const qsa_norm_weights *norms);

oracle_shape oracle_case_shape(const golden_case *c);              /* points into the case */
oracle_tokens oracle_case_tokens(const golden_case *c, int first); /* from token `first` on */

/* A run that was fed the whole case. It has pointers into itself: do not copy it. */
typedef struct oracle_case {
    oracle_shape shape;
    oracle_run run;
} oracle_case;

/* Close it whatever it returns. False: the oracle refuses a token. */
bool oracle_case_open(oracle_case *out, const golden_case *c, oracle_refusal *out_refusal);
void oracle_case_close(oracle_case *o);

#endif
