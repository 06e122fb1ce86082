/* SPDX-License-Identifier: Apache-2.0 */
/* Largest magnitudes of input; larger numbers are refused where they enter (SPEC section 6, rule 7). */
#ifndef QSA_BASE_LIMITS_H
#define QSA_BASE_LIMITS_H

#define QSA_INPUT_LIMIT 0x1p56f  /* projections */
#define QSA_WEIGHT_LIMIT 0x1p40f /* norm weights */

#endif
