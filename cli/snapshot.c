/* SPDX-License-Identifier: Apache-2.0 */
/* qsa snapshot: what a snapshot file holds, and whether all of it is right. */
#include "cli/commands.h"
#include "console/options.h"
#include "console/snapshot_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: qsa snapshot info [--json] FILE\n"
    "       qsa snapshot verify FILE\n"
    "\n"
    "info describes a saved session. verify reads all of it and checks every checksum, length and number. Neither\n"
    "needs the model. Both exit with 1 if the file is damaged or is no snapshot, and say where.\n"
    "\n"
    "      --json  print one JSON object on one line\n"
    "  -h, --help  print this help\n";

/* What the command line asks for. */
typedef struct request {
    const char *command; /* for messages */
    bool is_info, json, help;
    const char *path;
} request;

/* argv[0] is the word info or verify. Returns false after saying what is wrong. */
static bool parse(int argc, char **argv, request *r)
{
    static const struct option info_options[] = {
        {"help", no_argument, NULL, 'h'}, {"json", no_argument, NULL, 256}, {NULL, 0, NULL, 0}};
    static const struct option verify_options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    static const char *const operands[] = {"snapshot file", NULL};
    const options o = {r->command, argc, argv, "h", r->is_info ? info_options : verify_options, operands};
    for (int option; !r->help && (option = options_next(&o)) != -1;) {
        if (option == '?')
            return false;
        r->json |= option == 256;
        r->help |= option == 'h';
    }
    r->path = r->help ? NULL : argv[optind];
    return true;
}

static int report(const request *r)
{
    qsa_snapshot s;
    if (qsa_snapshot_inspect_file(r->path, &s) != QSA_OK) {
        options_say(r->command, "%s", qsa_error_detail());
        return EXIT_FAILURE;
    }
    if (!r->is_info)
        snapshot_report_verdict(r->path, &s);
    else if (r->json)
        snapshot_report_json(r->path, &s);
    else
        snapshot_report_print(r->path, &s);
    qsa_snapshot_free(&s);
    return EXIT_SUCCESS;
}

int cmd_snapshot(int argc, char **argv)
{
    if (argc < 2) {
        options_say("snapshot", "give a subcommand, info or verify, and a file");
        return EXIT_USAGE;
    }
    request r = {.is_info = strcmp(argv[1], "info") == 0};
    r.command = r.is_info ? "snapshot info" : "snapshot verify";
    r.help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    if (!r.help && !r.is_info && strcmp(argv[1], "verify") != 0) {
        options_say("snapshot", "unknown subcommand '%s'; use info or verify", argv[1]);
        return EXIT_USAGE;
    }
    if (!r.help && !parse(argc - 1, argv + 1, &r))
        return EXIT_USAGE;
    if (r.help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    return report(&r);
}
