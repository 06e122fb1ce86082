/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a session can be saved to a file, asked before the work that nobody wants to lose. */
#ifndef QSA_CONSOLE_SAVE_TARGET_H
#define QSA_CONSOLE_SAVE_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* Whether path can become a saved session: its folder takes files, and what stands there is a snapshot, empty, or
 * nothing. So no model and no text is ever replaced. False after saying why. */
bool save_target_check(const char *command, const char *path);

/* Whether the disk has room for that many bytes more. False after saying how many there are; true if that is not
 * known. */
bool save_target_has_room(const char *command, const char *path, uint64_t bytes);

#endif
