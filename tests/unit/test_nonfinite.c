/* Input is checked once, where it enters: NaN, infinity or beyond 2^56 in any tensor, at any place, whatever the parts,
 * is refused by the lowest (layer, entry, token, tensor), and the step never happened. */
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIRST = 9, SECOND = 6, TOKENS = FIRST + SECOND };

static const char *const names[WORLD_INPUTS] = {"q", "k", "v", "index_q", "raw_key"};

typedef struct place {
    uint32_t layer, token; /* of the step */
    int tensor;
} place;

static int compare(place a, place b)
{
    if (a.layer != b.layer)
        return a.layer < b.layer ? -1 : 1;
    if (a.token != b.token)
        return a.token < b.token ? -1 : 1;
    return a.tensor - b.tensor;
}

/* Two sequences: one goes on from 10 tokens, inside a group; one is new. */
typedef struct fixture {
    qsa_config config;
    qsa_cache *cache;
    qsa_entry entries[2];
    world_batch batch;
    uint64_t digest;
} fixture;

static fixture open_fixture(void)
{
    fixture f = {.config = world_mini()};
    f.config.max_parts = 5;
    f.cache = world_create(&f.config);
    f.batch = world_batch_open(&f.config, TOKENS, 1);
    qsa_seq a = world_open(f.cache), b = world_open(f.cache);
    world_batch before = world_batch_open(&f.config, 10, 90);
    world_feed(f.cache, a, 0, &before, 0, 10, 0, (world_way){0});
    world_batch_close(&before);
    f.entries[0] = (qsa_entry){.seq = a, .position = 10, .tokens = FIRST};
    f.entries[1] = (qsa_entry){.seq = b, .position = 70, .tokens = SECOND};
    f.digest = world_digest(f.cache, a);
    return f;
}

static void close_fixture(fixture *f)
{
    qsa_cache_destroy(f->cache);
    world_batch_close(&f->batch);
}

static float *element(fixture *f, place at, uint32_t index)
{
    uint32_t width;
    float *x = world_input(&f->batch, at.tensor, at.token, at.layer, &width);
    return &x[index % width];
}

static void describe(place at, char *out, size_t size)
{
    uint32_t entry = at.token >= FIRST;
    snprintf(out, size, "layer %u, entry %u, token %u: %s holds", at.layer, entry, at.token - entry * FIRST,
             names[at.tensor]);
}

/* The step fails with the lowest place, later calls too, and nothing has changed. */
static void refused(fixture *f, place lowest, world_way way)
{
    char text[100];
    describe(lowest, text, sizeof text);
    qsa_step *step;
    world_ok(qsa_step_begin(f->cache, f->entries, 2, &step));
    world_refused(QSA_E_NONFINITE, text, world_layers(step, &f->batch, 0, TOKENS, way));
    qsa_tensors tensors = world_tensors(&f->batch, 0, 0);
    qsa_output out = world_output(&f->batch, 0, 0);
    uint32_t groups[2], n = 99;
    world_refused(QSA_E_NONFINITE, text, qsa_layer_begin(step, 2, &tensors, &out));
    qsa_status selection = qsa_step_selection(step, 0, groups, &n);
    assert_true(selection == QSA_E_NONFINITE || selection == QSA_E_ORDER);
    assert_int_equal(n, 99);
    world_refused(QSA_E_NONFINITE, text, qsa_step_commit(step, NULL));
    world_ok(qsa_cache_check(f->cache));
    assert_int_equal(world_digest(f->cache, f->entries[0].seq), f->digest);
    qsa_seq_info info;
    world_ok(qsa_seq_query(f->cache, f->entries[1].seq, &info));
    assert_int_equal(info.pages, 0);
}

static void every_tensor_layer_token_and_part_count_is_watched(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0x1p57f, -0x1.000002p56f};
    fixture f = open_fixture();
    uint32_t turn = 0;
    for (uint32_t layer = 0; layer < 3; layer++)
        for (uint32_t token = 0; token < TOKENS; token++)
            for (int tensor = 0; tensor < WORLD_INPUTS; tensor++, turn++) {
                place at = {layer, token, tensor};
                float *x = element(&f, at, turn * 5), good = *x;
                const world_way ways[] = {{.parts = 0}, {.parts = 1}, {.parts = 3}, {.parts = 7}, {.parts = 61}};
                *x = bad[turn % 5];
                refused(&f, at, ways[turn % 5]);
                refused(&f, at, ways[(turn + 1) % 5]);
                *x = good;
            }
    close_fixture(&f);
}

static void lowest_place_is_reported_whatever_the_parts(void **state)
{
    (void)state;
    fixture f = open_fixture();
    uint64_t chance = 5;
    for (int round = 0; round < 200; round++) {
        place lowest = {9, 0, 0};
        float *x[4], good[4];
        for (int i = 0; i < 4; i++) {
            place at = {world_random(&chance, 3), world_random(&chance, TOKENS),
                        (int)world_random(&chance, WORLD_INPUTS)};
            x[i] = element(&f, at, world_random(&chance, 64));
            good[i] = *x[i];
            *x[i] = NAN;
            if (compare(at, lowest) < 0)
                lowest = at;
        }
        refused(&f, lowest, (world_way){.parts = (uint32_t)round % 9});
        for (int i = 4; i-- > 0;)
            *x[i] = good[i];
    }
    close_fixture(&f);
}

static void retry_gives_what_a_first_try_gives(void **state)
{
    (void)state;
    fixture f = open_fixture(), clean = open_fixture();
    float *x = element(&f, (place){2, 12, WORLD_V}, 3), good = *x;
    *x = NAN;
    refused(&f, (place){2, 12, WORLD_V}, (world_way){.parts = 2});
    *x = good;
    world_step(f.cache, f.entries, 2, &f.batch, 0, (world_way){.parts = 2}, NULL);
    world_step(clean.cache, clean.entries, 2, &clean.batch, 0, (world_way){0}, NULL);
    world_same("retry", &clean.batch, 0, &f.batch, 0, TOKENS);
    for (int e = 0; e < 2; e++)
        assert_int_equal(world_digest(f.cache, f.entries[e].seq), world_digest(clean.cache, clean.entries[e].seq));
    close_fixture(&f);
    close_fixture(&clean);
}

/* Two to the 56th itself, subnormals and both zeros are numbers, and what comes out is one too. */
static void largest_and_smallest_numbers_are_taken(void **state)
{
    (void)state;
    static const float values[] = {0x1p56f, -0x1p56f, 1e-45f, -1e-45f, 0.0f, -0.0f};
    for (int kv = QSA_KV_F32; kv <= QSA_KV_BF16; kv++)
        for (size_t all = 0; all <= sizeof values / sizeof *values; all++) {
            qsa_config config = world_mini();
            config.kv_type = (qsa_kv_type)kv;
            config.profile = (qsa_profile)(kv % QSA_PROFILE_COUNT);
            world_batch batch = world_batch_open(&config, 40, 1);
            for (uint32_t t = 0; t < 40; t++)
                for (int tensor = 0; tensor < WORLD_INPUTS; tensor++) {
                    uint32_t width;
                    float *x = world_input(&batch, tensor, t, 0, &width);
                    for (uint32_t i = 0; i < config.layers * width; i++)
                        x[i] = values[all < 6 ? all : golden_bits64(t, i + (uint32_t)tensor) % 6];
                }
            world_solo(&config, 0, &batch, 0, (world_way){0});
            for (uint32_t i = 0; i < 40 * config.layers * 16; i++)
                assert_true(isfinite(batch.out[i]) && test_bits(batch.out[i]) != 0x80000000u);
            world_batch_close(&batch);
        }
}

/* The largest number that a type holds is taken; the next one would round to infinity. */
static void what_a_storage_type_cannot_hold_is_refused(void **state)
{
    (void)state;
    static const struct {
        qsa_kv_type type;
        float holds, refused;
    } cases[] = {{QSA_KV_F16, 0x1.ffdffep15f, 65520.0f}, {QSA_KV_Q8_0, 8321039.5f, 127 * 65520.0f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qsa_config config = world_mini();
        world_kv_type(&config, (int)cases[i].type);
        world_batch batch = world_batch_open(&config, 9, 1);
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        uint32_t width;
        float *v = world_input(&batch, WORLD_V, 6, 1, &width);
        v[width - 1] = -cases[i].refused;
        const qsa_entry entry = {.seq = seq, .tokens = 9};
        qsa_step *step;
        world_ok(qsa_step_begin(cache, &entry, 1, &step));
        world_refused(QSA_E_NONFINITE, "layer 1, entry 0, token 6: v holds a value that its storage type cannot hold",
                      world_layers(step, &batch, 0, 9, (world_way){.parts = 2}));
        qsa_step_abort(step);
        v[width - 1] = -cases[i].holds;
        world_feed(cache, seq, 0, &batch, 0, 9, 0, (world_way){0});
        qsa_cache_destroy(cache);
        world_batch_close(&batch);
    }
}

/* ---- refusals of both kinds, over more tokens than are stored together ---- */

enum { MANY = 80, KINDS = 5 };

/* In the order in which they are reported. */
static const struct {
    int tensor;
    const char *text;
} kinds[KINDS] = {{WORLD_Q, "q holds a value that is NaN"},
                  {WORLD_K, "k holds a value that is NaN"},
                  {WORLD_V, "v holds a value that is NaN"},
                  {WORLD_K, "k holds a value that its"},
                  {WORLD_V, "v holds a value that its"}};

/* Two kv heads in f16. k is all ones but for what is spoiled: the norm keeps it at the weight, 30,000, and makes of a
 * vector with one number alone the square root of its length times that. */
static qsa_config two_heads(qsa_norm_weights *norms, float *weights)
{
    qsa_config config = world_mini();
    config.q_heads = config.kv_heads = 2;
    config.layers = 1;
    config.kv_type = QSA_KV_F16;
    config.max_parts = 7;
    for (uint32_t i = 0; i < config.head_dim; i++)
        weights[i] = 30000;
    norms->k = weights;
    config.norms = norms;
    return config;
}

static void spoil(world_batch *batch, uint32_t token, int kind, uint32_t index)
{
    uint32_t width;
    float *x = world_input(batch, kinds[kind].tensor, token, 0, &width);
    if (kind < 3)
        x[index % width] = NAN;
    else if (kind == 4)
        x[index % width] = 70000;
    else
        for (uint32_t i = 0; i < batch->config.head_dim; i++)
            x[index % 2 * batch->config.head_dim + i] = i + 1 == batch->config.head_dim; /* not one that is rotated */
}

static void lowest_of_both_kinds_is_reported(void **state)
{
    (void)state;
    qsa_norm_weights norms = {0};
    float weights[16];
    const qsa_config config = two_heads(&norms, weights);
    qsa_cache *cache = world_create(&config);
    const qsa_seq seq = world_open(cache);
    uint64_t chance = 3;
    for (int round = 0; round < 300; round++) {
        world_batch batch = world_batch_open(&config, MANY, 1);
        for (uint32_t i = 0; i < MANY * config.kv_heads * config.head_dim; i++)
            batch.k[i] = 1;
        uint32_t lowest = UINT32_MAX;
        for (int i = 0; i < 3; i++) {
            const uint32_t token = world_random(&chance, MANY), kind = world_random(&chance, KINDS);
            const uint32_t at = token * KINDS + kind;
            bool is_alone = true; /* of its tensor and token: or one spoils the other */
            for (uint32_t other = 0; other < KINDS; other++)
                is_alone = is_alone && lowest != token * KINDS + other;
            if (!is_alone)
                continue;
            spoil(&batch, token, (int)kind, world_random(&chance, 64));
            lowest = at < lowest ? at : lowest;
        }
        char text[100];
        snprintf(text, sizeof text, "entry 0, token %u: %s", lowest / KINDS, kinds[lowest % KINDS].text);
        const qsa_entry entry = {.seq = seq, .tokens = MANY};
        qsa_step *step;
        world_ok(qsa_step_begin(cache, &entry, 1, &step));
        world_refused(QSA_E_NONFINITE, text,
                      world_layers(step, &batch, 0, MANY, (world_way){.parts = (uint32_t)round % 8}));
        qsa_step_abort(step);
        world_batch_close(&batch);
    }
    qsa_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_layer_token_and_part_count_is_watched),
        cmocka_unit_test(lowest_place_is_reported_whatever_the_parts),
        cmocka_unit_test(retry_gives_what_a_first_try_gives),
        cmocka_unit_test(largest_and_smallest_numbers_are_taken),
        cmocka_unit_test(what_a_storage_type_cannot_hold_is_refused),
        cmocka_unit_test(lowest_of_both_kinds_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
