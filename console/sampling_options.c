/* SPDX-License-Identifier: Apache-2.0 */
/* Options of sampling, from the command line. */
#include "console/sampling_options.h"

#include "console/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char SAMPLING_USAGE[] =
    "\nChoosing the next token. Defaults are those below, or what the model's file recommends.\n"
    "      --temp X        temperature, 0 to 1000; default 0: always the most likely token\n"
    "      --top-k N       choose among the N most likely tokens; default 0: all\n"
    "      --top-p X       among the most likely tokens whose probabilities add up to X, above 0 to 1; default 1: all\n"
    "      --min-p X       among tokens at least X times as likely as the most likely one, 0 to 1; default 0: all\n"
    "      --seed N        seed of the random numbers; default 0, with --load the saved state\n"
    "      --repeat-penalty X     recent tokens: divide positive logits by X, multiply others by X; above 0 to 100;\n"
    "                             default 1: none\n"
    "      --presence-penalty X   lower the logits of recent tokens by X, -100 to 100; default 0\n"
    "      --frequency-penalty X  lower them by X for each time the token occurs, -100 to 100; default 0\n"
    "      --repeat-last-n N      recent tokens are the last N of prompt and answer, 0 to 16777216; default 64\n"
    "      --logit-bias ID+X      add X to the logit of token ID; ID-X subtracts, ID-inf forbids the token; "
    "repeatable\n"
    "\nEnding the text.\n"
    "      --stop TEXT     end before this text, which is not written; repeatable\n"
    "      --ignore-eos    never choose a token that ends the text\n"
    "      --show-controls write control tokens, such as <|im_end|>, too\n";

static bool add_stop(const options *o, generation_options *g)
{
    if (optarg[0] == '\0') {
        options_say(o->command, "option --stop must be a text, not ''");
        return false;
    }
    const char **all = memory_new(g->n_stops + 1, sizeof *all);
    for (size_t i = 0; i < g->n_stops; i++)
        all[i] = g->stops[i];
    all[g->n_stops] = optarg;
    free((void *)(uintptr_t)g->stops);
    g->stops = all;
    g->n_stops++;
    return true;
}

/* "15043-1.5", "2+inf". Returns false if it is none. */
static bool read_bias(const char *text, qsa_logit_bias *out)
{
    char *sign, *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    const unsigned long token = strtoul(text, &sign, 10);
    if (token > INT32_MAX || (*sign != '+' && *sign != '-'))
        return false;
    out->token = (int32_t)token;
    if (strcmp(sign, "-inf") == 0) {
        out->bias = -INFINITY;
        return true;
    }
    if (sign[1] < '0' || sign[1] > '9')
        return false;
    out->bias = strtof(sign, &end);
    return *end == '\0' && isfinite(out->bias);
}

static bool add_bias(const options *o, generation_options *g)
{
    qsa_sampler_options *s = &g->sampler;
    qsa_logit_bias bias;
    if (!read_bias(optarg, &bias)) {
        options_say(o->command, "option --logit-bias must be ID+X, ID-X or ID-inf, not '%s'", optarg);
        return false;
    }
    qsa_logit_bias *all = memory_new(s->bias_count + 1, sizeof *all);
    if (s->bias_count > 0)
        memcpy(all, s->biases, s->bias_count * sizeof *all);
    all[s->bias_count] = bias;
    free((void *)(uintptr_t)s->biases);
    s->biases = all;
    s->bias_count++;
    return true;
}

static bool positive(const options *o, int option, const char *name, float most, float *out)
{
    if (!options_number(o, option, 0, (double)most, out))
        return false;
    if (*out == 0)
        options_say(o->command, "option %s must be above 0", name);
    return *out > 0;
}

static bool take_seed(const options *o, int option, generation_options *g)
{
    int64_t seed;
    if (!options_integer(o, option, 0, INT64_MAX, &seed))
        return false;
    g->sampler.seed = (uint64_t)seed;
    g->has_seed = true;
    return true;
}

static bool take(const options *o, int option, generation_options *g)
{
    qsa_sampler_options *s = &g->sampler;
    switch (option) {
    case SAMPLING_TEMP:
        return options_number(o, option, 0, 1000, &s->temperature);
    case SAMPLING_TOP_K:
        return options_count(o, option, 0, INT32_MAX, &s->top_k);
    case SAMPLING_TOP_P:
        return positive(o, option, "--top-p", 1, &s->top_p);
    case SAMPLING_MIN_P:
        return options_number(o, option, 0, 1, &s->min_p);
    case SAMPLING_SEED:
        return take_seed(o, option, g);
    case SAMPLING_REPEAT:
        return positive(o, option, "--repeat-penalty", 100, &s->repeat_penalty);
    case SAMPLING_LAST:
        return options_count(o, option, 0, 1 << 24, &s->penalty_tokens);
    case SAMPLING_PRESENCE:
        return options_number(o, option, -100, 100, &s->presence_penalty);
    case SAMPLING_FREQUENCY:
        return options_number(o, option, -100, 100, &s->frequency_penalty);
    case SAMPLING_BIAS:
        return add_bias(o, g);
    case SAMPLING_STOP:
        return add_stop(o, g);
    case SAMPLING_IGNORE_EOS:
        return g->ignores_ends = true;
    default:
        return g->shows_controls = true;
    }
}

int sampling_option(const options *o, int option, generation_options *g)
{
    if (option < SAMPLING_TEMP || option >= SAMPLING_OPTION_END)
        return 0;
    if (!take(o, option, g))
        return -1;
    g->given |= 1u << (option - SAMPLING_TEMP);
    return 1;
}

static size_t add_number(char *out, size_t n, const char *option, float value, float usual)
{
    if (value == usual || n >= SAMPLING_WORDS)
        return n;
    const int digits = value == (float)(int)value ? 9 : 6; /* counts in full; 0.95, not 0.949999988 */
    return n +
           (size_t)snprintf(out + n, SAMPLING_WORDS - n, "%s%s %.*g", n > 0 ? " " : "", option, digits, (double)value);
}

const char *sampling_words(const qsa_sampler_options *s, char out[SAMPLING_WORDS])
{
    qsa_sampler_options usual;
    size_t n = 0;
    qsa_sampler_options_init(&usual);
    out[0] = '\0';
    n = add_number(out, n, "--temp", s->temperature, usual.temperature);
    n = add_number(out, n, "--top-k", (float)s->top_k, (float)usual.top_k);
    n = add_number(out, n, "--top-p", s->top_p, usual.top_p);
    n = add_number(out, n, "--min-p", s->min_p, usual.min_p);
    n = add_number(out, n, "--repeat-penalty", s->repeat_penalty, usual.repeat_penalty);
    (void)add_number(out, n, "--repeat-last-n", (float)s->penalty_tokens, (float)usual.penalty_tokens);
    return out;
}

static bool is_given(const generation_options *g, int option)
{
    return g->given >> (option - SAMPLING_TEMP) & 1;
}

void sampling_take_recommended(const char *command, const qsa_model *model, generation_options *g)
{
    qsa_sampler_options *s = &g->sampler, file, usual;
    char words[SAMPLING_WORDS];
    if (!qsa_model_get_sampling(model, &file))
        return;
    qsa_sampler_options_init(&usual);
    /* An option that was given stays, and is not said. */
#define TAKE(option, field)                                                                                            \
    do {                                                                                                               \
        if (is_given(g, option))                                                                                       \
            file.field = usual.field;                                                                                  \
        else                                                                                                           \
            s->field = file.field;                                                                                     \
    } while (0)
    TAKE(SAMPLING_TEMP, temperature);
    TAKE(SAMPLING_TOP_K, top_k);
    TAKE(SAMPLING_TOP_P, top_p);
    TAKE(SAMPLING_MIN_P, min_p);
    TAKE(SAMPLING_REPEAT, repeat_penalty);
    TAKE(SAMPLING_LAST, penalty_tokens);
#undef TAKE
    if (sampling_words(&file, words)[0])
        options_say(command, "sampling as the file recommends: %s", words);
}

void sampling_options_free(generation_options *g)
{
    free((void *)(uintptr_t)g->stops);
    free((void *)(uintptr_t)g->sampler.biases);
    g->stops = NULL;
    g->sampler.biases = NULL;
}
