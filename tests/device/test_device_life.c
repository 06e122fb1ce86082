/* Sequences on a device, through the public interface: random lives beside the oracle, on the host and on the device;
 * what one writes the other restores; what is moved and launched. */
#include "fixture.h"
#include "life.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

static qsa_opencl_device *device;

/* The same life on host and device; after each verb every digest is that of the oracle's arrays. */
static void live(life_rules rules, uint64_t seed, int verbs)
{
    for (int on_device = 0; on_device < 2; on_device++) {
        rules.config.device = on_device ? &device->base : NULL;
        life *l = life_begin(&rules, seed, NULL, 0);
        for (int i = 0; i < verbs; i++)
            life_verb(l);
        life_end(l);
    }
}

static void lives_around_the_cut_of_12_tokens(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        live(life_mini(seed), seed, 400);
}

static void lives_around_the_cut_of_2052_tokens(void **state)
{
    (void)state;
    live(life_narrow(2), 2, 25);
}

/* ---- snapshots ---- */

typedef struct bytes {
    uint8_t *data;
    size_t size, used, room;
} bytes;

static qsa_status take(void *context, const void *from, size_t n)
{
    bytes *b = context;
    if (b->size + n > b->room) {
        b->room = 2 * (b->size + n);
        b->data = realloc(b->data, b->room);
    }
    memcpy(b->data + b->size, from, n);
    b->size += n;
    return QSA_OK;
}

static qsa_status give(void *context, void *to, size_t n)
{
    bytes *b = context;
    if (n > b->size - b->used)
        return QSA_E_FORMAT;
    memcpy(to, b->data + b->used, n);
    b->used += n;
    return QSA_OK;
}

static bytes written(qsa_cache *cache, qsa_seq seq)
{
    bytes b = {0};
    world_ok(qsa_snapshot_write(cache, &seq, 1, NULL, 0, 7, &(qsa_writer){take, &b}));
    return b;
}

static qsa_cache *create_on(qsa_config config, bool on_device)
{
    config.device = on_device ? &device->base : NULL;
    return world_create(&config);
}

/* Fed on one, written, restored on the other, continued on both: the same bytes, the same output. */
static void hand_over(const qsa_config *config, bool from_device)
{
    enum { TOKENS = 150, MORE = 30 };
    world_batch first = world_batch_open(config, TOKENS, 1);
    world_batch here = world_batch_open(config, MORE, 1000), there = world_batch_open(config, MORE, 1000);
    qsa_cache *from = create_on(*config, from_device), *to = create_on(*config, !from_device);
    qsa_seq seq = world_open(from);
    world_feed(from, seq, 5, &first, 0, TOKENS, 40, (world_way){0});
    bytes saved = written(from, seq);
    qsa_snapshot snapshot;
    world_ok(qsa_snapshot_read(to, 7, &(qsa_reader){give, &saved}, &snapshot));
    qsa_seq restored = snapshot.sequences[0];
    qsa_snapshot_free(&snapshot);
    assert_int_equal(world_digest(from, seq), world_digest(to, restored));
    world_feed(from, seq, 5 + TOKENS, &here, 0, MORE, 7, (world_way){0});
    world_feed(to, restored, 5 + TOKENS, &there, 0, MORE, 11, (world_way){.parts = 3});
    world_same("after a restore on another device", &here, 0, &there, 0, MORE);
    bytes a = written(from, seq), b = written(to, restored);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    free(saved.data);
    free(a.data);
    free(b.data);
    world_batch_close(&first);
    world_batch_close(&here);
    world_batch_close(&there);
    qsa_cache_destroy(from);
    qsa_cache_destroy(to);
}

static void snapshots_go_from_one_to_the_other(void **state)
{
    (void)state;
    for (int kv = 0; kv < QSA_KV_TYPE_COUNT; kv += 3) {
        qsa_config config = world_mini();
        world_kv_type(&config, kv);
        hand_over(&config, true);
        hand_over(&config, false);
    }
}

/* ---- what moves ---- */

static qsa_counters counters_of(const qsa_cache *cache)
{
    qsa_counters counters;
    world_ok(qsa_cache_counters(cache, &counters));
    return counters;
}

/* Bytes of one token's projections in one layer, and of its output. */
static uint64_t input_bytes(const qsa_config *c)
{
    return 4 * ((uint64_t)(c->q_heads + 2 * c->kv_heads) * c->head_dim + (uint64_t)(c->index_heads + 1) * c->index_dim);
}

static uint64_t output_bytes(const qsa_config *c)
{
    return 4 * (uint64_t)c->q_heads * c->head_dim;
}

/* A decode step moves projections, one row of tables per token, the chunks of the page table, and its output and a word
 * per layer; it launches at most five kernels per layer, whatever the depth. Everything else counts as on the host. */
static void a_decode_step_moves_no_cache_and_no_scores(void **state)
{
    enum { TOKENS = 400 };
    (void)state;
    const qsa_config config = world_mini();
    world_batch batch = world_batch_open(&config, TOKENS, 1), same = world_batch_open(&config, TOKENS, 1);
    qsa_cache *host = create_on(config, false), *cache = create_on(config, true);
    qsa_seq on_host = world_open(host), seq = world_open(cache);
    for (uint32_t t = 0; t < TOKENS; t++) {
        const qsa_counters before = counters_of(cache), host_before = counters_of(host);
        const qsa_entry entry = {.seq = seq, .position = t, .tokens = 1};
        const qsa_entry host_entry = {.seq = on_host, .position = t, .tokens = 1};
        qsa_step *step;
        world_ok(qsa_step_begin(cache, &entry, 1, &step));
        for (uint32_t layer = 0; layer < config.layers; layer++) {
            const qsa_tensors tensors = world_tensors(&batch, t, layer);
            const qsa_output out = world_output(&batch, t, layer);
            world_ok(qsa_step_layer(step, layer, &tensors, &out));
        }
        world_ok(qsa_step_commit(step, NULL));
        world_step(host, &host_entry, 1, &same, t, (world_way){0}, NULL);
        const qsa_counters after = counters_of(cache), host_after = counters_of(host);
        const uint64_t chunks = t / QSA_CHUNK_TOKENS + 1;
        const uint64_t tables =
            40 + 16 + 12 + 4 + 4 * chunks * (QSA_CHUNK_PAGES + 1) + 2 * 4 * (uint64_t)config.rotary_dim;
        const uint64_t up = after.bytes_uploaded - before.bytes_uploaded;
        assert_true(up >= config.layers * input_bytes(&config));
        assert_true(up <= config.layers * input_bytes(&config) + tables);
        assert_int_equal(after.bytes_downloaded - before.bytes_downloaded, config.layers * (output_bytes(&config) + 4));
        assert_true(after.launches - before.launches <= 5 * config.layers);
        assert_int_equal(after.keys_pooled - before.keys_pooled, host_after.keys_pooled - host_before.keys_pooled);
        assert_int_equal(after.groups_scored - before.groups_scored,
                         host_after.groups_scored - host_before.groups_scored);
        assert_int_equal(after.groups_chosen - before.groups_chosen,
                         host_after.groups_chosen - host_before.groups_chosen);
        assert_int_equal(after.k_rows_read - before.k_rows_read, host_after.k_rows_read - host_before.k_rows_read);
    }
    assert_int_equal(counters_of(host).launches, 0);
    assert_int_equal(world_digest(host, on_host), world_digest(cache, seq));
    world_batch_close(&batch);
    world_batch_close(&same);
    qsa_cache_destroy(host);
    qsa_cache_destroy(cache);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_around_the_cut_of_12_tokens),
        cmocka_unit_test(lives_around_the_cut_of_2052_tokens),
        cmocka_unit_test(snapshots_go_from_one_to_the_other),
        cmocka_unit_test(a_decode_step_moves_no_cache_and_no_scores),
    };
    device_or_skip();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    device = device_open((qsa_opencl_options){0});
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qsa_opencl_close(device);
    return failed;
}
