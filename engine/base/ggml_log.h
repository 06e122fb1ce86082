/* SPDX-License-Identifier: Apache-2.0 */
/* ggml's log. ggml has one callback per process; the engine installs it here and nowhere else. */
#ifndef QSA_ENGINE_BASE_GGML_LOG_H
#define QSA_ENGINE_BASE_GGML_LOG_H

/* From now on ggml prints nothing. Later calls do nothing. Any thread. */
void silence_ggml(void);

#endif
