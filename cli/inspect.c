/* SPDX-License-Identifier: Apache-2.0 */
/* qsa inspect: describes a model file on one screen, or as JSON. */
#include "cli/commands.h"
#include "console/inspect_report.h"
#include "console/options.h"

#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] = "usage: qsa inspect [--json] MODEL.gguf\n"
                            "\n"
                            "Describes a model file: its shape, its QSA layers, the memory it takes on this machine "
                            "and the context that fits,\n"
                            "and whether other engines would silently fall back to dense attention.\n"
                            "\n"
                            "      --json  print one JSON object on one line\n"
                            "  -h, --help  print this help\n";

/* What the command line asks for. */
typedef struct request {
    bool json, help;
    const char *path;
} request;

/* Returns false after saying what is wrong with the command line. */
static bool parse(int argc, char **argv, request *out_request)
{
    static const struct option longs[] = {
        {"json", no_argument, NULL, 256}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    static const char *const operands[] = {"model file", NULL};
    const options o = {"inspect", argc, argv, "h", longs, operands};
    request r = {0};
    for (int option; !r.help && (option = options_next(&o)) != -1;) {
        if (option == '?')
            return false;
        r.json |= option == 256;
        r.help |= option == 'h';
    }
    r.path = r.help ? NULL : argv[optind];
    *out_request = r;
    return true;
}

static int fail(const char *reason)
{
    options_say("inspect", "%s", reason);
    return EXIT_FAILURE;
}

static int report_on(const qsa_model *model, const request *request)
{
    inspect_report r;
    if (inspect_report_gather(model, request->path, &r) != QSA_OK)
        return fail(qsa_error_detail());
    if (request->json)
        inspect_report_json(&r);
    else
        inspect_report_print(&r);
    return EXIT_SUCCESS; /* main says what could not be written */
}

int cmd_inspect(int argc, char **argv)
{
    request request;
    if (!parse(argc, argv, &request))
        return EXIT_USAGE;
    if (request.help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    qsa_model *model = NULL;
    if (qsa_model_open(request.path, NULL, &model) != QSA_OK)
        return fail(qsa_engine_error());
    int code = report_on(model, &request);
    qsa_model_close(model);
    return code;
}
