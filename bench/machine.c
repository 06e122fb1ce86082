/* SPDX-License-Identifier: Apache-2.0 */
/* What all measurements need: memory there and taken, a failed call said. */
#include "bench/bench.h"

#include "console/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

const char *const bench_kv_names[] = {"f32", "bf16", "f16", "q8_0", NULL};

bool bench_good(qsa_status status)
{
    if (status != QSA_OK)
        options_say("bench", "%s: %s", qsa_status_name(status), qsa_error_detail());
    return status == QSA_OK;
}

/* What the kernel says could still be used; 0: it does not say. */
static uint64_t available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    uint64_t kib = 0;
    while (file && kib == 0 && fgets(line, sizeof line, file))
        sscanf(line, "MemAvailable: %" SCNu64, &kib);
    if (file)
        fclose(file);
    return kib * 1024;
}

bool bench_fits(uint64_t needed_bytes)
{
    const uint64_t available = available_bytes();
    const double gib = (double)(UINT64_C(1) << 30);
    if (available == 0 || needed_bytes <= available)
        return true;
    options_say("bench", "needs %.1f GiB of memory, %.1f are available: measure fewer --depths or --layers",
                (double)needed_bytes / gib, (double)available / gib);
    return false;
}

uint64_t bench_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    uint64_t all, resident = 0;
    if (file && fscanf(file, "%" SCNu64 " %" SCNu64, &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
