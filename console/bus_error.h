/* SPDX-License-Identifier: Apache-2.0 */
/* A model file that another process cuts short, or a disk that fails, while the file is mapped: SIGBUS. */
#ifndef QSA_CONSOLE_BUS_ERROR_H
#define QSA_CONSOLE_BUS_ERROR_H

#include <qsa_engine.h>

/* From now on a SIGBUS in the model's mapping ends the program with one line on stderr and status 1. The model watched
 * before is no longer. Any other SIGBUS does what it did. */
void bus_error_watch(const char *command, const qsa_model *model);

#endif
