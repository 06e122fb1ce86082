/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of qsa. Each gets its own name as argv[0] and returns the exit status: 0, 1 for a failure, 2 for a
 * command line that cannot be understood; whatever is wrong is one line on stderr. */
#ifndef QSA_CLI_COMMANDS_H
#define QSA_CLI_COMMANDS_H

#include <stdbool.h>

extern const bool has_engine; /* whether run, demo, make and inspect are built; if not, they say so and fail */

int cmd_run(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_make(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_devices(int argc, char **argv);

#endif
