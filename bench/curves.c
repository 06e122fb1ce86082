/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/curves.h"

#include "bench/chart.h"
#include "bench/machine.h"
#include "console/options.h"
#include "console/output_target.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static chart_panel panel(const char *title, const double *values, const double *limit, const char *limit_label,
                         size_t n)
{
    chart_panel p = {
        .title = title, .curves = {{"measured", values, false}, {limit_label, limit, true}}, .n_curves = 1};
    for (size_t i = 0; i < n; i++)
        if (!isnan(limit[i]))
            p.n_curves = 2;
    return p;
}

bool bench_curves_draw(const bench_options *o, const char *isa, const char *title, const bench_curves *curves)
{
    char processor[160], subtitle[320];
    if (!o->svg)
        return true;
    machine_processor(processor, sizeof processor);
    snprintf(subtitle, sizeof subtitle, "%" PRIu32 " threads, K/V %s, %s kernels%s%s", o->threads,
             bench_kv_names[o->kv], isa, processor[0] ? ", " : "", processor);
    const chart_panel panels[] = {
        panel("decode: ms per token", curves->decode, curves->decode_limit, "at memory bandwidth", o->n_depths),
        panel("prefill: \xc2\xb5s per token, 256 at a time", curves->prefill, curves->prefill_limit, "at FMA peak",
              o->n_depths)};
    const chart c = {title, subtitle, o->depths, o->n_depths, panels, 2};
    if (chart_write(&c, o->svg))
        return true;
    options_say("bench", "%s: %s", o->svg, strerror(errno));
    return false;
}

bool bench_curves_writable(const bench_options *o)
{
    const output_target target = {"bench", o->svg, "<svg", "SVG drawing", o->model};
    return !o->svg || output_target_check(&target);
}
