/* SPDX-License-Identifier: Apache-2.0 */
/* qsa verify: the strict lane, or the recorded cases of a folder. */
#include "verify/verify.h"

#include "cli/commands.h"
#include "console/clock.h"
#include "console/device_option.h"
#include "console/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] =
    "usage: qsa verify [--quick] [--device NAME]\n"
    "       qsa verify --golden FOLDER [--device NAME]\n"
    "\n"
    "Compares what libqsa computes on this machine with what it must be: a second, naive implementation, its own\n"
    "results by every other way (instruction set, parts, chunks, verbs), dense attention. Takes less than a minute "
    "and\n"
    "prints a line per check. Exits with 1 if anything differs.\n"
    "\n"
    "      --quick          fewer and shorter cases: a few seconds\n"
    "      --golden FOLDER  replay every recorded case in a folder instead, in the format of tests/golden/README.md:\n"
    "                       a line per file and a total\n"
    "      --device NAME    host (default), opencl or opencl:N, as `qsa devices` lists them\n"
    "  -h, --help           this text\n";

typedef struct request {
    bool quick, help;
    const char *golden, *device;
} request;

static bool parse(int argc, char **argv, request *out)
{
    static const struct option longs[] = {{"quick", no_argument, NULL, 256},
                                          {"golden", required_argument, NULL, 257},
                                          {"device", required_argument, NULL, 258},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const options o = {"verify", argc, argv, "h", longs, NULL};
    *out = (request){0};
    for (int option; (option = options_next(&o)) != -1;) {
        if (option == '?')
            return false;
        out->quick |= option == 256;
        out->help |= option == 'h';
        if (option == 257)
            out->golden = optarg;
        if (option == 258)
            out->device = optarg;
    }
    if (out->golden && out->quick) {
        options_say("verify", "--golden and --quick do not go together");
        return false;
    }
    return true;
}

static void run_check(const lane_check *check, bool quick, report *total)
{
    report r = {0};
    const double begin = clock_seconds();
    check->run(&r, quick);
    printf("%-48s %12" PRIu64 "  %s %6.1f s\n", check->name, r.compared, r.differences ? "DIFFERS" : "ok     ",
           clock_seconds() - begin);
    if (r.differences)
        printf("    %" PRIu64 " differences; the first: %s\n", r.differences, r.first);
    fflush(stdout);
    report_add(total, &r);
}

static const char *isa_in_use(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.capacity_tokens = QSA_PAGE_TOKENS;
    config.max_step_tokens = 1;
    config.device = device_in_use();
    qsa_cache *cache;
    if (qsa_cache_create(&config, &cache) != QSA_OK)
        return NULL;
    const char *isa = qsa_cache_isa(cache);
    qsa_cache_destroy(cache);
    return isa;
}

static int run_lane(bool quick)
{
    const char *isa = isa_in_use();
    if (!isa) {
        options_say("verify", "%s", qsa_error_detail());
        return EXIT_FAILURE;
    }
    report total = {0};
    const double begin = clock_seconds();
    printf("%-48s %12s  %s\n", "check", "compared", "status");
    for (size_t i = 0; i < lane_check_count; i++)
        run_check(&lane_checks[i], quick, &total);
    char device[192];
    printf("%zu checks, %" PRIu64 " values compared, %" PRIu64 " differences; %s, kernels %s, %.1f s\n",
           lane_check_count, total.compared, total.differences, device_words(device), isa, clock_seconds() - begin);
    return total.differences ? EXIT_FAILURE : EXIT_SUCCESS;
}

int cmd_verify(int argc, char **argv)
{
    request request;
    if (!parse(argc, argv, &request))
        return EXIT_USAGE;
    if (request.help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    if (request.device && !device_choose("verify", request.device))
        return EXIT_FAILURE;
    if (request.golden)
        return golden_replay_folder(request.golden) ? EXIT_SUCCESS : EXIT_FAILURE;
    return run_lane(request.quick);
}
