/* SPDX-License-Identifier: Apache-2.0 */
/* The device that --device chose. */
#ifndef QSA_CONSOLE_DEVICE_OPTION_H
#define QSA_CONSOLE_DEVICE_OPTION_H

#include <qsa/qsa.h>
#include <stdbool.h>

/* Opens the device of that name for all caches of this process. False after saying what is wrong. */
bool device_choose(const char *command, const char *name);

/* The one chosen; NULL is the host. */
qsa_device *device_in_use(void);

/* "host", "opencl:0 (Vendor's name)" */
const char *device_words(char buffer[192]);

#endif
