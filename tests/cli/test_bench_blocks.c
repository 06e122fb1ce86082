/* How figures are made of blocks: rounds in turn, disturbed blocks dropped, no figure from too few. Probe and clock are
 * played here. */
#include "bench/blocks.h"
#include "support.h"

#include <math.h>

/* ---- a machine that does what the test says ---- */

static double rates[1024]; /* of the probes, in order; the last is repeated */
static size_t n_rates, next_rate;
static char order[4096]; /* what was run: 'p' a probe, else the item's letter */
static size_t n_order;

double probe_rate(const probe *p, probe_kind kind, uint32_t threads)
{
    (void)p, (void)kind, (void)threads;
    order[n_order++] = 'p';
    const double rate = rates[next_rate];
    next_rate += next_rate + 1 < n_rates;
    return rate;
}

static double now;

double clock_seconds(void)
{
    return now;
}

static bool run_letter(bench_item *item, bench_sample *sample)
{
    order[n_order++] = *(const char *)item->owner;
    sample->seconds = 1;
    now += 1;
    return true;
}

static bool run_failing(bench_item *item, bench_sample *sample)
{
    (void)sample;
    return item->blocks < 2;
}

static bench_item item_of(const char *letter, uint32_t threads)
{
    return (bench_item){.run = run_letter, .owner = (void *)letter, .threads = threads, .work = 100};
}

static void play(const double *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rates[i] = list[i];
    n_rates = n;
    next_rate = n_order = 0;
}

enum { ONE = 1, TWO }; /* threads */

/* ---- tests ---- */

static void blocks_take_turns_between_probes(void **state)
{
    (void)state;
    const double steady[] = {10};
    bench_item items[] = {item_of("a", ONE), item_of("b", ONE), item_of("c", TWO)};
    play(steady, 1);
    assert_true(bench_rounds(NULL, items, 3, 0));
    order[n_order] = '\0';
    assert_string_equal(order, "papbppcp"
                               "papbppcp"
                               "papbppcp"); /* a probe serves two blocks of the same threads */
    for (int i = 0; i < 3; i++)
        assert_int_equal(items[i].blocks, BENCH_MIN_BLOCKS);
}

static void rounds_end_at_the_most_blocks(void **state)
{
    (void)state;
    const double steady[] = {10};
    bench_item item = item_of("a", ONE);
    play(steady, 1);
    assert_true(bench_rounds(NULL, &item, 1, 1e9));
    assert_int_equal(item.blocks, BENCH_MAX_BLOCKS);
    item = item_of("a", ONE);
    item.run = run_failing;
    assert_false(bench_rounds(NULL, &item, 1, 1e9));
    assert_int_equal(item.blocks, 2);
}

static void moved_probe_drops_the_block(void **state)
{
    (void)state;
    const double moving[] = {10, 9, 9, 7.9, 7.9, 7.9}; /* exactly a tenth is kept, more is not; then a rise */
    bench_item item = item_of("a", ONE);
    play(moving, 6);
    assert_true(bench_rounds(NULL, &item, 1, 0));
    assert_true(item.samples[0].is_kept);
    assert_true(item.samples[1].is_kept);
    assert_false(item.samples[2].is_kept);
    assert_true(item.samples[0].rate == 9.5);
    const bench_statistic s = bench_statistics(&item, bench_seconds);
    assert_int_equal(s.kept, 2);
    assert_int_equal(s.dropped, 1);
    assert_true(isnan(s.median) && isnan(s.least) && isnan(s.most)); /* two are too few */
}

/* Blocks of one second. */
static void rounds_go_on_while_too_few_are_kept(void **state)
{
    (void)state;
    double rates_of_noise[40];
    for (int i = 0; i < 40; i++)
        rates_of_noise[i] = i % 2 ? 5 : 10;
    bench_item item = item_of("a", ONE);
    play(rates_of_noise, 1); /* steady */
    assert_true(bench_rounds(NULL, &item, 1, 8));
    assert_int_equal(item.blocks, 8);
    item = item_of("a", ONE);
    play(rates_of_noise, 40);
    assert_true(bench_rounds(NULL, &item, 1, 8));
    assert_int_equal(item.blocks, 12); /* half as many again */
    assert_int_equal(bench_statistics(&item, bench_seconds).dropped, 12);
    item = item_of("a", ONE);
    play(rates_of_noise, 9); /* quiet from the ninth block on */
    assert_true(bench_rounds(NULL, &item, 1, 8));
    assert_int_equal(item.blocks, 11);
    assert_int_equal(bench_statistics(&item, bench_seconds).kept, BENCH_MIN_BLOCKS);
}

static void median_of_kept_blocks_only(void **state)
{
    (void)state;
    bench_item item = item_of("a", ONE);
    const double seconds[] = {5, 1, 100, 3, 4};
    for (int i = 0; i < 5; i++)
        item.samples[i] = (bench_sample){.seconds = seconds[i], .rate = 50, .is_kept = i != 2};
    item.blocks = 5;
    const bench_statistic s = bench_statistics(&item, bench_seconds);
    assert_true(s.median == 3.5 && s.least == 1 && s.most == 5);
    assert_int_equal(s.kept, 4);
    assert_int_equal(s.dropped, 1);
    assert_true(bench_statistics(&item, bench_share_of_peak).most == 2); /* 100 at 50 per second, in 1 second */
    item.work = 0;
    assert_true(isnan(bench_statistics(&item, bench_share_of_peak).median)); /* no limit known */
}

static void quotients_go_by_round(void **state)
{
    (void)state;
    bench_item above = item_of("a", ONE), below = item_of("b", TWO);
    for (int i = 0; i < 4; i++) {
        above.samples[i] = (bench_sample){.seconds = 10 * (i + 1), .is_kept = i != 3};
        below.samples[i] = (bench_sample){.seconds = i + 1, .is_kept = true};
    }
    above.blocks = below.blocks = 4;
    bench_statistic s = bench_quotients(&above, &below, bench_seconds);
    assert_true(s.median == 10 && s.least == 10 && s.most == 10);
    assert_int_equal(s.dropped, 1);
    below.samples[0].is_kept = false;
    s = bench_quotients(&above, &below, bench_seconds);
    assert_true(isnan(s.median));
    assert_int_equal(s.dropped, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_take_turns_between_probes),
        cmocka_unit_test(rounds_end_at_the_most_blocks),
        cmocka_unit_test(moved_probe_drops_the_block),
        cmocka_unit_test(median_of_kept_blocks_only),
        cmocka_unit_test(quotients_go_by_round),
        cmocka_unit_test(rounds_go_on_while_too_few_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
