/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/machine.h"

#include "console/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 0: not known. */
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

bool machine_has_memory(uint64_t needed_bytes)
{
    const uint64_t available = available_bytes();
    const double gib = (double)(UINT64_C(1) << 30);
    if (available == 0 || needed_bytes <= available)
        return true;
    options_say("bench", "needs %.1f GiB of memory, %.1f are available: measure fewer --depths or --layers",
                (double)needed_bytes / gib, (double)available / gib);
    return false;
}

uint64_t machine_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    uint64_t all, resident = 0;
    if (file && fscanf(file, "%" SCNu64 " %" SCNu64, &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void machine_processor(char *out, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    out[0] = '\0';
    while (file && !out[0] && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, "%s", strchr(line, ':') + 2);
        }
    if (file)
        fclose(file);
}
