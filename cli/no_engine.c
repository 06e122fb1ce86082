/* SPDX-License-Identifier: Apache-2.0 */
/* What needs the engine, in a program built without it. */
#include "bench/whole_model.h"
#include "cli/commands.h"
#include "console/options.h"

#include <stdlib.h>

const bool has_engine = false;

static const char WITHOUT[] = "this qsa was built without the engine (QSA_ENGINE=OFF)";

static int refuse(const char *command)
{
    options_say(command, "%s", WITHOUT);
    return EXIT_FAILURE;
}

int cmd_run(int argc, char **argv)
{
    (void)argc, (void)argv;
    return refuse("run");
}

int cmd_demo(int argc, char **argv)
{
    (void)argc, (void)argv;
    return refuse("demo");
}

int cmd_make(int argc, char **argv)
{
    (void)argc, (void)argv;
    return refuse("make");
}

int cmd_inspect(int argc, char **argv)
{
    (void)argc, (void)argv;
    return refuse("inspect");
}

bool bench_run_model(const bench_options *o)
{
    (void)o;
    return refuse("bench") == EXIT_SUCCESS;
}
