/* SPDX-License-Identifier: Apache-2.0 */
/* Included before ggml's CPU sources: how its threads wait for each other.
 *
 * They spin. With more threads than free processors a waiting thread then keeps the processor that the awaited one
 * needs, and every barrier lasts a time slice: seconds instead of milliseconds for a graph. Here a waiting thread spins
 * about a microsecond and then offers its processor to whoever wants it. No result depends on it.
 *
 * The macro renames ggml's own function where it is defined, with (void), and calls ours where it is used, with (). */
#ifndef QSA_GGML_WAIT_H
#define QSA_GGML_WAIT_H

#include <sched.h>

#define ggml_thread_cpu_relax(argument) ggml_wait_##argument()

static inline void ggml_wait_void(void);

static inline void ggml_wait_(void)
{
    enum { SPINS = 32 };
    static _Thread_local unsigned count;
    if (++count % SPINS == 0)
        sched_yield();
    else
        ggml_wait_void();
}

#endif
