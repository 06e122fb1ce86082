/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/options.h"

#include <string.h>

const char *const bench_kv_names[] = {"f32", "bf16", "f16", "q8_0", NULL};

static const uint32_t DEPTHS[] = {0, 2048, 8192, 32768, 131072, 262144};

void bench_options_init(bench_options *out)
{
    *out = (bench_options){.threads = 2, .layers = 12, .seconds = 150, .kv = QSA_KV_BF16};
    out->n_depths = sizeof DEPTHS / sizeof *DEPTHS;
    memcpy(out->depths, DEPTHS, sizeof DEPTHS);
}

const char *bench_device_name(const bench_options *o)
{
    return o->device ? o->device : "host";
}
