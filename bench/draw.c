/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"
#include "bench/chart.h"
#include "console/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of the processor, as the kernel calls it; "" where it does not say. */
static void read_processor(char *out, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    out[0] = '\0';
    while (file && !out[0] && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, ",%s", strchr(line, ':') + 1);
        }
    if (file)
        fclose(file);
}

/* Ours, and the limit if there is any. */
static chart_panel panel(const char *title, const double *ours, const double *limit, const char *limit_label, size_t n)
{
    chart_panel p = {.title = title, .curves = {{"measured", ours, false}, {limit_label, limit, true}}, .n_curves = 1};
    for (size_t i = 0; i < n; i++)
        if (!isnan(limit[i]))
            p.n_curves = 2;
    return p;
}

bool bench_draw(const bench_request *r, const char *isa, const char *which, const bench_curves *curves)
{
    char processor[160], subtitle[320];
    read_processor(processor, sizeof processor);
    snprintf(subtitle, sizeof subtitle, "threads %" PRIu32 ", K/V %s, kernels %s%s", r->threads, bench_kv_names[r->kv],
             isa, processor);
    const chart_panel panels[] = {
        panel("decode: ms per token", curves->decode, curves->decode_limit, "reading the bytes", r->n_depths),
        panel("prefill: \xc2\xb5s per token, 256 at a time", curves->prefill, curves->prefill_limit,
              "the multiply-adds", r->n_depths)};
    const chart c = {which, subtitle, r->depths, r->n_depths, panels, 2};
    if (chart_write(&c, r->svg))
        return true;
    options_say("bench", "%s: %s", r->svg, strerror(errno));
    return false;
}
