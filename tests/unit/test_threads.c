/* The pool of threads: its limits, and the same bits as one part, for any count and any number of layers. */
#include "world.h"

#include <fenv.h>
#include <stdatomic.h>
#include <stdio.h>

static void counts_have_limits(void **state)
{
    (void)state;
    qsa_threads *threads = NULL;
    world_refused(QSA_E_ARGUMENT, "0 is not", qsa_threads_create(0, &threads));
    world_refused(QSA_E_ARGUMENT, "1025 is not", qsa_threads_create(QSA_MAX_PARTS + 1, &threads));
    world_refused(QSA_E_ARGUMENT, "threads", qsa_threads_create(2, NULL));
    assert_null(threads);
    for (uint32_t count = 1; count <= 9; count += 4) {
        world_ok(qsa_threads_create(count, &threads));
        assert_int_equal(qsa_threads_count(threads), count);
        qsa_threads_destroy(threads); /* without ever having worked */
    }
    qsa_threads_destroy(NULL);
    assert_int_equal(qsa_threads_count(NULL), 0);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    world_batch one = world_batch_open(&config, 60, 1), many = world_batch_open(&config, 60, 1);
    for (uint32_t chunk = 1; chunk <= 60; chunk = chunk * 3 + 4) {
        uint64_t digest = world_solo(&config, 0, &one, chunk, (world_way){0});
        for (uint32_t count = 1; count <= 11; count += count < 3 ? 1 : 4) {
            qsa_threads *threads;
            world_ok(qsa_threads_create(count, &threads));
            assert_int_equal(world_solo(&config, 0, &many, chunk, (world_way){.threads = threads}), digest);
            world_same("threads", &one, 0, &many, 0, 60);
            qsa_threads_destroy(threads);
        }
    }
    world_batch_close(&one);
    world_batch_close(&many);
}

typedef struct round_log {
    uint32_t parts;
    atomic_uint runs[16]; /* of each part */
    bool rounds_up[16];   /* whether a part rounds so, and not to nearest */
    int rounding[16];     /* what a part's environment says; the caller's may say what it computes by no longer */
} round_log;

static void note_part(void *context, uint32_t part, uint32_t parts)
{
    round_log *log = context;
    if (part == 0)
        log->parts = parts;
    volatile float one = 1, tiny = 1e-20f;
    log->rounds_up[part] = one + tiny > 1;
    log->rounding[part] = fegetround();
    atomic_fetch_add(&log->runs[part], 1);
}

static void every_part_runs_once_a_round_in_the_default_environment(void **state)
{
    (void)state;
    enum { ROUNDS = 200 };
    for (uint32_t count = 1; count <= 16; count += count < 4 ? 1 : 4) {
        qsa_threads *threads;
        round_log log = {0};
        assert_int_equal(fesetround(FE_UPWARD), 0);
        world_ok(qsa_threads_create(count, &threads));
        for (unsigned i = 0; i < ROUNDS; i++)
            world_ok(qsa_threads_run(threads, note_part, &log));
        assert_int_equal(fegetround(), FE_UPWARD); /* the caller's is as it was */
        assert_int_equal(fesetround(FE_TONEAREST), 0);
        assert_int_equal(log.parts, count);
        for (uint32_t part = 0; part < 16; part++) {
            assert_int_equal(log.runs[part], part < count ? ROUNDS : 0);
            assert_false(log.rounds_up[part]);
            assert_true(part == 0 || part >= count || log.rounding[part] == FE_TONEAREST);
        }
        qsa_threads_destroy(threads);
    }
    world_refused(QSA_E_ARGUMENT, "the pool is NULL", qsa_threads_run(NULL, note_part, NULL));
    qsa_threads *threads;
    world_ok(qsa_threads_create(1, &threads));
    world_refused(QSA_E_ARGUMENT, "work is NULL", qsa_threads_run(threads, NULL, NULL));
    qsa_threads_destroy(threads);
}

static void bad_layers_are_refused_and_the_pool_lives_on(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    qsa_threads *threads;
    qsa_step *step;
    world_ok(qsa_threads_create(3, &threads));
    world_batch batch = world_batch_open(&config, 9, 1);
    qsa_cache *cache = world_create(&config);
    qsa_entry entry = {.seq = world_open(cache), .position = 0, .tokens = 9};
    qsa_tensors tensors = world_tensors(&batch, 0, 0);
    qsa_output out = world_output(&batch, 0, 0);
    world_refused(QSA_E_ORDER, "no step", qsa_threads_layer(threads, NULL, 0, &tensors, &out));
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    world_refused(QSA_E_ARGUMENT, "the pool is NULL", qsa_threads_layer(NULL, step, 0, &tensors, &out));
    world_refused(QSA_E_ARGUMENT, "layer 3", qsa_threads_layer(threads, step, 3, &tensors, &out));
    world_ok(qsa_threads_layer(threads, step, 0, &tensors, &out));
    world_refused(QSA_E_ORDER, "repeated", qsa_threads_layer(threads, step, 0, &tensors, &out));
    qsa_step_abort(step);
    world_step(cache, &entry, 1, &batch, 0, (world_way){.threads = threads}, NULL);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
    qsa_threads_destroy(threads);
}

/* Two places are not finite, in different parts: whichever thread comes first, the lower one is named. */
static void refused_input_is_named_the_same_by_any_threads(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    qsa_threads *threads;
    qsa_step *step;
    world_ok(qsa_threads_create(4, &threads));
    world_batch batch = world_batch_open(&config, 64, 1);
    qsa_cache *cache = world_create(&config);
    const qsa_entry entry = {.seq = world_open(cache), .position = 0, .tokens = 64};
    const float nan = test_float(0x7fc00000);
    for (uint32_t round = 0; round < 40; round++) {
        float *low = world_input(&batch, WORLD_V, 5 + round % 20, 1, NULL);
        float *high = world_input(&batch, WORLD_Q, 60, 1, NULL), saved[] = {*low, *high};
        char expected[64];
        snprintf(expected, sizeof expected, "layer 1, entry 0, token %u: v", 5 + round % 20);
        *low = *high = nan;
        world_ok(qsa_step_begin(cache, &entry, 1, &step));
        world_refused(QSA_E_NONFINITE, expected, world_layers(step, &batch, 0, 64, (world_way){.threads = threads}));
        uint32_t groups[2], n;
        world_refused(QSA_E_NONFINITE, expected, qsa_step_selection(step, 0, groups, &n));
        world_refused(QSA_E_NONFINITE, expected, qsa_step_commit(step, NULL));
        world_ok(qsa_step_begin(cache, &entry, 1, &step));
        const qsa_tensors tensors = world_tensors(&batch, 0, 1);
        const qsa_output out = world_output(&batch, 0, 1);
        world_refused(QSA_E_NONFINITE, expected, qsa_threads_layer(threads, step, 1, &tensors, &out));
        qsa_step_abort(step);
        *low = saved[0];
        *high = saved[1];
    }
    world_step(cache, &entry, 1, &batch, 0, (world_way){.threads = threads}, NULL);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
    qsa_threads_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_have_limits),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(every_part_runs_once_a_round_in_the_default_environment),
        cmocka_unit_test(bad_layers_are_refused_and_the_pool_lives_on),
        cmocka_unit_test(refused_input_is_named_the_same_by_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
