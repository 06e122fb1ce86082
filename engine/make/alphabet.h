/* SPDX-License-Identifier: Apache-2.0 */
/* The byte-level alphabet of GPT-2: writes each byte as one printable character. */
#ifndef QSA_ENGINE_MAKE_ALPHABET_H
#define QSA_ENGINE_MAKE_ALPHABET_H

#include <stdint.h>

enum { ALPHABET_LETTER_BYTES = 2 }; /* the longest character, in UTF-8 */

/* Appends the character of a byte (0 to 255) as UTF-8, and a NUL; returns the new end. */
char *alphabet_append(char *end, uint32_t byte);

#endif
