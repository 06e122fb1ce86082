/* SPDX-License-Identifier: Apache-2.0 */
/* libqsa: Qwen Sparse Attention.
 *
 * A cache holds, for every QSA layer, K/V and the index of any number of sequences. A model's forward pass is a step:
 * it announces its new tokens, hands over the projections of each layer, gets attention output back, and commits. Below
 * budget + ratio tokens the result is dense attention, bit for bit; beyond it each query attends to its best groups and
 * its tail. The same bits come out for every instruction set, thread count, chunking and batch.
 *
 * Read on in the order of the flow: status, config, device, run, index, select, attend, cache, snapshot, step,
 * threads. */
#ifndef QSA_QSA_H
#define QSA_QSA_H

#include <qsa/attend.h>
#include <qsa/cache.h>
#include <qsa/config.h>
#include <qsa/device.h>
#include <qsa/index.h>
#include <qsa/run.h>
#include <qsa/select.h>
#include <qsa/snapshot.h>
#include <qsa/status.h>
#include <qsa/step.h>
#include <qsa/threads.h>

#define QSA_VERSION "0.1.0"

QSA_BEGIN_DECLS
/* Version of the library in use. */
QSA_API const char *qsa_version(void);
QSA_END_DECLS
#endif
