/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_CONSOLE_MODEL_CONFIG_H
#define QSA_CONSOLE_MODEL_CONFIG_H

#include <qsa_engine.h>

/* The configuration of libqsa that a model asks for: its shape, all else at the defaults. */
qsa_config model_config(const qsa_model_info *info);

#endif
