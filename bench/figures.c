/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/figures.h"

#include "console/json_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making ---- */

static bool is_measured(const bench_figure *f)
{
    return f->kept + f->dropped > 0;
}

bench_figure bench_figure_plain(const char *name, double value, const char *unit, const char *note)
{
    bench_figure f = {.unit = unit,
                      .value = value,
                      .least = NAN,
                      .most = NAN,
                      .ratio = NAN,
                      .probe = NAN,
                      .share = NAN,
                      .note = note};
    snprintf(f.name, sizeof f.name, "%s", name);
    return f;
}

bench_figure bench_figure_of(const bench_item *item, bench_measure *of, double scale, const char *unit)
{
    const bench_statistic s = bench_statistics(item, of);
    bench_figure f = bench_figure_plain("", s.median * scale, unit, NULL);
    f.least = s.least * scale;
    f.most = s.most * scale;
    f.ratio = bench_statistics(item, bench_share_of_peak).median;
    f.probe = bench_statistics(item, bench_rate).median / 1e9;
    f.probe_unit = probe_unit(item->kind);
    f.kept = s.kept;
    f.dropped = s.dropped;
    f.hash = item->hash;
    return f;
}

/* ---- JSON ---- */

static void set_number(json_t *object, const char *key, double value)
{
    json_line_set(object, key, json_line_number(value));
}

static void add_blocks(json_t *object, const bench_figure *f)
{
    set_number(object, "min", f->least);
    set_number(object, "max", f->most);
    json_line_set(object, "blocks", json_integer(f->kept));
    json_line_set(object, "dropped", json_integer(f->dropped));
}

static void print_json(const bench_printer *p, const bench_figure *f)
{
    json_t *object = json_object();
    char hash[17];
    json_line_set_text(object, "name", f->name);
    set_number(object, "value", f->value);
    json_line_set_text(object, "unit", f->unit);
    set_number(object, "ratio", f->ratio);
    set_number(object, "probe", f->probe);
    json_line_set_text(object, "probe_unit", f->probe_unit);
    if (is_measured(f))
        add_blocks(object, f);
    if (!isnan(f->share))
        set_number(object, "share", f->share);
    if (f->hash) {
        snprintf(hash, sizeof hash, "%016" PRIx64, f->hash);
        json_line_set_text(object, "hash", hash);
    }
    if (f->note)
        json_line_set_text(object, "note", f->note);
    json_line_set_text(object, "isa", p->isa);
    json_line_set(object, "threads", json_integer(p->threads));
    json_line_set_text(object, "kv", p->kv);
    json_line_set_text(object, "device", p->device);
    json_line_print(object);
}

/* ---- the table ---- */

typedef char cell[40];

static void write_number(cell out, double value)
{
    const char *format = value == 0 || fabs(value) >= 1000 ? "%.0f" : fabs(value) >= 100 ? "%.1f" : "%.3g";
    if (isnan(value))
        strcpy(out, "");
    else
        snprintf(out, sizeof(cell), format, value);
}

static void write_blocks(cell out, const bench_figure *f)
{
    if (!is_measured(f))
        strcpy(out, "");
    else
        snprintf(out, sizeof(cell), "%" PRIu32 " of %" PRIu32, f->kept, f->kept + f->dropped);
}

/* At the end of a line, each after two spaces. */
static void print_remarks(const bench_figure *f)
{
    if (is_measured(f) && f->kept < BENCH_MIN_BLOCKS)
        printf("  too few undisturbed blocks");
    if (!isnan(f->share))
        printf("  %.1f %%", 100 * f->share);
    if (f->hash)
        printf("  %016" PRIx64, f->hash);
    if (f->note)
        printf("  %s", f->note);
    putchar('\n');
}

static void print_row(const bench_figure *f)
{
    cell value, least, most, ratio, probe, blocks;
    write_number(value, f->value);
    write_number(least, f->least);
    write_number(most, f->most);
    write_number(ratio, f->ratio);
    write_number(probe, f->probe);
    write_blocks(blocks, f);
    printf("%-38s %8s %-8s %8s %8s %8s %6s %-7s %8s", f->name, value[0] ? value : "-", f->unit, least, most, ratio,
           probe, probe[0] ? f->probe_unit : "", blocks);
    print_remarks(f);
}

void bench_print_head(const bench_printer *p, const char *title, const char *share_of_peak)
{
    if (p->is_json)
        return;
    printf("%s\n%s\n\n", title, share_of_peak);
    printf("%-38s %8s %-8s %8s %8s %8s %14s %8s\n", "", "", "", "", "", "share of", "", "blocks");
    printf("%-38s %8s %-8s %8s %8s %8s %14s %8s  %s\n", "figure", "median", "", "min", "max", "peak", "peak", "kept",
           "hash of the output, note");
}

void bench_print(const bench_printer *p, const bench_figure *f)
{
    if (p->is_json)
        print_json(p, f);
    else
        print_row(f);
    fflush(stdout);
}
