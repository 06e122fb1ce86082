/* SPDX-License-Identifier: Apache-2.0 */
/* How a byte-level vocabulary writes a byte: as one printable character. */
#ifndef QSA_ENGINE_MAKE_ALPHABET_H
#define QSA_ENGINE_MAKE_ALPHABET_H

#include <stdint.h>

enum { ALPHABET_LETTER_BYTES = 2 }; /* at most, of one byte's character */

/* Appends the character of a byte as UTF-8 and a terminator; returns the new end. */
char *alphabet_append(char *end, uint32_t byte);

#endif
