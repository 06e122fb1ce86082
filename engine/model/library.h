/* SPDX-License-Identifier: Apache-2.0 */
/* ggml, set up so that bits do not depend on the batch. */
#ifndef QSA_ENGINE_MODEL_LIBRARY_H
#define QSA_ENGINE_MODEL_LIBRARY_H

#include <ggml.h>
#include <qsa/status.h>

/* Before any other use of ggml; later calls do nothing. Silences its log, and switches off its tiled products, whose
 * bits depend on the number of columns (they would make prompts of K-quants three times as fast). */
void matrix_library_init(void);

/* ggml's blocked product gives a column the same bits in every batch from this many columns on; with fewer it uses
 * another kernel, for some types with other bits. Measured for f32, bf16, f16 and every quantised type, 2 to 512
 * columns, 1 to 3 threads. */
#if defined(__ARM_NEON)
enum { LEAST_COLUMNS = 4 };
#else
enum { LEAST_COLUMNS = 2 };
#endif

#endif
