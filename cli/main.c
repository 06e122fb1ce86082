/* SPDX-License-Identifier: Apache-2.0 */
/* qsa: the program. Runs a command and fails if what it printed could not be written. */
#define _XOPEN_SOURCE 700 /* SIGPIPE, SIGXFSZ */
#include "cli/commands.h"
#include "console/options.h"

#include <qsa/qsa.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
    bool needs_engine;
} commands[] = {
    {"run", cmd_run, "continue a text", true},
    {"demo", cmd_demo, "answer questions about a long ledger with a small built-in model", true},
    {"make", cmd_make, "write a model file with the released shapes and random weights", true},
    {"inspect", cmd_inspect, "describe a model file", true},
    {"snapshot", cmd_snapshot, "describe or check a saved session", false},
    {"verify", cmd_verify, "check every result on this machine against an independent one", false},
    {"bench", cmd_bench, "measure decode and prefill on this machine, beside its peak", false},
    {"devices", cmd_devices, "list the devices that qsa can compute on", false},
    {"help", cmd_help, "print this help, or that of a command", false},
    {"version", cmd_version, "print the versions of program and library", false},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *stream)
{
    fputs("usage: qsa COMMAND [OPTION...]\n\nQwen Sparse Attention: runs qwen4exp models, and checks that every bit is "
          "right.\n\n",
          stream);
    for (int i = 0; i < COMMANDS; i++)
        if (has_engine || !commands[i].needs_engine)
            fprintf(stream, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    fputs("\n`qsa help COMMAND` lists its options.\n", stream);
}

static const struct command *find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    fprintf(stderr, "qsa: unknown command '%s'; `qsa help` lists them\n", name);
    return EXIT_USAGE;
}

static const char *command_word(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 ? "version" : word;
}

static int cmd_help(int argc, char **argv)
{
    if (argc > 2) {
        options_say("help", "'%s' is one argument too many", argv[2]);
        return EXIT_USAGE;
    }
    const struct command *command = find(argc < 2 ? "help" : command_word(argv[1]));
    if (command == find("help")) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (!command)
        return unknown_command(argv[1]);
    char help[] = "--help", *arguments[] = {argv[1], help, NULL};
    return command->run(2, arguments);
}

static int cmd_version(int argc, char **argv)
{
    static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const options o = {"version", argc, argv, "h", longs, NULL};
    const int option = options_next(&o);
    if (option == '?')
        return EXIT_USAGE;
    if (option == 'h')
        fputs("usage: qsa version\n\nPrints the versions of the program and of libqsa.\n\n  -h, --help  print this "
              "help\n",
              stdout);
    else
        printf("qsa %s, libqsa %s\n", QSA_VERSION, qsa_version());
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, and said; so is a limit of file sizes */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const struct command *command = find(command_word(argv[1]));
    if (!command)
        return unknown_command(argv[1]);
    int status = command->run(argc - 1, argv + 1);
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    if (!is_written && status == EXIT_SUCCESS) {
        options_say(command->name, "cannot write to standard output");
        status = EXIT_FAILURE;
    }
    return status;
}
