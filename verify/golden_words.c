/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/golden_words.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int golden_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool golden_parse_hex(const char *word, size_t least_digits, size_t most_digits, uint64_t *out)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; word[digits]; digits++) {
        int digit = golden_hex_digit(word[digits]);
        if (digit < 0 || digits == most_digits)
            return false;
        value = value * 16 + (uint64_t)digit;
    }
    *out = value;
    return digits >= least_digits;
}

bool golden_parse_integer(const char *word, int64_t *out)
{
    if (word[0] != '-' && (word[0] < '0' || word[0] > '9'))
        return false; /* strtoll would accept spaces and a plus sign */
    char *stop;
    errno = 0;
    *out = strtoll(word, &stop, 10);
    return errno == 0 && stop != word && *stop == '\0';
}

bool golden_parse_number(const char *word, double *out)
{
    int64_t exponent;
    if (strncmp(word, "2^", 2) == 0) {
        if (!golden_parse_integer(word + 2, &exponent) || exponent < -1000 || exponent > 1000)
            return false;
        *out = ldexp(1.0, (int)exponent);
        return true;
    }
    if (word[strspn(word, "0123456789.eE+-")] != '\0')
        return false; /* no inf, nan or hexadecimal */
    char *stop;
    *out = strtod(word, &stop);
    return stop != word && *stop == '\0' && isfinite(*out);
}
