/* SPDX-License-Identifier: Apache-2.0 */
/* ggml ends the program if it cannot start a thread; so we ask the system first. */
#ifndef QSA_ENGINE_MODEL_THREAD_PROBE_H
#define QSA_ENGINE_MODEL_THREAD_PROBE_H

#include <qsa/status.h>

/* Starts n threads that exist at one time, and ends them. Errors: QSA_E_IO, QSA_E_MEMORY. */
qsa_status thread_probe(uint32_t n);

#endif
