/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration section: from a cache, and against one. */
#ifndef QSA_SNAPSHOT_CONFIG_H
#define QSA_SNAPSHOT_CONFIG_H

#include "snapshot/format.h"

/* Shape and precision as a qsa_config, normalised; sizes are the defaults. */
qsa_config qsa_snapshot_shape(const qsa_file_config *file);
/* QSA_E_FORMAT if no cache can have the file's configuration. */
qsa_status qsa_snapshot_check_shape(const qsa_file_config *file);
/* QSA_E_UNSUPPORTED; the detail has the first field that differs, with both values. */
qsa_status qsa_snapshot_compare(const qsa_cache *cache, uint64_t model_digest, const qsa_file_config *there);

#endif
