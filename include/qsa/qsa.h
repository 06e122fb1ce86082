/* SPDX-License-Identifier: Apache-2.0 */
/* libqsa: Qwen Sparse Attention.
 *
 * A cache holds K/V and the index of any number of sequences, for every QSA layer of a model. One forward pass of the
 * model is a step: begin announces the new tokens, each layer hands over its projections and gets attention output
 * back, commit makes the tokens visible. Up to budget + ratio - 1 tokens (2,051) the result equals dense attention bit
 * for bit; beyond that a query attends to its best groups and the tail. The bits are the same on every instruction set,
 * for any number of threads, any chunking and any batch.
 *
 * The headers, in the order of the data flow: status, config, device, run, index, select, attend, cache, snapshot,
 * step, threads. In all of them a function's comment says what it does, shapes and units, ownership, cost where it is
 * not obvious, and its errors. */
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
/* Version of the linked library, as QSA_VERSION. Static storage. */
QSA_API const char *qsa_version(void);
QSA_END_DECLS
#endif
