/* SPDX-License-Identifier: Apache-2.0 */
/* qsa bench: its command line. */
#include "bench/curves.h"
#include "bench/layers.h"
#include "bench/whole_model.h"
#include "cli/commands.h"
#include "console/device_option.h"
#include "console/options.h"

#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] =
    "usage: qsa bench [OPTION...]\n"
    "       qsa bench -m MODEL.gguf [--profile] [OPTION...]\n"
    "\n"
    "Measures decode (steps of 1 token) and prefill (steps of 256 tokens) by depth, the number of tokens already in\n"
    "the cache: the QSA layers of Qwen3.8-Flash-Next alone, or a whole model. The cache is filled with random data.\n"
    "\n"
    "A line has the median, min and max of its blocks, and the share of peak: the least time that this machine needs\n"
    "divided by the median. The peak is memory bandwidth for decode and FMA throughput for prefill, measured before\n"
    "and after every block; a block around which it changed by more than 10 % is dropped. The hexadecimal number is\n"
    "a hash of the output: any number of threads gives the same, and for layers alone any instruction set.\n"
    "\n"
    "  -m, --model FILE   the whole model in this GGUF file\n"
    "  --profile          with -m: time of each part of the model\n"
    "  --seconds N        about how long to measure, 1 to 3600, after filling the cache; default 150\n"
    "  --quick            same as --seconds 20\n"
    "  --json             one JSON object per line\n"
    "  --svg FILE         draws the curves by depth\n"
    "  -t, --threads N    1 to 1024; default 2\n"
    "  --kv TYPE          type of K and V: f32, bf16, f16 or q8_0; default bf16\n"
    "  --depths LIST      ascending multiples of 64 up to 1048576;\n"
    "                     default 0,2048,8192,32768,131072,262144\n"
    "  --layers N         1 to 64 QSA layers; default 12, as in the model\n"
    "  --device NAME      host (default), opencl or opencl:N, as `qsa devices` lists them; there is a peak for\n"
    "                     the host only\n"
    "  -h, --help         print this help\n";

/* ---- the command line ---- */

enum {
    OPTION_JSON = 256,
    OPTION_QUICK,
    OPTION_SECONDS,
    OPTION_SVG,
    OPTION_KV,
    OPTION_DEPTHS,
    OPTION_LAYERS,
    OPTION_DEVICE,
    OPTION_PROFILE
};
enum { MAX_DEPTH = 1 << 20, MAX_LAYERS = 64, MAX_SECONDS = 3600 };

/* What was given, beside the options of the benchmark. */
typedef struct request {
    bench_options bench;
    bool is_help, has_layers;
} request;

static bool parse_depths(const char *list, bench_options *o)
{
    o->n_depths = 0;
    for (const char *at = list;; at++) {
        char *stop;
        const bool is_digit = *at >= '0' && *at <= '9';
        const unsigned long value = is_digit ? strtoul(at, &stop, 10) : MAX_DEPTH + 1UL;
        const bool is_rising = o->n_depths == 0 || value > o->depths[o->n_depths - 1];
        if (value > MAX_DEPTH || value % QSA_PAGE_TOKENS != 0 || !is_rising || o->n_depths == BENCH_MAX_DEPTHS)
            break;
        o->depths[o->n_depths++] = (uint32_t)value;
        at = stop;
        if (*at == '\0')
            return true;
        if (*at != ',')
            break;
    }
    options_say("bench", "option --depths must be at most %d ascending multiples of %d up to %d, with commas, not '%s'",
                BENCH_MAX_DEPTHS, QSA_PAGE_TOKENS, MAX_DEPTH, list);
    return false;
}

/* False after saying what is wrong. */
static bool take(const options *o, int option, request *r)
{
    bench_options *b = &r->bench;
    int kv = (int)b->kv;
    switch (option) {
    case 't':
        return options_count(o, option, 1, QSA_MAX_PARTS, &b->threads);
    case OPTION_LAYERS:
        r->has_layers = true;
        return options_count(o, option, 1, MAX_LAYERS, &b->layers);
    case OPTION_SECONDS:
        return options_count(o, option, 1, MAX_SECONDS, &b->seconds);
    case OPTION_QUICK:
        b->seconds = BENCH_QUICK_SECONDS;
        return true;
    case OPTION_DEPTHS:
        return parse_depths(optarg, b);
    case OPTION_KV:
        if (!options_choice(o, option, bench_kv_names, &kv))
            return false;
        b->kv = (qsa_kv_type)kv;
        return true;
    case 'm':
        b->model = optarg;
        return true;
    case OPTION_DEVICE:
        b->device = optarg;
        return true;
    case OPTION_SVG:
        b->svg = optarg;
        return true;
    default:
        b->json |= option == OPTION_JSON;
        b->profile |= option == OPTION_PROFILE;
        r->is_help |= option == 'h';
        return option != '?';
    }
}

static bool parse(int argc, char **argv, request *r)
{
    static const struct option longs[] = {{"json", no_argument, NULL, OPTION_JSON},
                                          {"quick", no_argument, NULL, OPTION_QUICK},
                                          {"seconds", required_argument, NULL, OPTION_SECONDS},
                                          {"profile", no_argument, NULL, OPTION_PROFILE},
                                          {"svg", required_argument, NULL, OPTION_SVG},
                                          {"kv", required_argument, NULL, OPTION_KV},
                                          {"depths", required_argument, NULL, OPTION_DEPTHS},
                                          {"layers", required_argument, NULL, OPTION_LAYERS},
                                          {"device", required_argument, NULL, OPTION_DEVICE},
                                          {"model", required_argument, NULL, 'm'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const options o = {"bench", argc, argv, "m:t:h", longs, NULL};
    *r = (request){.is_help = false};
    bench_options_init(&r->bench);
    for (int option; (option = options_next(&o)) != -1;)
        if (!take(&o, option, r))
            return false;
    if (r->is_help)
        return true;
    if (r->bench.profile && !r->bench.model)
        options_say("bench", "--profile needs a model (-m)");
    else if (r->has_layers && r->bench.model)
        options_say("bench", "--layers and -m do not go together");
    else
        return true;
    return false;
}

int cmd_bench(int argc, char **argv)
{
    request r;
    if (!parse(argc, argv, &r))
        return EXIT_USAGE;
    if (r.is_help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    if (r.bench.device && !device_choose("bench", r.bench.device))
        return EXIT_FAILURE;
    if (!bench_curves_writable(&r.bench))
        return EXIT_FAILURE;
    return (r.bench.model ? bench_run_model(&r.bench) : bench_run_layers(&r.bench)) ? EXIT_SUCCESS : EXIT_FAILURE;
}
