/* SPDX-License-Identifier: Apache-2.0 */
/* Which configurations are legal. */
#ifndef QSA_BASE_SHAPE_H
#define QSA_BASE_SHAPE_H

#include <qsa/config.h>

/* Names the first field of config that is illegal. Norm weights are not looked at. */
qsa_status qsa_shape_check(const qsa_config *config);

#endif
