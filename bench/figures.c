/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/figures.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making ---- */

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
    f.ratio = bench_statistics(item, bench_share).median;
    f.probe = bench_statistics(item, bench_rate).median / 1e9;
    f.probe_unit = item->kind == PROBE_READ ? "GB/s" : "GFLOP/s";
    f.kept = s.kept;
    f.dropped = s.dropped;
    f.hash = item->hash;
    return f;
}

/* ---- judging ---- */

static bool is_measured(const bench_figure *f)
{
    return f->kept + f->dropped > 0;
}

static double judged(const bench_figure *f)
{
    return isnan(f->ratio) ? f->value : f->ratio;
}

static bool is_met(const bench_figure *f)
{
    return f->target == BENCH_AT_LEAST ? judged(f) >= f->limit : judged(f) <= f->limit;
}

/* ---- JSON ---- */

static json_t *number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *text(const char *value)
{
    return value ? json_string(value) : json_null();
}

static void add_blocks(json_t *object, const bench_figure *f)
{
    json_object_set_new(object, "min", number(f->least));
    json_object_set_new(object, "max", number(f->most));
    json_object_set_new(object, "blocks", json_integer(f->kept));
    json_object_set_new(object, "dropped", json_integer(f->dropped));
}

static void print_json(const bench_printer *p, const bench_figure *f)
{
    json_t *object = json_object();
    char hash[17];
    json_object_set_new(object, "name", text(f->name));
    json_object_set_new(object, "value", number(f->value));
    json_object_set_new(object, "unit", text(f->unit));
    json_object_set_new(object, "ratio", number(f->ratio));
    json_object_set_new(object, "probe", number(f->probe));
    json_object_set_new(object, "probe_unit", text(f->probe_unit));
    if (is_measured(f))
        add_blocks(object, f);
    if (!isnan(f->share))
        json_object_set_new(object, "share", number(f->share));
    if (f->target != BENCH_NO_TARGET) {
        json_object_set_new(object, f->target == BENCH_AT_LEAST ? "at_least" : "at_most", number(f->limit));
        json_object_set_new(object, "met", isnan(judged(f)) ? json_null() : json_boolean(is_met(f)));
    }
    if (f->hash) {
        snprintf(hash, sizeof hash, "%016" PRIx64, f->hash);
        json_object_set_new(object, "hash", text(hash));
    }
    if (f->note)
        json_object_set_new(object, "note", text(f->note));
    json_object_set_new(object, "isa", text(p->isa));
    json_object_set_new(object, "threads", json_integer(p->threads));
    json_object_set_new(object, "kv", text(p->kv));
    json_object_set_new(object, "device", text(p->device));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
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

/* What stands at the end of a line, each after two spaces. */
static void print_remarks(const bench_figure *f)
{
    if (is_measured(f) && f->kept < BENCH_MIN_BLOCKS)
        printf("  too few quiet blocks");
    if (f->target != BENCH_NO_TARGET)
        printf("  %s %g: %s", f->target == BENCH_AT_LEAST ? "at least" : "at most", f->limit,
               isnan(judged(f)) ? "not known"
               : is_met(f)      ? "met"
                                : "NOT MET");
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
    printf("%-38s %8s %-8s %8s %8s %6s %6s %-7s %8s", f->name, value[0] ? value : "-", f->unit, least, most, ratio,
           probe, probe[0] ? f->probe_unit : "", blocks);
    print_remarks(f);
}

void bench_print_head(const bench_printer *p, const char *title)
{
    if (p->is_json)
        return;
    printf("%s\n\n%-38s %8s %-8s %8s %8s %6s %14s %8s\n", title, "figure", "median", "", "least", "most", "ratio",
           "probe", "blocks");
}

void bench_print(const bench_printer *p, const bench_figure *f)
{
    if (p->is_json)
        print_json(p, f);
    else
        print_row(f);
    fflush(stdout);
}
