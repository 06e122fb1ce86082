/* From a recorded case to an oracle run that has been fed all of its tokens. */
#ifndef ORACLE_CASE_H
#define ORACLE_CASE_H

#include "oracle/oracle.h"
#include "verify/golden_case.h"

oracle_shape oracle_case_shape(const golden_case *c);              /* points into the case */
oracle_tokens oracle_case_tokens(const golden_case *c, int first); /* from token `first` on */

/* The shape must outlive the run. Fails the test if a token is refused. */
void oracle_case_run(const golden_case *c, const oracle_shape *shape, oracle_run *out_run);

#endif
