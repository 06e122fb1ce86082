/* SPDX-License-Identifier: Apache-2.0 */
/* qsa make: writes a model file with the released shapes and random weights, to measure memory and speed. */
#include "cli/commands.h"
#include "console/clock.h"
#include "console/engine_options.h"
#include "console/interrupts.h"
#include "console/output_target.h"
#include "console/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char COMMAND[] = "make";

/* ---- the command line ---- */

static const char USAGE[] =
    "usage: qsa make [OPTION...] MODEL.gguf\n"
    "\n"
    "Writes a model with the layer shapes of Qwen3.8-Flash-Next and random weights, to measure memory and speed. Its\n"
    "text is noise. The file appears under its name when it is complete.\n"
    "\n"
    "      --layers N      layers, 4 to 1024, every fourth a QSA layer; default 4\n"
    "      --experts N     experts per layer, 10 to 4096; default 16\n"
    "      --vocabulary N  tokens, 1024 to 248320; default 8192\n"
    "      --type TYPE     types of the matrices. One for all large ones: q8_0 (default), q4_0, bf16, f16 or f32. Or "
    "a\n"
    "                      mixture as published files have it, where the type depends on what the matrix is, its\n"
    "                      layer and the length of its rows: q3_k_m, q4_k_m, q5_k_m, q6_k or iq4_xs. (q4_k_m: most "
    "are\n"
    "                      q4_K; attn_v and ffn_down q6_K in about half of the layers; rows of 640 are q5_1 and q8_0\n"
    "                      in their place; head q6_K, n-gram table iq4_nl)\n"
    "      --ngram-rows N  rows of the n-gram table, about; default 16 per token, the released model has 320000000\n"
    "      --shards N      files, up to 99: MODEL-00001-of-0000N.gguf has the keys, the others tensors; default 1\n"
    "      --seed N        seed of the weights; default 1\n"
    "  -h, --help          print this help\n"
    "\n"
    "The default takes about 0.8 GB. The size of the released model: --layers 48 --experts 512 --vocabulary 248320.\n";

typedef struct request {
    qsa_random_model model;
    const char *path;
    bool help;
} request;

enum {
    OPTION_LAYERS = ENGINE_OPTION_END,
    OPTION_EXPERTS,
    OPTION_VOCABULARY,
    OPTION_TYPE,
    OPTION_NGRAM,
    OPTION_SHARDS,
    OPTION_SEED
};

static bool take_option(const options *o, int option, request *r)
{
    const char *types[QSA_RANDOM_TYPE_COUNT + 1] = {NULL};
    for (int i = 0; i < QSA_RANDOM_TYPE_COUNT; i++)
        types[i] = qsa_random_type_name((qsa_random_type)i);
    int choice = 0;
    int64_t seed = 0;
    switch (option) {
    case OPTION_LAYERS:
        return options_count(o, option, 4, 1024, &r->model.layers);
    case OPTION_EXPERTS:
        return options_count(o, option, 10, 4096, &r->model.experts);
    case OPTION_VOCABULARY:
        return options_count(o, option, 1024, 248320, &r->model.vocabulary);
    case OPTION_NGRAM:
        return options_count(o, option, 1024, 2000000000, &r->model.ngram_rows);
    case OPTION_SHARDS:
        return options_count(o, option, 1, 99, &r->model.shards);
    case OPTION_TYPE:
        if (!options_choice(o, option, types, &choice))
            return false;
        r->model.type = (qsa_random_type)choice;
        return true;
    case OPTION_SEED:
        if (!options_integer(o, option, 0, INT64_MAX, &seed))
            return false;
        r->model.seed = (uint64_t)seed;
        return true;
    default:
        r->help = true;
        return true;
    }
}

static bool parse(int argc, char **argv, request *r)
{
    static const struct option longs[] = {{"layers", required_argument, NULL, OPTION_LAYERS},
                                          {"experts", required_argument, NULL, OPTION_EXPERTS},
                                          {"vocabulary", required_argument, NULL, OPTION_VOCABULARY},
                                          {"type", required_argument, NULL, OPTION_TYPE},
                                          {"ngram-rows", required_argument, NULL, OPTION_NGRAM},
                                          {"shards", required_argument, NULL, OPTION_SHARDS},
                                          {"seed", required_argument, NULL, OPTION_SEED},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    static const char *const operands[] = {"model file", NULL};
    const options o = {COMMAND, argc, argv, "h", longs, operands};
    *r = (request){0};
    qsa_random_model_init(&r->model);
    for (int option; !r->help && (option = options_next(&o)) != -1;)
        if (option == '?' || !take_option(&o, option, r))
            return false;
    r->path = r->help ? NULL : argv[optind];
    return true;
}

/* ---- writing ---- */

static bool go_on(void *user, uint64_t written, uint64_t bytes)
{
    const double *begin = user;
    progress_show_bytes(written, bytes, clock_seconds() - *begin);
    return interrupts_caught == 0;
}

static int write_model(const request *r)
{
    const output_target target = {COMMAND, r->path, "GGUF", "model file", NULL};
    double begin = clock_seconds();
    if (!output_target_check(&target))
        return EXIT_FAILURE;
    interrupts_catch();
    if (qsa_random_model_write(r->path, &r->model, go_on, &begin) != QSA_OK) {
        engine_say(COMMAND);
        return interrupts_caught ? EXIT_SIGNAL + interrupts_caught : EXIT_FAILURE;
    }
    if (r->model.shards > 1)
        printf("%s: written in %.1f s, in %" PRIu32 " files\n", r->path, clock_seconds() - begin, r->model.shards);
    else
        printf("%s: written in %.1f s\n", r->path, clock_seconds() - begin);
    return EXIT_SUCCESS;
}

int cmd_make(int argc, char **argv)
{
    request r;
    if (!parse(argc, argv, &r))
        return EXIT_USAGE;
    if (r.help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    return write_model(&r);
}
