/* SPDX-License-Identifier: Apache-2.0 */
#include "model/thread_probe.h"

#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>

/* Held by the prober while threads start, so that all of them exist at one time. */
static void *wait_for_gate(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

qsa_status thread_probe(uint32_t n)
{
    pthread_t *threads = malloc((n + 1) * sizeof *threads);
    if (threads == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for %u threads", n);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&gate);
    uint32_t started = 0;
    while (started < n && pthread_create(&threads[started], NULL, wait_for_gate, &gate) == 0)
        started++;
    pthread_mutex_unlock(&gate);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&gate);
    free(threads);
    if (started < n)
        return engine_fail(QSA_E_IO, "the system starts only %u of %u threads", started, n);
    return QSA_OK;
}
