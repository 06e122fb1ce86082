/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "console/bus_error.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const qsa_model *watched;
static const char *name; /* of the command */
static atomic_flag is_said = ATOMIC_FLAG_INIT;

static void say(const char *text)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored; /* the program ends */
}

/* Only what is async-signal-safe. The faulting read would be repeated, so this cannot return. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *path = qsa_model_file_at(watched, info->si_addr);
    if (path == NULL) {
        signal(number, SIG_DFL); /* happens again */
        return;
    }
    while (atomic_flag_test_and_set(&is_said)) /* by another thread, which ends the program */
        pause();
    say("qsa ");
    say(name);
    say(": ");
    say(path);
    say(": cannot be read any more: cut short by another process, or a failing disk; nothing was saved\n");
    _exit(EXIT_FAILURE);
}

void bus_error_watch(const char *command, const qsa_model *model)
{
    watched = model;
    name = command;
    const struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}
