/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the subcommands, on getopt_long: whatever is wrong is said in one line on stderr, and the command exits
 * with 2. */
#ifndef QSA_CONSOLE_OPTIONS_H
#define QSA_CONSOLE_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

enum { EXIT_USAGE = 2 };

typedef struct options {
    const char *command; /* for messages: "run" */
    int argc;
    char **argv;
    const char *shorts;          /* as getopt's, without a leading colon */
    const struct option *longs;  /* a letter as val has that short option, too */
    const char *const *operands; /* names of the arguments that are no options; NULL ends; NULL: none */
} options;

/* The val of the next option, -1 at the end of a good command line, '?' after saying what is wrong. */
int options_next(const options *o);

/* The argument of the option just returned. False after saying what is wrong. */
bool options_integer(const options *o, int option, int64_t least, int64_t most, int64_t *out);
bool options_count(const options *o, int option, uint32_t least, uint32_t most, uint32_t *out);
bool options_number(const options *o, int option, double least, double most, float *out);

/* A name of a file: not empty, which is a script's unset variable. It belongs to argv. */
bool options_path(const options *o, int option, const char **out);

/* One of choices (NULL ends); *out is its index. */
bool options_choice(const options *o, int option, const char *const *choices, int *out);

/* Prints `qsa COMMAND: text` and a line break on stderr. */
void options_say(const char *command, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#endif
