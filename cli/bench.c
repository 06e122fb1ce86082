/* SPDX-License-Identifier: Apache-2.0 */
/* qsa bench: what QSA costs on this machine by depth, beside what the machine can do at best, measured in the same run.
 */
#include "bench/bench.h"

#include "cli/commands.h"
#include "console/device_option.h"
#include "console/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: qsa bench [OPTION...]\n"
    "       qsa bench -m MODEL.gguf [--profile] [OPTION...]\n"
    "\n"
    "Measures decode (one token) and prefill (256 tokens) by depth: the QSA layers of Qwen3.8-Flash-Next alone, or a\n"
    "whole model. The history of each depth is made up, directly in the cache. Beside each figure stands what the\n"
    "machine can do at best, probed before and after every block of it: reading memory for decode, multiply-adds for\n"
    "prefill. ratio is the time that takes divided by ours. Blocks around which the probe moved by more than a tenth\n"
    "are dropped. The number in hexadecimal is the hash of the output: the same on any threads, of layers alone on\n"
    "any kernels.\n"
    "\n"
    "  -m, --model FILE   the whole model\n"
    "  --profile          with -m: the share of each part of the model\n"
    "  --seconds N        about how long to measure, 1 to 3600, besides making the history; default 150\n"
    "  --quick            as --seconds 20\n"
    "  --json             one JSON object per line\n"
    "  --svg FILE         draws the curves\n"
    "  -t, --threads N    1 to 1024; default 2\n"
    "  --kv TYPE          f32, bf16, f16 or q8_0; default bf16\n"
    "  --depths LIST      tokens before what is measured, ascending multiples of 64 up to 1048576;\n"
    "                     default 0,2048,8192,32768,131072,262144\n"
    "  --layers N         1 to 64 QSA layers; default 12, as in the model\n"
    "  --device NAME      host (default), opencl or opencl:N, as `qsa devices` lists them; only the host\n"
    "                     has limits to compare with\n"
    "  -h, --help         this text\n";

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
enum { MOST_DEPTH = 1 << 20, MOST_LAYERS = 64, SECONDS = 150, QUICK_SECONDS = 20, MOST_SECONDS = 3600 };

static const uint32_t DEPTHS[] = {0, 2048, 8192, 32768, 131072, 262144};

static bool parse_depths(const char *list, bench_request *r)
{
    r->n_depths = 0;
    for (const char *at = list;; at++) {
        char *stop;
        const bool is_digit = *at >= '0' && *at <= '9';
        const unsigned long value = is_digit ? strtoul(at, &stop, 10) : MOST_DEPTH + 1UL;
        const bool is_rising = r->n_depths == 0 || value > r->depths[r->n_depths - 1];
        if (value > MOST_DEPTH || value % QSA_PAGE_TOKENS != 0 || !is_rising || r->n_depths == BENCH_MAX_DEPTHS)
            break;
        r->depths[r->n_depths++] = (uint32_t)value;
        at = stop;
        if (*at == '\0')
            return true;
        if (*at != ',')
            break;
    }
    options_say("bench", "option --depths must be at most %d ascending multiples of %d up to %d, with commas, not '%s'",
                BENCH_MAX_DEPTHS, QSA_PAGE_TOKENS, MOST_DEPTH, list);
    return false;
}

/* False after saying what is wrong. */
static bool take(const options *o, int option, bench_request *r)
{
    int kv = (int)r->kv;
    switch (option) {
    case 't':
        return options_count(o, option, 1, QSA_MAX_PARTS, &r->threads);
    case OPTION_LAYERS:
        return options_count(o, option, 1, MOST_LAYERS, &r->layers);
    case OPTION_SECONDS:
        return options_count(o, option, 1, MOST_SECONDS, &r->seconds);
    case OPTION_QUICK:
        r->seconds = QUICK_SECONDS;
        return true;
    case OPTION_DEPTHS:
        return parse_depths(optarg, r);
    case OPTION_KV:
        if (!options_choice(o, option, bench_kv_names, &kv))
            return false;
        r->kv = (qsa_kv_type)kv;
        return true;
    case 'm':
        r->model = optarg;
        return true;
    case OPTION_DEVICE:
        r->device = optarg;
        return true;
    case OPTION_SVG:
        r->svg = optarg;
        return true;
    default:
        r->json |= option == OPTION_JSON;
        r->profile |= option == OPTION_PROFILE;
        r->help |= option == 'h';
        return option != '?';
    }
}

static bool parse(int argc, char **argv, bench_request *r)
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
    *r = (bench_request){.threads = 2, .seconds = SECONDS, .kv = QSA_KV_BF16};
    r->n_depths = sizeof DEPTHS / sizeof *DEPTHS;
    memcpy(r->depths, DEPTHS, sizeof DEPTHS);
    for (int option; (option = options_next(&o)) != -1;)
        if (!take(&o, option, r))
            return false;
    if (r->help)
        return true;
    if (r->profile && !r->model)
        options_say("bench", "--profile needs a model (-m)");
    else if (r->layers && r->model)
        options_say("bench", "--layers and -m do not go together");
    else
        return true;
    return false;
}

/* A chart that nobody can write is better known before the minutes of measuring. */
static bool can_write(const char *path)
{
    FILE *file = fopen(path, "a");
    if (!file)
        options_say("bench", "%s: %s", path, strerror(errno));
    return file && fclose(file) == 0;
}

int cmd_bench(int argc, char **argv)
{
    bench_request r;
    if (!parse(argc, argv, &r))
        return EXIT_USAGE;
    if (r.help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    if (!r.layers)
        r.layers = 12;
    if (r.device && !device_choose("bench", r.device))
        return EXIT_FAILURE;
    if (r.svg && !can_write(r.svg))
        return EXIT_FAILURE;
    return (r.model ? bench_model(&r) : bench_layers(&r)) ? EXIT_SUCCESS : EXIT_FAILURE;
}
