/* SPDX-License-Identifier: Apache-2.0 */
/* The options of commands that sample: how the next token is chosen, and what ends the text. */
#ifndef QSA_CONSOLE_SAMPLING_OPTIONS_H
#define QSA_CONSOLE_SAMPLING_OPTIONS_H

#include "console/engine_options.h"
#include "console/generation.h"
#include "console/options.h"

enum {
    SAMPLING_TEMP = ENGINE_OPTION_END,
    SAMPLING_TOP_K,
    SAMPLING_TOP_P,
    SAMPLING_MIN_P,
    SAMPLING_SEED,
    SAMPLING_REPEAT,
    SAMPLING_LAST,
    SAMPLING_PRESENCE,
    SAMPLING_FREQUENCY,
    SAMPLING_BIAS,
    SAMPLING_STOP,
    SAMPLING_IGNORE_EOS,
    SAMPLING_SHOW_CONTROLS,
    SAMPLING_OPTION_END
};

/* clang-format off */
#define SAMPLING_OPTIONS                                                                                               \
    {"temp", required_argument, NULL, SAMPLING_TEMP}, {"top-k", required_argument, NULL, SAMPLING_TOP_K},              \
    {"top-p", required_argument, NULL, SAMPLING_TOP_P}, {"min-p", required_argument, NULL, SAMPLING_MIN_P},            \
    {"seed", required_argument, NULL, SAMPLING_SEED}, {"repeat-penalty", required_argument, NULL, SAMPLING_REPEAT},    \
    {"repeat-last-n", required_argument, NULL, SAMPLING_LAST},                                                         \
    {"presence-penalty", required_argument, NULL, SAMPLING_PRESENCE},                                                  \
    {"frequency-penalty", required_argument, NULL, SAMPLING_FREQUENCY},                                                \
    {"logit-bias", required_argument, NULL, SAMPLING_BIAS}, {"stop", required_argument, NULL, SAMPLING_STOP},          \
    {"ignore-eos", no_argument, NULL, SAMPLING_IGNORE_EOS},                                                            \
    {"show-controls", no_argument, NULL, SAMPLING_SHOW_CONTROLS}
/* clang-format on */

extern const char SAMPLING_USAGE[];

/* What these options would be on a command line: "--temp 1 --top-k 20"; "" for the defaults. */
enum { SAMPLING_WORDS = 200 };
const char *sampling_words(const qsa_sampler_options *sampler, char out[SAMPLING_WORDS]);

/* What the model's file recommends, for options that were not given; says so on standard error. */
void sampling_take_recommended(const char *command, const qsa_model *model, generation_options *g);

/* 1: taken; 0: not an option of these; -1: wrong, which was said. Lists in g are freed by sampling_options_free. */
int sampling_option(const options *o, int option, generation_options *g);
void sampling_options_free(generation_options *g);

#endif
