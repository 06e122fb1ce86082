/* SPDX-License-Identifier: Apache-2.0 */
#include "console/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of files, options and tensors come from outside: they must not break the line or steer the terminal. */
void options_say(const char *command, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "qsa %s: %s\n", command, line);
}

/* An option as the user wrote it: --temp where the word just read begins so, otherwise -t. */
static const char *name_of(const options *o, int option, char *buffer, size_t size)
{
    const int word = optind - (optarg && optind > 1 && optarg == o->argv[optind - 1] ? 2 : 1);
    const bool is_long = word > 0 && strncmp(o->argv[word], "--", 2) == 0;
    if (!is_long && option < 256 && isalnum(option)) {
        snprintf(buffer, size, "-%c", option);
        return buffer;
    }
    for (const struct option *l = o->longs; l->name; l++)
        if (l->val == option)
            snprintf(buffer, size, "--%s", l->name);
    return buffer;
}

/* getopt_long gives '?' for an unknown option and ':' for a missing argument; in optopt stands a letter, the val of a
 * long option, or 0. */
static void say_wrong(const options *o, int found)
{
    char buffer[64] = "";
    const char *word = o->argv[optind - 1];
    if (found == ':')
        options_say(o->command, "option %s needs a value", name_of(o, optopt, buffer, sizeof buffer));
    else if (optopt != 0 && strncmp(word, "--", 2) == 0)
        options_say(o->command, "option %s takes no value", name_of(o, optopt, buffer, sizeof buffer));
    else if (optopt != 0)
        options_say(o->command, "unknown option '-%c'; `qsa %s --help` lists them", isprint(optopt) ? optopt : '?',
                    o->command);
    else
        options_say(o->command, "unknown option '%s'; `qsa %s --help` lists them", word, o->command);
}

static bool takes_model(const options *o)
{
    return strchr(o->shorts, 'm') && strchr(o->shorts, 'p');
}

static int check_operands(const options *o)
{
    static const char *const none[] = {NULL};
    const char *const *operands = o->operands ? o->operands : none;
    int wanted = 0;
    while (operands[wanted])
        wanted++;
    int given = o->argc - optind;
    if (given < wanted)
        options_say(o->command, "no %s given", operands[given]);
    else if (given > wanted)
        options_say(o->command, "'%s' is one argument too many%s", o->argv[optind + wanted],
                    takes_model(o) ? "; a model file is given with -m, text with -p or -f" : "");
    return given == wanted ? -1 : '?';
}

int options_next(const options *o)
{
    char shorts[64];
    snprintf(shorts, sizeof shorts, ":%s", o->shorts);
    opterr = 0;
    int found = getopt_long(o->argc, o->argv, shorts, o->longs, NULL);
    if (found == '?' || found == ':') {
        say_wrong(o, found);
        return '?';
    }
    return found == -1 ? check_operands(o) : found;
}

bool options_integer(const options *o, int option, int64_t least, int64_t most, int64_t *out)
{
    char buffer[64] = "", *stop;
    errno = 0;
    long long value = strtoll(optarg, &stop, 10);
    bool is_number = stop != optarg && *stop == '\0' && !isspace((unsigned char)optarg[0]) && optarg[0] != '+';
    if (is_number && errno == 0 && value >= least && value <= most) {
        *out = value;
        return true;
    }
    options_say(o->command, "option %s must be a whole number from %" PRId64 " to %" PRId64 ", not '%s'",
                name_of(o, option, buffer, sizeof buffer), least, most, optarg);
    return false;
}

bool options_count(const options *o, int option, uint32_t least, uint32_t most, uint32_t *out)
{
    int64_t value;
    if (!options_integer(o, option, least, most, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

bool options_number(const options *o, int option, double least, double most, float *out)
{
    char buffer[64] = "", *stop;
    double value = strtod(optarg, &stop);
    bool is_number = stop != optarg && *stop == '\0' && optarg[strspn(optarg, "0123456789.eE+-")] == '\0';
    if (is_number && isfinite(value) && value >= least && value <= most) {
        *out = (float)value;
        return true;
    }
    options_say(o->command, "option %s must be a number from %g to %g, not '%s'",
                name_of(o, option, buffer, sizeof buffer), least, most, optarg);
    return false;
}

bool options_path(const options *o, int option, const char **out)
{
    char buffer[64] = "";
    *out = optarg;
    if (optarg[0] == '\0')
        options_say(o->command, "option %s must name a file, not ''", name_of(o, option, buffer, sizeof buffer));
    return optarg[0] != '\0';
}

bool options_choice(const options *o, int option, const char *const *choices, int *out)
{
    for (int i = 0; choices[i]; i++)
        if (strcmp(optarg, choices[i]) == 0) {
            *out = i;
            return true;
        }
    char buffer[64] = "", list[128] = "";
    size_t used = 0;
    for (int i = 0; choices[i]; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 i == 0           ? ""
                                 : choices[i + 1] ? ", "
                                                  : " or ",
                                 choices[i]);
    options_say(o->command, "option %s must be %s, not '%s'", name_of(o, option, buffer, sizeof buffer), list, optarg);
    return false;
}
