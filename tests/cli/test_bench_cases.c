#define _POSIX_C_SOURCE 200809L /* clock_gettime */
/* Single operations: what is timed, and how the share of peak is made. The probe and the printer are played here. */
#include "bench/cases.h"
#include "support.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- a machine of 10 GB/s; its FMA peak depends on the instruction set ---- */

static const char *probed_isa;

void probe_open(probe *p, const char *isa)
{
    (void)p;
    probed_isa = isa;
}

void probe_choose_isa(probe *p, const char *isa)
{
    probe_open(p, isa);
}

void probe_close(probe *p)
{
    (void)p;
}

double probe_rate(const probe *p, probe_kind kind, uint32_t threads)
{
    (void)p;
    assert_int_equal(threads, PROBE_THIS_THREAD);
    if (kind == PROBE_READ)
        return 10e9;
    return strcmp(probed_isa, "fast") == 0 ? 100e9 : 0; /* 0: not known */
}

const char *probe_unit(probe_kind kind)
{
    return kind == PROBE_READ ? "GB/s" : "GFLOP/s";
}

static bench_figure printed;
static bench_printer printer;

bench_figure bench_figure_plain(const char *name, double value, const char *unit, const char *note)
{
    (void)name;
    return (bench_figure){.value = value, .unit = unit, .note = note, .ratio = NAN, .probe = NAN};
}

void bench_print_head(const bench_printer *p, const char *title, const char *share_of_peak)
{
    (void)p, (void)title, (void)share_of_peak;
}

void bench_print(const bench_printer *p, const bench_figure *f)
{
    printer = *p;
    printed = *f;
}

/* ---- operations ---- */

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void spend(double seconds)
{
    for (const double begin = thread_seconds(); thread_seconds() - begin < seconds;)
        ;
}

static void short_run(void *context)
{
    ++*(int *)context;
    spend(0.002);
}

static void long_preparation(void *context)
{
    *(int *)context += 1000;
    spend(0.02);
}

static void run(bench_case one)
{
    bench_cases cases;
    bench_cases_open(&cases, true, "");
    bench_cases_run(&cases, &one);
    bench_cases_close(&cases);
}

/* ---- tests ---- */

static void calls_are_timed_without_their_preparation(void **state)
{
    (void)state;
    int calls = 0;
    run((bench_case){
        .name = "x", .type = "bf16", .isa = "fast", .run = short_run, .before = long_preparation, .context = &calls});
    assert_int_equal(calls / 1000, calls % 1000); /* one preparation for each call */
    assert_true(calls % 1000 > 9);
    assert_true(printed.least >= 2000 && printed.least <= printed.value && printed.value <= printed.most);
    assert_true(printed.value < 15000); /* microseconds */
    assert_string_equal(printed.name, "x_bf16_fast");
    assert_string_equal(printer.isa, "fast");
    assert_string_equal(printer.kv, "bf16");
}

static void share_of_peak_is_of_the_longer_limit(void **state)
{
    (void)state;
    int calls = 0;
    bench_case one = {.name = "x", .type = "f32", .isa = "fast", .run = short_run, .context = &calls};
    one.bytes = 10e6;      /* 1 ms */
    one.operations = 50e6; /* 0.5 ms */
    run(one);
    assert_true(fabs(printed.ratio * printed.value - 1000) < 1e-6);
    assert_string_equal(printed.probe_unit, "GB/s");
    one.operations = 150e6; /* 1.5 ms */
    run(one);
    assert_true(fabs(printed.ratio * printed.value - 1500) < 1e-6);
    assert_string_equal(printed.probe_unit, "GFLOP/s");
    assert_true(printed.probe == 100);
}

static void no_share_without_a_known_peak(void **state)
{
    (void)state;
    int calls = 0;
    bench_case one = {.name = "x", .type = "f32", .isa = "slow", .run = short_run, .context = &calls};
    one.operations = 150e6;
    run(one);
    assert_true(isnan(printed.ratio) && isnan(printed.probe));
    one.bytes = 10e6;
    run(one);
    assert_string_equal(printed.probe_unit, "GB/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_timed_without_their_preparation),
        cmocka_unit_test(share_of_peak_is_of_the_longer_limit),
        cmocka_unit_test(no_share_without_a_known_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
