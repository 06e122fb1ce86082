/* Shapes and limits: every bad one is refused by the name of its field, and memory is what was planned. */
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Neither planned nor created, and nothing allocated. */
static void refused(const qsa_config *config, qsa_status status, const char *part)
{
    world_memory memory = {0};
    qsa_allocator allocator = world_allocator(&memory);
    qsa_config watched = *config;
    watched.allocator = &allocator;
    qsa_memory_plan plan, before;
    memset(&plan, 0x5a, sizeof plan);
    before = plan;
    qsa_cache *cache = NULL;
    world_refused(status, part, qsa_plan_memory(&watched, &plan));
    world_refused(status, part, qsa_cache_create(&watched, &cache));
    assert_null(cache);
    assert_int_equal(memory.calls, 0);
    assert_memory_equal(&plan, &before, sizeof plan);
}

#define REFUSED(status, part, ...)                                                                                     \
    do {                                                                                                               \
        qsa_config config = world_mini();                                                                              \
        __VA_ARGS__;                                                                                                   \
        refused(&config, status, part);                                                                                \
    } while (0)

static void every_bad_shape_is_refused_by_name(void **state)
{
    (void)state;
    REFUSED(QSA_E_ARGUMENT, "size_bytes", config.size_bytes = 0);
    REFUSED(QSA_E_ARGUMENT, "size_bytes", config.size_bytes -= 8);
    REFUSED(QSA_E_ARGUMENT, "layers", config.layers = 0);
    REFUSED(QSA_E_ARGUMENT, "q_heads", config.q_heads = 0);
    REFUSED(QSA_E_ARGUMENT, "kv_heads", config.kv_heads = 0);
    REFUSED(QSA_E_ARGUMENT, "q_heads 3 is not a multiple of kv_heads 2", config.q_heads = 3, config.kv_heads = 2);
    REFUSED(QSA_E_ARGUMENT, "q_heads 2 is not a multiple of kv_heads 4", config.kv_heads = 4);
    REFUSED(QSA_E_ARGUMENT, "head_dim", config.head_dim = 0);
    REFUSED(QSA_E_ARGUMENT, "index_heads", config.index_heads = 0);
    REFUSED(QSA_E_ARGUMENT, "index_dim", config.index_dim = 0);
    REFUSED(QSA_E_ARGUMENT, "ratio", config.ratio = 0);
    REFUSED(QSA_E_ARGUMENT, "ratio is 3", config.ratio = 3);
    REFUSED(QSA_E_LIMIT, "ratio", config.ratio = 128, config.budget = 2048);
    REFUSED(QSA_E_ARGUMENT, "budget", config.budget = 0);
    REFUSED(QSA_E_ARGUMENT, "budget 2050", config.budget = 2050);
    REFUSED(QSA_E_ARGUMENT, "rotary_dim", config.rotary_dim = 0);
    REFUSED(QSA_E_ARGUMENT, "rotary_dim is 3", config.rotary_dim = 3);
    REFUSED(QSA_E_ARGUMENT, "rotary_dim 10", config.rotary_dim = 10);
    REFUSED(QSA_E_ARGUMENT, "rotary_dim 8", config.rotary_dim = 8, config.index_dim = 6);
    REFUSED(QSA_E_ARGUMENT, "sections", config.sections[0] = 2);
    REFUSED(QSA_E_ARGUMENT, "sections", config.sections[0] = UINT32_MAX, config.sections[1] = 3);
    REFUSED(QSA_E_ARGUMENT, "theta", config.theta = 1);
    REFUSED(QSA_E_ARGUMENT, "theta", config.theta = 0);
    REFUSED(QSA_E_ARGUMENT, "theta", config.theta = NAN);
    REFUSED(QSA_E_ARGUMENT, "theta", config.theta = INFINITY);
    REFUSED(QSA_E_ARGUMENT, "eps", config.eps = 0);
    REFUSED(QSA_E_ARGUMENT, "eps", config.eps = -1e-6f);
    REFUSED(QSA_E_ARGUMENT, "eps", config.eps = NAN);
    REFUSED(QSA_E_ARGUMENT, "yarn.factor", config.yarn.factor = -1);
    REFUSED(QSA_E_ARGUMENT, "yarn.factor", config.yarn.factor = NAN);
    REFUSED(QSA_E_ARGUMENT, "yarn.original_context", config.yarn.factor = 2);
    REFUSED(QSA_E_ARGUMENT, "yarn.beta_fast", config.yarn = (qsa_yarn){2, 4096, 0, 1, 0});
    REFUSED(QSA_E_ARGUMENT, "yarn.beta_slow", config.yarn = (qsa_yarn){2, 4096, 32, INFINITY, 0});
    REFUSED(QSA_E_ARGUMENT, "yarn.attention_factor", config.yarn = (qsa_yarn){2, 4096, 32, 1, -1});
    REFUSED(QSA_E_ARGUMENT, "kv_type", config.kv_type = QSA_KV_TYPE_COUNT);
    REFUSED(QSA_E_ARGUMENT, "kv_type", config.kv_type = (qsa_kv_type)-1);
    REFUSED(QSA_E_ARGUMENT, "q8_0", (config.kv_type = QSA_KV_Q8_0, config.head_dim = 272));
    REFUSED(QSA_E_ARGUMENT, "profile", config.profile = QSA_PROFILE_COUNT);
    REFUSED(QSA_E_ARGUMENT, "capacity_tokens", config.capacity_tokens = 0);
    REFUSED(QSA_E_ARGUMENT, "max_sequences", config.max_sequences = 0);
    REFUSED(QSA_E_ARGUMENT, "max_step_tokens", config.max_step_tokens = 0);
    REFUSED(QSA_E_ARGUMENT, "max_parts", config.max_parts = 0);
    qsa_cache *cache = NULL;
    qsa_memory_plan plan;
    qsa_config config = world_mini();
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_plan_memory(NULL, &plan));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_plan_memory(&config, NULL));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_cache_create(NULL, &cache));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_cache_create(&config, NULL));
}

/* At the limit a shape is planned, one beyond it is refused. */
#define LIMIT(field, most)                                                                                             \
    do {                                                                                                               \
        qsa_config config = world_mini();                                                                              \
        qsa_memory_plan plan;                                                                                          \
        config.field = (most);                                                                                         \
        world_ok(qsa_plan_memory(&config, &plan));                                                                     \
        config.field = (most) + 1;                                                                                     \
        refused(&config, QSA_E_LIMIT, #field);                                                                         \
    } while (0)

static void limits_hold_to_the_last_one(void **state)
{
    (void)state;
    LIMIT(layers, QSA_MAX_LAYERS);
    LIMIT(q_heads, QSA_MAX_Q_HEADS);
    LIMIT(head_dim, QSA_MAX_DIM);
    LIMIT(index_dim, QSA_MAX_DIM);
    LIMIT(index_heads, QSA_MAX_Q_HEADS);
    LIMIT(max_sequences, QSA_MAX_SEQUENCES);
    LIMIT(max_step_tokens, QSA_MAX_STEP_TOKENS);
    LIMIT(max_parts, QSA_MAX_PARTS);
    REFUSED(QSA_E_LIMIT, "budget", config.budget = QSA_MAX_BUDGET + 4);
    REFUSED(QSA_E_LIMIT, "ratio", config.ratio = QSA_MAX_RATIO + 1);
    REFUSED(QSA_E_LIMIT, "attention_factor", config.yarn = (qsa_yarn){2, 4096, 32, 1, 1025});
    qsa_config config = world_mini();
    qsa_memory_plan plan;
    config.budget = QSA_MAX_BUDGET;
    config.ratio = QSA_MAX_RATIO;
    world_ok(qsa_plan_memory(&config, &plan));
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    REFUSED(QSA_E_LIMIT, "capacity_tokens", config.capacity_tokens = UINT64_MAX);
    REFUSED(QSA_E_LIMIT, "capacity_tokens", config.capacity_tokens = INT64_MAX);
    REFUSED(QSA_E_LIMIT, "2^63", config.capacity_tokens = (uint64_t)UINT32_MAX * 32, config.layers = QSA_MAX_LAYERS,
            config.q_heads = config.kv_heads = QSA_MAX_Q_HEADS, config.head_dim = QSA_MAX_DIM);
    qsa_config config = world_mini(); /* large and legal: only the allocator can say no */
    qsa_memory_plan plan;
    config.capacity_tokens = (uint64_t)UINT32_MAX * 32;
    config.max_sequences = QSA_MAX_SEQUENCES;
    world_ok(qsa_plan_memory(&config, &plan));
    assert_true(plan.total_bytes > (uint64_t)1 << 40);
}

static void norm_weights_are_checked_when_the_cache_is_made(void **state)
{
    (void)state;
    static const char *const names[] = {"q", "k", "index_q", "index_k"};
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0x1.000002p40f, -0x1p41f};
    for (int layer = 0; layer < 3; layer++)
        for (int tensor = 0; tensor < 4; tensor++) {
            float weights[8] = {1, 1, -0x1p40f, 1, 0x1p40f, 1, 0, -0.0f};
            qsa_norm_weights norms[3] = {{0}};
            const float **slots[] = {&norms[layer].q, &norms[layer].k, &norms[layer].index_q, &norms[layer].index_k};
            *slots[tensor] = weights;
            world_memory memory = {0};
            qsa_allocator allocator = world_allocator(&memory);
            qsa_config config = world_mini();
            config.norms = norms;
            config.allocator = &allocator;
            qsa_cache *cache = world_create(&config); /* up to 2^40, any sign */
            qsa_cache_destroy(cache);
            char expected[64];
            snprintf(expected, sizeof expected, "layer %d: norm weight %s[5]", layer, names[tensor]);
            for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                weights[5] = bad[i];
                cache = NULL;
                world_refused(QSA_E_NONFINITE, expected, qsa_cache_create(&config, &cache));
                assert_null(cache);
                assert_int_equal(memory.live_bytes, 0);
            }
        }
}

/* ---- memory ---- */

static void plan_equals_what_is_allocated(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 4, 4096, 262144};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kv = 0; kv < QSA_KV_TYPE_COUNT; kv++)
            for (int profile = 0; profile < QSA_PROFILE_COUNT; profile++) {
                world_memory memory = {0};
                qsa_allocator allocator = world_allocator(&memory);
                qsa_config config = world_mini();
                qsa_memory_plan plan;
                config.layers = 2;
                config.capacity_tokens = sizes[i];
                world_kv_type(&config, kv);
                config.profile = (qsa_profile)profile;
                config.allocator = &allocator;
                world_ok(qsa_plan_memory(&config, &plan));
                qsa_cache *cache = world_create(&config);
                assert_int_equal(memory.live_bytes, plan.total_bytes);
                assert_int_equal(plan.total_bytes, plan.kv_bytes + plan.index_bytes + plan.table_bytes +
                                                       plan.scratch_bytes + plan.weight_bytes);
                assert_int_equal(plan.device_bytes, 0);
                assert_int_equal(plan.pages, (sizes[i] + 63) / 64);
                assert_int_equal(qsa_cache_free_tokens(cache), plan.pages * QSA_PAGE_TOKENS);
                static const uint64_t row_bytes[QSA_KV_TYPE_COUNT] = {8 * 4, 8 * 2, 8 * 2, 34};
                uint64_t of_index = profile == QSA_PROFILE_F32 ? 4 : 2;
                assert_int_equal(plan.bytes_per_token, 2 * (2 * row_bytes[kv] + 8 * of_index + 2 * of_index) + 12);
                qsa_cache_destroy(cache);
                assert_int_equal(memory.live_bytes, 0);
            }
}

static void released_shape_takes_the_bytes_that_were_promised(void **state)
{
    (void)state;
    qsa_config config;
    qsa_memory_plan plan, small;
    qsa_config_init(&config);
    config.max_step_tokens = 2048;
    world_ok(qsa_plan_memory(&config, &plan));
    assert_true(plan.scratch_bytes <= UINT64_C(64) << 20);
    assert_int_equal(plan.kv_bytes, UINT64_C(262144) * 12 * 2 * 2 * 256 * 2);
    /* raw keys 3,072 bytes a token, pooled keys 768, a triple 12; there is no second, unread half */
    assert_int_equal(plan.index_bytes, UINT64_C(262144) * (12 * 128 * 2 + 12 * 128 * 2 / 4 + 12));
    config.capacity_tokens = 4096;
    world_ok(qsa_plan_memory(&config, &small));
    assert_int_equal(small.scratch_bytes, plan.scratch_bytes);
    config.layers = 1;
    world_ok(qsa_plan_memory(&config, &small));
    assert_true(small.scratch_bytes <= plan.scratch_bytes);
}

static void config_comes_back_without_pointers(void **state)
{
    (void)state;
    qsa_config config = world_mini(), back;
    qsa_norm_weights norms[3] = {{0}};
    config.norms = norms;
    qsa_cache *cache = world_create(&config);
    world_ok(qsa_cache_config(cache, &back));
    assert_null(back.norms);
    assert_null(back.allocator);
    assert_int_equal(back.budget, config.budget);
    assert_int_equal(back.size_bytes, sizeof back);
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_cache_config(cache, NULL));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_cache_config(NULL, &back));
    qsa_cache_destroy(cache);
    qsa_cache_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bad_shape_is_refused_by_name),
        cmocka_unit_test(limits_hold_to_the_last_one),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(norm_weights_are_checked_when_the_cache_is_made),
        cmocka_unit_test(plan_equals_what_is_allocated),
        cmocka_unit_test(released_shape_takes_the_bytes_that_were_promised),
        cmocka_unit_test(config_comes_back_without_pointers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
