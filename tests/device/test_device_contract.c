/* Every operation of the table on a device against the scalar kernels, bit for bit: shapes, storage types, strides,
 * sizes that do not divide, numbers of work-groups, widths of vectors. */
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    const char *name;
    uint32_t q_heads, kv_heads, head_dim, index_heads, index_dim, rotary_dim, ratio, budget;
    qsa_kv_type kv;
    qsa_profile profile;
    uint32_t width; /* of the device's vectors; 0: its own */
} shape;

static const shape shapes[] = {
    {"mini", 2, 1, 8, 1, 8, 8, 4, 8, QSA_KV_F32, QSA_PROFILE_F32, 0},
    {"bf16", 6, 2, 64, 4, 32, 16, 4, 48, QSA_KV_BF16, QSA_PROFILE_BF16, 0},
    {"ratio 1, odd sizes, f16", 3, 1, 22, 3, 14, 6, 1, 21, QSA_KV_F16, QSA_PROFILE_BF16, 0},
    {"ratio 2, q8_0", 10, 2, 32, 2, 16, 10, 2, 30, QSA_KV_Q8_0, QSA_PROFILE_F32, 0},
    {"ratio 16, q8_0", 5, 1, 96, 5, 24, 2, 16, 64, QSA_KV_Q8_0, QSA_PROFILE_BF16, 0},
    {"ratio 64, no query shared", 4, 4, 20, 1, 20, 20, 64, 64, QSA_KV_F16, QSA_PROFILE_F32, 0},
    {"work-items alone", 6, 2, 32, 4, 16, 16, 4, 48, QSA_KV_Q8_0, QSA_PROFILE_BF16, 1},
    {"vectors of 4", 6, 2, 24, 3, 16, 16, 2, 24, QSA_KV_BF16, QSA_PROFILE_F32, 4},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, LAYERS = 2, PAGES = 24, STEP_TOKENS = 200 };

static qsa_config config_of(const shape *s)
{
    qsa_config config;
    qsa_config_init(&config);
    config.max_sequences = BATCH_ENTRIES;
    config.layers = LAYERS;
    config.q_heads = s->q_heads;
    config.kv_heads = s->kv_heads;
    config.head_dim = s->head_dim;
    config.index_heads = s->index_heads;
    config.index_dim = s->index_dim;
    config.rotary_dim = s->rotary_dim;
    config.ratio = s->ratio;
    config.budget = s->budget;
    config.kv_type = s->kv;
    config.profile = s->profile;
    memset(config.sections, 0, sizeof config.sections);
    config.capacity_tokens = PAGES * QSA_PAGE_TOKENS;
    config.max_step_tokens = STEP_TOKENS;
    config.max_parts = 3;
    return config;
}

/* Steps of one to three sequences: first tokens, single tokens deep in a run, chunks, windows. */
static void make_random_batch(random_batch *b, const twins *t, random_source *r)
{
    batch_plan plans[3];
    const uint32_t n = (uint32_t)random_between(r, 1, 3);
    for (uint32_t e = 0; e < n; e++) {
        plans[e] = (batch_plan){.stored = random_chance(r, 4) ? 0 : random_between(r, 0, 350),
                                .tokens = random_chance(r, 2) ? 1 : (uint32_t)random_between(r, 1, 60),
                                .first_slot = (uint32_t)random_between(r, 0, 63) / t->config.ratio * t->config.ratio,
                                .window = random_chance(r, 3) ? (uint32_t)random_between(r, 1, 40) : 0};
        if (plans[e].stored == 0 && random_chance(r, 2))
            plans[e].first_slot = 0;
    }
    batch_make(b, t, plans, n, r);
}

static void check_pages(twins *t, random_source *r)
{
    const qsa_operations *host = t->host.store->operations, *device = t->device.store->operations;
    const uint32_t a = (uint32_t)random_between(r, 0, PAGES - 1),
                   b = (a + 1 + (uint32_t)random_between(r, 0, PAGES - 2)) % PAGES;
    assert_int_equal(host->copy_page(t->host.store, a, b), QSA_OK);
    assert_int_equal(device->copy_page(t->device.store, a, b), QSA_OK);
    assert_int_equal(twins_differ(t), 0);
    twins_fill(t, r);
    assert_int_equal(host->swap_pages(t->host.store, a, b), QSA_OK);
    assert_int_equal(device->swap_pages(t->device.store, a, b), QSA_OK);
    assert_int_equal(twins_differ(t), 0);
    for (int i = 0; i < 8; i++) {
        const uint32_t from = (uint32_t)random_between(r, 0, 63), to = (uint32_t)random_between(r, 0, 63);
        const uint32_t n = (uint32_t)random_between(r, 1, QSA_PAGE_TOKENS - (from > to ? from : to));
        assert_int_equal(host->copy_slots(t->host.store, (qsa_place){a, from}, (qsa_place){b, to}, n), QSA_OK);
        assert_int_equal(device->copy_slots(t->device.store, (qsa_place){a, from}, (qsa_place){b, to}, n), QSA_OK);
    }
    assert_int_equal(twins_differ(t), 0);
    const uint32_t groups = t->layout.page_groups, first = (uint32_t)random_between(r, 0, groups - 1);
    const uint32_t n = (uint32_t)random_between(r, 1, groups - first);
    float *cos_sin = test_alloc((size_t)n * 2 * t->rotary.pairs, sizeof *cos_sin);
    for (size_t i = 0; i < (size_t)n * 2 * t->rotary.pairs; i++)
        cos_sin[i] = random_float(r, ORDINARY, 0);
    const qsa_place place = {a, first * t->config.ratio};
    assert_int_equal(host->pool(t->host.store, place, n, cos_sin), QSA_OK);
    assert_int_equal(device->pool(t->device.store, place, n, cos_sin), QSA_OK);
    assert_int_equal(twins_differ(t), 0);
    free(cos_sin);
}

static void check_shape(const shape *s, uint32_t work_groups, uint64_t seed, int batches)
{
    random_source r = {seed};
    const qsa_config config = config_of(s);
    qsa_opencl_device *device = device_open((qsa_opencl_options){.work_groups = work_groups, .width = s->width});
    twins t;
    twins_open(&t, &config, device);
    twins_fill(&t, &r);
    check_pages(&t, &r);
    for (int i = 0; i < batches; i++) {
        random_batch b;
        make_random_batch(&b, &t, &r);
        const uint64_t differ = twins_run(&t, &b, (uint32_t)i % LAYERS, &r);
        if (differ != 0)
            fail_msg("shape '%s', %u work-groups, seed %llu, batch %d: %llu differences", s->name, work_groups,
                     (unsigned long long)seed, i, (unsigned long long)differ);
        batch_free(&b);
    }
    assert_int_equal(t.host.work.keys_pooled, t.device.work.keys_pooled);
    assert_int_equal(t.host.work.groups_scored, t.device.work.groups_scored);
    assert_int_equal(t.host.work.groups_chosen, t.device.work.groups_chosen);
    assert_int_equal(t.host.work.k_rows_read, t.device.work.k_rows_read);
    twins_close(&t);
    qsa_opencl_close(device);
}

static void every_shape_equals_the_scalar_kernels(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        check_shape(&shapes[i], 0, 100 + (uint64_t)i, 12);
}

static void work_groups_cannot_be_seen(void **state)
{
    static const uint32_t counts[] = {1, 2, 7, 64};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        check_shape(&shapes[1], counts[i], 200, 6);
        check_shape(&shapes[6], counts[i], 201, 6);
    }
}

/* ---- what may not enter ---- */

static uint64_t refusal_of(twin *one, random_batch *b, const qsa_layer_io *io)
{
    qsa_batch batch = b->batch;
    batch.refusals = &one->refusals;
    qsa_refusals_begin(&one->refusals);
    assert_int_equal(one->store->operations->begin(one->store, &batch), QSA_OK);
    assert_int_equal(twin_layer(one, &batch, io, 1), QSA_OK);
    return atomic_load(&one->refusals.lowest);
}

/* The lowest (entry, token, tensor) is the one reported, on the device as on the host. */
static void refusals_are_the_hosts(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0x1.000002p56f, -0x1p57f};
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        random_source r = {300 + (uint64_t)s};
        const qsa_config config = config_of(&shapes[s]);
        qsa_opencl_device *device = device_open((qsa_opencl_options){.width = shapes[s].width});
        twins t;
        twins_open(&t, &config, device);
        twins_fill(&t, &r);
        for (int i = 0; i < 20; i++) {
            random_batch b;
            layer_input in;
            make_random_batch(&b, &t, &r);
            input_make(&in, &t, 0, b.batch.n_tokens, i % 4 != 0, &r);
            for (size_t n = random_between(&r, 0, 3); n > 0; n--) {
                const int tensor = (int)random_between(&r, 0, 4);
                const uint32_t dim = tensor < 3 ? config.head_dim : config.index_dim;
                const uint32_t heads = tensor == 0   ? config.q_heads
                                       : tensor < 3  ? config.kv_heads
                                       : tensor == 3 ? config.index_heads
                                                     : 1;
                *input_element(&in, tensor, (uint32_t)random_between(&r, 0, b.batch.n_tokens - 1),
                               (uint32_t)random_between(&r, 0, heads - 1), (uint32_t)random_between(&r, 0, dim - 1)) =
                    bad[random_between(&r, 0, sizeof bad / sizeof *bad - 1)];
            }
            if (i % 3 == 0) /* finite, but more than f16 and q8_0 hold */
                *input_element(&in, 2, b.batch.n_tokens - 1, 0, 0) = 0x1p40f;
            assert_int_equal(refusal_of(&t.host, &b, &in.io), refusal_of(&t.device, &b, &in.io));
            input_free(&in);
            batch_free(&b);
        }
        twins_close(&t);
        qsa_opencl_close(device);
    }
}

/* What just fits and what just does not, in K after its norm and in V. */
static void storage_edges_are_the_hosts(void **state)
{
    static const int with_edges[] = {2, 3};
    static const float edges[] = {65519.99f, 65520.0f, 127 * 65519.0f, 127 * 65520.0f, 0x1p-149f, 0x1p-25f, 0.0f};
    (void)state;
    for (size_t s = 0; s < sizeof with_edges / sizeof *with_edges; s++)
        for (size_t edge = 0; edge < sizeof edges / sizeof *edges; edge++)
            for (int tensor = 1; tensor <= 2; tensor++) {
                random_source r = {400 + edge};
                const qsa_config config = config_of(&shapes[with_edges[s]]);
                qsa_opencl_device *device = device_open((qsa_opencl_options){0});
                twins t;
                twins_open(&t, &config, device);
                twins_fill(&t, &r);
                random_batch b;
                layer_input in;
                batch_make(&b, &t, &(batch_plan){.stored = 5, .tokens = 3}, 1, &r);
                input_make(&in, &t, 0, 3, false, &r);
                for (uint32_t d = 0; d < config.head_dim; d++) /* a lone large K has a norm of sqrt(dim) */
                    *input_element(&in, tensor, 1, 0, d) = d == 0 ? edges[edge] : 0.0f;
                const uint64_t expected = refusal_of(&t.host, &b, &in.io);
                assert_int_equal(expected, refusal_of(&t.device, &b, &in.io));
                if (expected == UINT64_MAX)
                    assert_int_equal(twins_differ(&t), 0);
                input_free(&in);
                batch_free(&b);
                twins_close(&t);
                qsa_opencl_close(device);
            }
}

/* V of the first head and K of the second do not fit: K comes first, whatever the heads. */
static void refusals_go_by_tensor_not_by_head(void **state)
{
    (void)state;
    random_source r = {600};
    const qsa_config config = config_of(&shapes[6]);
    qsa_opencl_device *device = device_open((qsa_opencl_options){.width = shapes[6].width});
    twins_weights = 0x1p30f;
    twins t;
    twins_open(&t, &config, device);
    twins_weights = 3;
    twins_fill(&t, &r);
    random_batch b;
    layer_input in;
    batch_make(&b, &t, &(batch_plan){.stored = 5, .tokens = 2}, 1, &r);
    input_make(&in, &t, 0, 2, false, &r);
    for (uint32_t token = 0; token < 2; token++)
        for (uint32_t d = 0; d < config.head_dim; d++) {
            *input_element(&in, 1, token, 0, d) = 0;
            *input_element(&in, 1, token, 1, d) = 1;
            *input_element(&in, 2, token, 0, d) = 0x1p40f;
        }
    const uint64_t expected = refusal_of(&t.host, &b, &in.io);
    assert_int_equal(expected % 8, QSA_INPUT_K_STORED);
    assert_int_equal(expected, refusal_of(&t.device, &b, &in.io));
    input_free(&in);
    batch_free(&b);
    twins_close(&t);
    qsa_opencl_close(device);
}

/* ---- planted faults ---- */

/* Differences that ordinary batches show on a device whose kernels were built with a fault. */
static uint64_t differences_with(const char *defines, bool ties)
{
    random_source r = {500};
    const qsa_config config = config_of(&shapes[1]);
    qsa_opencl_device *device = device_open((qsa_opencl_options){.defines = defines});
    twins t;
    twins_open(&t, &config, device);
    twins_fill(&t, &r);
    if (ties) { /* all groups alike */
        uint8_t *page = test_alloc(t.layout.page_stride[QSA_ARENA_POOLED], 1);
        for (uint32_t p = 0; p < PAGES; p++)
            twins_put(&t, QSA_ARENA_POOLED, 0, p, page);
        free(page);
    }
    random_batch b;
    batch_make(&b, &t, &(batch_plan){.stored = 400, .tokens = 9}, 1, &r);
    uint64_t differ = 0;
    for (int i = 0; i < 8; i++)
        differ += twins_run(&t, &b, 0, &r);
    batch_free(&b);
    twins_close(&t);
    qsa_opencl_close(device);
    return differ;
}

static void planted_faults_are_seen(void **state)
{
    (void)state;
    assert_int_equal(differences_with(NULL, false), 0);
    assert_int_equal(differences_with(NULL, true), 0);
    assert_int_not_equal(differences_with("-DQSA_PLANT_CONTRACTION", false), 0);
    assert_int_not_equal(differences_with("-DQSA_PLANT_ARRIVAL", true), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_equals_the_scalar_kernels),
        cmocka_unit_test(work_groups_cannot_be_seen),
        cmocka_unit_test(refusals_are_the_hosts),
        cmocka_unit_test(storage_edges_are_the_hosts),
        cmocka_unit_test(refusals_go_by_tensor_not_by_head),
        cmocka_unit_test(planted_faults_are_seen),
    };
    device_or_skip();
    if (argc > 1) /* one test alone */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
