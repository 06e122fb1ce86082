/* SPDX-License-Identifier: Apache-2.0 */
/* A bar on standard error while a long text is read, or a large file written; nothing where that is no terminal. */
#ifndef QSA_CONSOLE_PROGRESS_H
#define QSA_CONSOLE_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/* `fed` of `n` tokens, `seconds` after the beginning. With fed = n the line goes. */
void progress_show(size_t fed, size_t n, double seconds);

/* The same for a large file that is written. */
void progress_show_bytes(uint64_t written, uint64_t bytes, double seconds);

#endif
