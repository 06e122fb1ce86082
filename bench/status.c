/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/status.h"

#include "console/options.h"

bool bench_ok(qsa_status status)
{
    if (status != QSA_OK)
        options_say("bench", "%s: %s", qsa_status_name(status), qsa_error_detail());
    return status == QSA_OK;
}
