/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask a command to end. */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "console/interrupts.h"

#include <stdbool.h>
#include <stddef.h>

volatile sig_atomic_t interrupts_caught;

static void note(int number)
{
    interrupts_caught = number;
}

static bool is_ignored(int number)
{
    struct sigaction present;
    return sigaction(number, NULL, &present) == 0 && present.sa_handler == SIG_IGN;
}

void interrupts_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] != SIGHUP || !is_ignored(SIGHUP))
            sigaction(numbers[i], &action, NULL);
}
