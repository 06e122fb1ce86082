/* SPDX-License-Identifier: Apache-2.0 */
/* Which configurations are legal. */
#ifndef QSA_BASE_SHAPE_H
#define QSA_BASE_SHAPE_H

#include <qsa/config.h>

/* An error names the first illegal field of config. Norm weights are not checked. */
qsa_status qsa_shape_check(const qsa_config *config);

/* Sets fields that mean nothing to their defaults, so that equal caches have equal configurations: those of YaRN
 * without a factor. */
void qsa_shape_normalise(qsa_config *config);

#endif
