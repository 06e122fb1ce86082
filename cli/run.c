/* SPDX-License-Identifier: Apache-2.0 */
/* qsa run: reads a prompt and generates its continuation. */
#include "console/run.h"
#include "cli/commands.h"
#include "console/engine_options.h"
#include "console/plan_table.h"
#include "console/sampling_options.h"

#include <stdio.h>
#include <stdlib.h>

const bool has_engine = true;

static const char COMMAND[] = "run";
enum { DEFAULT_TOKENS = 256 };

enum { OPTION_WEIGHTS = SAMPLING_OPTION_END, OPTION_SPECIALS, OPTION_LOAD, OPTION_SAVE };

static const struct option LONGS[] = {{"model", required_argument, NULL, 'm'},
                                      {"file", required_argument, NULL, 'f'},
                                      {"prompt", required_argument, NULL, 'p'},
                                      {"tokens", required_argument, NULL, 'n'},
                                      {"context", required_argument, NULL, 'c'},
                                      {"weights", required_argument, NULL, OPTION_WEIGHTS},
                                      {"specials", no_argument, NULL, OPTION_SPECIALS},
                                      {"load", required_argument, NULL, OPTION_LOAD},
                                      {"save", required_argument, NULL, OPTION_SAVE},
                                      {"help", no_argument, NULL, 'h'},
                                      ENGINE_OPTIONS,
                                      SAMPLING_OPTIONS,
                                      {NULL, 0, NULL, 0}};

static void print_usage(void)
{
    fputs(
        "usage: qsa run [-m MODEL.gguf] [-f FILE] [-p TEXT] [--load FILE] [--save FILE] [OPTION...]\n"
        "\n"
        "Reads a prompt, the file and then the text, and generates its continuation. Standard output receives the\n"
        "generated text and nothing else; rates, memory and the share of tokens attended to go to standard error.\n"
        "\n"
        "  -m, --model FILE    GGUF file of architecture qwen4exp, or the first of its shards; default: the built-in\n"
        "                      model, which continues text that it has read\n"
        "  -f, --file FILE     prompt from a file; - for standard input\n"
        "  -p, --prompt TEXT   prompt, after that of --file\n"
        "      --load FILE     resume a saved session; the prompt, if any, follows what it holds\n"
        "      --save FILE     save the session at the end, whatever ended it: a signal, a closed\n"
        "                      pipe, an error\n"
        "  -n, --tokens N      tokens to generate, 0 to 2147483647; default 256\n"
        "  -c, --context N     capacity of the cache in tokens, 1 to the model's context; max: the largest that fits\n"
        "                      into memory; default: what the run needs\n",
        stdout);
    fputs(ENGINE_OPTIONS_USAGE, stdout);
    fputs("      --weights KIND  native (default): mapped as they are in the file; f32: dequantised when loaded\n"
          "      --specials      recognise special tokens, such as <|im_end|>, in the prompt\n"
          "  -h, --help          print this help\n",
          stdout);
    fputs(SAMPLING_USAGE, stdout);
}

static bool take_option(const options *o, int option, run_request *r)
{
    static const char *const kinds[] = {"native", "f32", NULL};
    int kind = 0;
    switch (option) {
    case 'm':
        return options_path(o, option, &r->model);
    case 'f':
        return options_path(o, option, &r->file);
    case 'p':
        r->text = optarg;
        return true;
    case 'n':
        return options_count(o, option, 0, INT32_MAX, &r->tokens);
    case 'c':
        return plan_option_context(o, option, &r->generation.context.context);
    case OPTION_SPECIALS:
        r->recognises_specials = true;
        return true;
    case OPTION_LOAD:
        return options_path(o, option, &r->generation.load);
    case OPTION_SAVE:
        return options_path(o, option, &r->save);
    case OPTION_WEIGHTS:
        if (!options_choice(o, option, kinds, &kind))
            return false;
        r->weights = kind == 0 ? QSA_WEIGHTS_NATIVE : QSA_WEIGHTS_F32;
        return true;
    default:
        return sampling_option(o, option, &r->generation) > 0;
    }
}

static bool parse(int argc, char **argv, run_request *r, bool *out_help)
{
    const options o = {COMMAND, argc, argv, "m:f:p:n:c:t:h", LONGS, NULL};
    *r = (run_request){.tokens = DEFAULT_TOKENS};
    *out_help = false;
    engine_options_init(&r->generation.context);
    qsa_sampler_options_init(&r->generation.sampler);
    for (int option; (option = options_next(&o)) != -1;) {
        *out_help = *out_help || option == 'h';
        if (option == 'h')
            continue;
        if (option == '?')
            return false;
        int taken = engine_option(&o, option, &r->generation.context);
        if (taken < 0 || (taken == 0 && !take_option(&o, option, r)))
            return false;
    }
    if (!*out_help && !r->file && !r->text && !r->generation.load) {
        options_say(COMMAND, "nothing to read: give a prompt with -f or -p, or a saved session with --load");
        return false;
    }
    if (!r->generation.load && !r->save)
        r->generation.context.checkpoints = 0; /* nothing here goes back */
    return true;
}

int cmd_run(int argc, char **argv)
{
    run_request r;
    bool help;
    int status = EXIT_USAGE;
    if (parse(argc, argv, &r, &help)) {
        if (help)
            print_usage();
        status = help ? EXIT_SUCCESS : run_execute(&r);
    }
    sampling_options_free(&r.generation);
    return status;
}
