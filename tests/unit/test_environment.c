/* A host's rounding mode and flush-to-zero change no bit, and are the host's again after every call. */
#include "world.h"

#include <fenv.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Ways in which a host may have set its processor. */
static const int roundings[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

#if defined(__x86_64__)
enum { FLUSH = 0x8040 }; /* FTZ and DAZ */
static uint32_t control(void)
{
    return _mm_getcsr() & ~0x3fu; /* without the flags of what has happened */
}
static void set_flush(void)
{
    _mm_setcsr(_mm_getcsr() | FLUSH);
}
#elif defined(__aarch64__)
static uint64_t control(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}
static void set_flush(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(control() | (UINT64_C(1) << 24)) : "memory");
}
#else
static int control(void)
{
    return fegetround();
}
static void set_flush(void) {}
#endif

static fenv_t normal;

static void enter(int rounding, bool flush)
{
    fegetenv(&normal);
    assert_int_equal(fesetround(rounding), 0);
    if (flush)
        set_flush();
}

static void leave(void)
{
    fesetenv(&normal);
}

/* Every call in the host's environment; only the comparing is done in the normal one. */
#define IN_HOST(call)                                                                                                  \
    do {                                                                                                               \
        enter(rounding, flush);                                                                                        \
        const unsigned long long before = (unsigned long long)control();                                               \
        qsa_status status = (call);                                                                                    \
        const unsigned long long after = (unsigned long long)control();                                                \
        leave();                                                                                                       \
        world_ok(status);                                                                                              \
        assert_true(before == after);                                                                                  \
    } while (0)

enum { TOKENS = 60 };

/* Some tokens of ordinary size, some so small that products and sums are subnormal. */
static world_batch tokens_of_all_sizes(const qsa_config *config)
{
    world_batch batch = world_batch_open(config, TOKENS, 1);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (int tensor = 0; tensor < WORLD_INPUTS; tensor++) {
            uint32_t width;
            float *x = world_input(&batch, tensor, t, 0, &width);
            for (uint32_t i = 0; t % 3 == 1 && i < width * config->layers; i++)
                x[i] *= tensor == WORLD_V ? 0x1p-128f : 0x1p-70f;
        }
    return batch;
}

static void run_in(int rounding, bool flush, const qsa_config *config, world_batch *batch, uint64_t *out_digest)
{
    qsa_cache *cache;
    qsa_seq seq;
    qsa_step *step;
    IN_HOST(qsa_cache_create(config, &cache));
    IN_HOST(qsa_seq_open(cache, &seq));
    for (uint32_t at = 0; at < TOKENS; at += 15) {
        qsa_entry entry = {.seq = seq, .position = at, .tokens = 15};
        IN_HOST(qsa_step_begin(cache, &entry, 1, &step));
        IN_HOST(world_layers(step, batch, at, 15, (world_way){.parts = 2}));
        IN_HOST(qsa_step_commit(step, NULL));
    }
    IN_HOST(qsa_seq_evict(cache, seq, 3)); /* re-pools from raw keys */
    IN_HOST(qsa_seq_verify_index(cache, seq));
    IN_HOST(qsa_seq_digest(cache, seq, out_digest));
    qsa_cache_destroy(cache);
}

static void steps_do_not_depend_on_the_host_s_environment(void **state)
{
    (void)state;
    for (int kind = 0; kind < QSA_KV_TYPE_COUNT; kind++) {
        qsa_config config = world_mini();
        world_kv_type(&config, kind);
        config.profile = (qsa_profile)(kind % QSA_PROFILE_COUNT);
        config.yarn = (qsa_yarn){.factor = 4, .original_context = 64, .beta_fast = 32, .beta_slow = 1};
        world_batch expected = tokens_of_all_sizes(&config);
        uint64_t digest = 0, found_digest = 1;
        run_in(FE_TONEAREST, false, &config, &expected, &digest);
        for (int i = 0; i < 2 * ROUNDINGS; i++) {
            world_batch found = tokens_of_all_sizes(&config);
            run_in(roundings[i / 2], i % 2 == 1, &config, &found, &found_digest);
            world_same("host's environment", &expected, 0, &found, 0, TOKENS);
            assert_true(digest == found_digest);
            world_batch_close(&found);
        }
        world_batch_close(&expected);
    }
}

static void plain_functions_do_not_depend_on_it_either(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    float x[32], q[2][16], pooled[2][8], scores[2][2], out[2][16], cos[2][2], sin[2][2];
    const qsa_triple first = {1000, 77, -3};
    qsa_rotary rotary[2];
    test_fill(9, x, 32);
    for (int i = 16; i < 32; i++)
        x[i] *= 0x1p-128f;
    for (int i = 0; i <= 2 * ROUNDINGS; i++) {
        const int rounding = roundings[i == 0 ? 0 : (i - 1) / 2], to = i > 0;
        const bool flush = i > 0 && (i - 1) % 2 == 1;
        IN_HOST(qsa_rotary_init(&config, &rotary[to]));
        IN_HOST(qsa_rotary_cos_sin(&rotary[to], first, cos[to], sin[to]));
        IN_HOST(qsa_norm_rotate(x, 2, 8, NULL, config.eps, 2, cos[to], sin[to], QSA_PROFILE_F32, q[to]));
        IN_HOST(qsa_pool_keys(&config, &rotary[to], x, &first, 1, NULL, pooled[to]));
        IN_HOST(qsa_score(q[to], 2, 8, x, 2, scores[to]));
        IN_HOST(qsa_attend_dense(&config, q[to], x, x + 8, 3, out[to]));
        test_same_floats("cos", cos[0], cos[to], 2);
        test_same_floats("sin", sin[0], sin[to], 2);
        test_same_floats("norm", q[0], q[to], 16);
        test_same_floats("pooled", pooled[0], pooled[to], 8);
        test_same_floats("scores", scores[0], scores[to], 2);
        test_same_floats("attend", out[0], out[to], 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_do_not_depend_on_the_host_s_environment),
        cmocka_unit_test(plain_functions_do_not_depend_on_it_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
