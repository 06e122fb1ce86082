/* Selection on a device through 262,144 tokens and beyond: ties, orders that fill the buffer again and again, budgets
 * of every size, any number of work-groups. The scalar kernels, on the host, say what is right; they are held to a full
 * sort elsewhere. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

enum { DIM = 4 };

/* One index head; a pooled key is (value, 0, 0, 0), so a score is the query's first element times it, rounded. */
static qsa_config config_of(uint32_t ratio, uint32_t budget, uint64_t groups)
{
    qsa_config config;
    qsa_config_init(&config);
    config.max_sequences = BATCH_ENTRIES;
    config.layers = config.q_heads = config.kv_heads = config.index_heads = 1;
    config.head_dim = config.index_dim = DIM;
    config.rotary_dim = 2;
    memset(config.sections, 0, sizeof config.sections);
    config.ratio = ratio;
    config.budget = budget;
    config.kv_type = QSA_KV_F32;
    config.profile = QSA_PROFILE_F32;
    config.capacity_tokens = (groups + 64) * ratio;
    config.max_step_tokens = 40;
    return config;
}

typedef float value_fn(uint64_t group, uint64_t n);

static void fill_keys(twins *t, const qsa_batch_entry *entry, value_fn *value, uint64_t n)
{
    const uint64_t per_page = t->layout.page_groups, before = entry->first_slot / t->config.ratio;
    const uint64_t begin = batch_begin_page(entry), end = batch_end_page(entry);
    float *tile = test_alloc(t->layout.page_stride[QSA_ARENA_POOLED], 1);
    for (uint64_t page = begin; page < end; page++) {
        for (uint64_t lane = 0; lane < per_page; lane++) {
            const uint64_t group = page * per_page + lane - before;
            tile[lane] = group < n ? value(group, n) : test_float(0x7fc00000); /* whoever reads it stands out */
        }
        twins_put(t, QSA_ARENA_POOLED, 0, *qsa_table_at(&entry->table, page), (const uint8_t *)tile);
    }
    free(tile);
    uint8_t *raw =
        test_alloc(t->layout.page_stride[QSA_ARENA_RAW], 1); /* the step completes a group that began before it */
    for (uint64_t page = end - begin < 2 ? begin : end - 2; page < end; page++)
        twins_put(t, QSA_ARENA_RAW, 0, *qsa_table_at(&entry->table, page), raw);
    free(raw);
}

/* A query whose rotation and norm leave it positive in the first dimension and 0 elsewhere. */
static void plain_query(const layer_input *in, const random_batch *b, uint32_t pairs)
{
    for (uint32_t token = 0; token < b->batch.n_tokens; token++)
        for (uint32_t d = 0; d < DIM; d++)
            *input_element(in, 3, token, 0, d) = d == 0 ? 1.0f + (float)(token % 7) : 0.0f;
    for (uint32_t row = 0; row < b->batch.n_rows; row++)
        for (uint32_t pair = 0; pair < pairs; pair++) {
            b->cos_sin[(size_t)row * 2 * pairs + pair] = 1;
            b->cos_sin[(size_t)row * 2 * pairs + pairs + pair] = 0;
        }
}

static void run_one(twin *one, random_batch *b, const qsa_layer_io *io)
{
    qsa_batch batch = b->batch;
    batch.refusals = &one->refusals;
    qsa_refusals_begin(&one->refusals);
    assert_int_equal(one->store->operations->begin(one->store, &batch), QSA_OK);
    assert_int_equal(twin_layer(one, &batch, io, 1), QSA_OK);
    assert_false(qsa_refused(&one->refusals));
}

static void compare(twins *t, const random_batch *b, const char *what)
{
    const uint32_t k = t->config.budget / t->config.ratio;
    uint32_t *expected = test_alloc(k, sizeof *expected), *found = test_alloc(k, sizeof *found);
    for (uint32_t token = 0; token < b->batch.n_tokens; token++) {
        uint32_t n_expected, n_found;
        assert_int_equal(t->host.store->operations->selection(t->host.store, token, expected, &n_expected), QSA_OK);
        assert_int_equal(t->device.store->operations->selection(t->device.store, token, found, &n_found), QSA_OK);
        assert_int_equal(n_expected, n_found);
        test_same_integers(what, (const int32_t *)expected, (const int32_t *)found, n_found);
    }
    free(expected);
    free(found);
}

/* One sequence of `tokens` stored tokens whose keys follow `value`, and a step of n_queries more. */
static void check(const qsa_config *config, qsa_opencl_device *device, uint64_t tokens, uint32_t n_queries,
                  value_fn *value, const char *what)
{
    twins t;
    random_batch b;
    layer_input in;
    random_source r = {tokens};
    twins_open(&t, config, device);
    batch_make(&b, &t,
               &(batch_plan){.stored = tokens, .tokens = n_queries, .first_slot = 8 / config->ratio * config->ratio}, 1,
               &r);
    fill_keys(&t, &b.entries[0], value, tokens / config->ratio);
    input_make(&in, &t, 0, n_queries, true, &r);
    plain_query(&in, &b, t.rotary.pairs);
    run_one(&t.host, &b, &in.io);
    run_one(&t.device, &b, &in.io);
    compare(&t, &b, what);
    assert_true(t.device.work.launches <= 6);
    input_free(&in);
    batch_free(&b);
    twins_close(&t);
}

static float zeros(uint64_t group, uint64_t n)
{
    (void)group, (void)n;
    return 0;
}

/* 100 winners among thousands of exact zeros. */
static float few_winners(uint64_t group, uint64_t n)
{
    return group % (n / 100 + 1) == 3 ? 1.0f : -1.0f;
}

/* Every new one is better: nothing that was kept stays. */
static float ascending(uint64_t group, uint64_t n)
{
    (void)n;
    return 1.0f + (float)group * 0x1p-20f;
}

static float descending(uint64_t group, uint64_t n)
{
    return ascending(n - group, n);
}

/* All distinct, within a few thousand steps of one half-precision number. */
static float close(uint64_t group, uint64_t n)
{
    (void)n;
    return 1.0f + (float)(group * 25173 % 65504) * 0x1p-23f;
}

static float ties(uint64_t group, uint64_t n)
{
    (void)n;
    return (float)(group * UINT64_C(2654435761) >> 7 & 3);
}

/* Beyond half precision on both sides. */
static float extremes(uint64_t group, uint64_t n)
{
    return group % 2 == 0 ? 70000.0f + (float)group : 1e-9f * (float)(n - group);
}

static value_fn *const kinds[] = {zeros, few_winners, ascending, descending, close, ties, extremes};
static const char *const kind_names[] = {"zeros", "few winners", "ascending", "descending",
                                         "close", "ties",        "extremes"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void every_distribution_at_every_depth(void **state)
{
    static const uint64_t depths[] = {2048, 2052, 8320 * 4, 131072, 262140, 262144, 262148};
    (void)state;
    const qsa_config config = config_of(4, 2048, 262148 / 4);
    qsa_opencl_device *device = device_open((qsa_opencl_options){0});
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
        for (int kind = 0; kind < KINDS; kind++)
            check(&config, device, depths[d] - 3, 6, kinds[kind], kind_names[kind]);
    qsa_opencl_close(device);
}

static void work_groups_cannot_be_seen(void **state)
{
    static const uint32_t counts[] = {1, 3, 32, 100};
    (void)state;
    const qsa_config config = config_of(4, 2048, 65536);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        qsa_opencl_device *device = device_open((qsa_opencl_options){.work_groups = counts[i]});
        for (int kind = 0; kind < KINDS; kind++) {
            check(&config, device, 262143, 1, kinds[kind], kind_names[kind]);
            check(&config, device, 60000, 33, kinds[kind], kind_names[kind]);
        }
        qsa_opencl_close(device);
    }
}

/* The smallest budget and the largest, which is far more than a buffer elsewhere. */
static void budgets_at_both_ends(void **state)
{
    (void)state;
    qsa_opencl_device *device = device_open((qsa_opencl_options){0});
    qsa_config config = config_of(1, 65536, 140000);
    for (int kind = 0; kind < KINDS; kind++)
        check(&config, device, 139990, 2, kinds[kind], kind_names[kind]);
    config = config_of(4, 4, 65537);
    for (int kind = 0; kind < KINDS; kind++)
        check(&config, device, 262147, 3, kinds[kind], kind_names[kind]);
    qsa_opencl_close(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_distribution_at_every_depth),
        cmocka_unit_test(work_groups_cannot_be_seen),
        cmocka_unit_test(budgets_at_both_ends),
    };
    device_or_skip();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
