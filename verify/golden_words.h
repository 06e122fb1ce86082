/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the golden text format as numbers. */
#ifndef QSA_VERIFY_GOLDEN_WORDS_H
#define QSA_VERIFY_GOLDEN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a hexadecimal digit, -1 for any other character. */
int golden_hex_digit(char c);

/* The whole word must be the number, without a superfluous sign. False if it is not. */
bool golden_parse_hex(const char *word, size_t least_digits, size_t most_digits, uint64_t *out);
bool golden_parse_integer(const char *word, int64_t *out);
bool golden_parse_number(const char *word, double *out); /* finite; 2^N, |N| <= 1000, too */

#endif
