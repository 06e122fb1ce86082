/* SPDX-License-Identifier: Apache-2.0 */
/* ggml's log. ggml has one callback per process; the engine installs it here and nowhere else. */
#ifndef QSA_ENGINE_BASE_GGML_LOG_H
#define QSA_ENGINE_BASE_GGML_LOG_H

/* Takes the log over: from now on ggml prints nothing, and the thread's first error is kept. Later calls do nothing.
 * Any thread. */
void own_ggml_log(void);

/* Forgets the calling thread's error: before a call of ggml whose error is wanted. */
void clear_ggml_error(void);

/* What ggml said first since then, without the name of its function; "" if nothing. Static storage of the thread. */
const char *ggml_error(void);

#endif
