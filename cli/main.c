/* SPDX-License-Identifier: Apache-2.0 */
/* qsa: the program. Finds the subcommand and sees to it that what it printed has arrived. */
#define _POSIX_C_SOURCE 200809L /* SIGPIPE */
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
} commands[] = {
    {"run", cmd_run, "read a file and a text, and continue it"},
    {"demo", cmd_demo, "make a small model, read it a long ledger, ask it eight questions"},
    {"make", cmd_make, "write a model file of the released widths with random weights"},
    {"inspect", cmd_inspect, "what QSA needs to know about a model file"},
    {"snapshot", cmd_snapshot, "what a saved session holds, and whether all of it is right"},
    {"verify", cmd_verify, "compare every result with an independent one, on this machine"},
    {"bench", cmd_bench, "measure decode and prefill on this machine, beside its peak"},
    {"devices", cmd_devices, "where qsa can compute"},
    {"help", cmd_help, "this text, or that of a command"},
    {"version", cmd_version, "version of program and library"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *stream)
{
    fputs("usage: qsa COMMAND [OPTION...]\n\nQwen Sparse Attention: runs qwen4exp models, and proves it.\n\n", stream);
    for (int i = 0; i < COMMANDS; i++)
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
    return strcmp(word, "--version") == 0 ? "version" : word;
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
    if (argc > 1 && strcmp(argv[1], "--help") != 0) {
        options_say("version", "'%s' is one argument too many", argv[1]);
        return EXIT_USAGE;
    }
    printf("qsa %s, libqsa %s\n", QSA_VERSION, qsa_version());
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, and said */
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
