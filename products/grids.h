/* SPDX-License-Identifier: Apache-2.0 */
/* The code books of the iq formats: constants of GGUF files, packed. Weight i of an entry is the number that its code
 * stands for, code = entry >> (bits * i):
 *   qsa_grid_iq2_*    8 weights of 2 bits: 8, 25, 43
 *   qsa_grid_iq3_xxs  4 weights of 3 bits: 4, 12, 20, 28, 36, 44, 52, 62
 *   qsa_grid_iq3_s    4 weights of 3 bits: 1, 3, 5, 7, 9, 11, 13, 15
 *   qsa_grid_iq1      8 weights of 2 bits: -1, 0, 1
 * A zero follows the last entry: gathers read two at a time. */
#ifndef QSA_PRODUCTS_GRIDS_H
#define QSA_PRODUCTS_GRIDS_H

#include <stdint.h>

extern const uint16_t qsa_grid_iq2_xxs[256 + 1];
extern const uint16_t qsa_grid_iq2_xs[512 + 1];
extern const uint16_t qsa_grid_iq2_s[1024 + 1];
extern const uint16_t qsa_grid_iq3_xxs[256 + 1];
extern const uint16_t qsa_grid_iq3_s[512 + 1];
extern const uint16_t qsa_grid_iq1[2048 + 1];

#endif
