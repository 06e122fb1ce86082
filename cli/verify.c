/* SPDX-License-Identifier: Apache-2.0 */
/* qsa verify: the checks, or the recorded cases of a folder. */
#include "verify/verify.h"

#include "cli/commands.h"
#include "console/device_option.h"
#include "console/options.h"

#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] =
    "usage: qsa verify [--quick] [--device NAME]\n"
    "       qsa verify --golden FOLDER [--device NAME]\n"
    "\n"
    "Checks the results of libqsa on this machine, bit by bit, against an independent implementation and against\n"
    "each other: every instruction set, number of parts, chunking and sequence operation. Prints a line per check;\n"
    "takes less than a minute. Exits with 1 if anything differs.\n"
    "\n"
    "      --quick          fewer and shorter cases: a few seconds\n"
    "      --golden FOLDER  instead, replay the recorded cases of a folder, in the format of tests/golden/README.md:\n"
    "                       a line per file\n"
    "      --device NAME    host (default), opencl or opencl:N; `qsa devices` lists them\n"
    "  -h, --help           print this help\n";

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
    const bool is_good = request.golden ? verify_folder(request.golden) : verify_suite(request.quick);
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
