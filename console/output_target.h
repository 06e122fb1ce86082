/* SPDX-License-Identifier: Apache-2.0 */
/* The file that a command is going to write: whether it may, and the room on its disk. Asked before the work. */
#ifndef QSA_CONSOLE_OUTPUT_TARGET_H
#define QSA_CONSOLE_OUTPUT_TARGET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct output_target {
    const char *command; /* for messages */
    const char *path;
    const char *magic; /* an old file that begins otherwise stays, unless it is empty */
    const char *kind;  /* what begins so: "saved session" */
    const char *input; /* a file that the command reads, which stays whatever is in it; NULL: none */
} output_target;

/* False after saying why the file cannot or must not be written: it is another kind of file, the input or a standard
 * stream under this or another name, or its folder takes no file. */
bool output_target_check(const output_target *target);

/* False after saying that the disk has fewer bytes. */
bool output_target_has_room(const output_target *target, uint64_t bytes);

#endif
