/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask a command to end: INT, TERM, HUP. */
#ifndef QSA_CONSOLE_INTERRUPTS_H
#define QSA_CONSOLE_INTERRUPTS_H

#include <signal.h>

/* From here on the first signal of a kind is only noted; a second one ends the program. HUP stays ignored where it is,
 * under nohup. */
void interrupts_catch(void);

/* The last signal; 0: none. */
extern volatile sig_atomic_t interrupts_caught;

enum { EXIT_SIGNAL = 128 }; /* plus the signal: the exit status of a command that it ended */

#endif
