/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_CONSOLE_CLOCK_H
#define QSA_CONSOLE_CLOCK_H

/* Seconds of a clock that only goes forward. */
double clock_seconds(void);

#endif
