/* The canary: faults are planted, one after another, and the comparisons that all other tests rest on must see each. A
 * harness that sees nothing would pass everything. */
#include "world.h"

#include "device/host/store.h"
#include "device/values.h"
#include "step/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels that are wrong in one way each ---- */

static const qsa_kernels *right;

static void score_of_a_shifted_tile(const qsa_score_call *call, enum qsa_element type)
{
    right->score(call, type);
    const uint32_t groups = call->groups;
    float *out = call->out;
    for (uint32_t row = 0; row < call->n_queries * call->n_tiles; row++) {
        float first = out[row * groups];
        memmove(out + row * groups, out + row * groups + 1, (groups - 1) * sizeof *out);
        out[(row + 1) * groups - 1] = first;
    }
}

static void score_rounded_to_bf16(const qsa_score_call *call, enum qsa_element type)
{
    right->score(call, type);
    for (uint32_t i = 0; i < call->n_queries * call->n_tiles * call->groups; i++)
        call->out[i] = golden_to_bf16(call->out[i]);
}

static void qk_without_the_last_dimension(const qsa_qk_call *call, enum qsa_element type)
{
    float shorter[QSA_HEADS_AT_ONCE * 64];
    memcpy(shorter, call->q, call->heads * call->dim * sizeof *shorter);
    for (uint32_t h = 0; h < call->heads; h++)
        shorter[(h + 1) * call->dim - 1] = 0;
    qsa_qk_call wrong = *call;
    wrong.q = shorter;
    right->qk(&wrong, type);
}

static void softmax_one_bit_off(const qsa_softmax_call *call)
{
    right->softmax(call);
    call->sum[0] = nextafterf(call->sum[0], INFINITY);
}

static void pv_without_the_last_token(const qsa_pv_call *call, enum qsa_element type)
{
    qsa_pv_call shorter = *call;
    shorter.n -= call->n > 1;
    right->pv(&shorter, type);
}

/* Pairs (2i, 2i + 1) in place of (i, i + half): the fault that short tests never show. */
static void rotation_of_neighbours(const qsa_norm_rotate_call *call)
{
    qsa_norm_rotate_call norm = *call;
    norm.pairs = 0;
    right->norm_rotate(&norm);
    for (uint32_t h = 0; h < call->heads; h++) {
        const float *cos = call->cos + h * call->angle_stride, *sin = call->sin + h * call->angle_stride;
        for (uint32_t i = 0; i < call->pairs; i++) {
            float *pair = call->out + (size_t)h * call->dim + 2 * i, low = pair[0], high = pair[1];
            pair[0] = low * cos[i] - high * sin[i];
            pair[1] = high * cos[i] + low * sin[i];
        }
    }
}

static size_t check_that_sees_nothing(const float *x, size_t n, float limit)
{
    (void)x;
    (void)limit;
    return n;
}

/* ---- a run of 300 tokens with a table of kernels ---- */

enum { TOKENS = 300 };

static bool run_agrees(const qsa_kernels *kernels)
{
    qsa_config config = world_mini();
    config.layers = 1;
    world_batch batch = world_batch_open(&config, TOKENS, 1);
    qsa_cache *cache = world_create(&config);
    cache->store->kernels = kernels;
    world_feed(cache, world_open(cache), 0, &batch, 0, TOKENS, 7, (world_way){0});
    const oracle_shape shape = world_oracle_shape(&config);
    oracle_run run;
    oracle_open(&run, &shape, 0, 0, 0);
    world_oracle_append(&run, &batch, 0, 0, TOKENS, NULL);
    bool agrees = true;
    for (uint32_t t = 0; t < TOKENS; t++)
        agrees = agrees && world_oracle_agrees(&run, (int)t, &batch, t, 0);
    oracle_close(&run);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
    return agrees;
}

static void wrong_kernels_are_seen(void **state)
{
    (void)state;
    const char *wanted;
    right = qsa_kernels_choose(&wanted);
    assert_true(run_agrees(right));
    for (int fault = 0; fault < 6; fault++) {
        qsa_kernels wrong = *right;
        if (fault == 0)
            wrong.score = score_of_a_shifted_tile;
        else if (fault == 1)
            wrong.score = score_rounded_to_bf16;
        else if (fault == 2)
            wrong.qk = qk_without_the_last_dimension;
        else if (fault == 3)
            wrong.softmax = softmax_one_bit_off;
        else if (fault == 4)
            wrong.pv = pv_without_the_last_token;
        else
            wrong.norm_rotate = rotation_of_neighbours;
        if (run_agrees(&wrong))
            fail_msg("planted fault %d was not seen", fault);
    }
}

static void blind_check_of_input_is_seen(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    world_batch batch = world_batch_open(&config, 1, 1);
    qsa_cache *cache = world_create(&config);
    qsa_kernels wrong = *cache->store->kernels;
    qsa_step *step;
    qsa_entry entry = {.seq = world_open(cache), .position = 0, .tokens = 1};
    batch.v[0] = NAN;
    for (int blind = 0; blind < 2; blind++) {
        wrong.check = blind ? check_that_sees_nothing : cache->store->kernels->check;
        cache->store->kernels = &wrong;
        world_ok(qsa_step_begin(cache, &entry, 1, &step));
        assert_int_equal(world_layers(step, &batch, 0, 1, (world_way){0}), blind ? QSA_OK : QSA_E_NONFINITE);
        qsa_step_abort(step);
    }
    assert_true(isnan(batch.out[0])); /* what the check is for */
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* ---- state that is wrong ---- */

/* Group 100 is the worst of all for every query, by the dimensions that do not rotate. */
static void make_worst(world_batch *batch)
{
    for (uint32_t t = 0; t < batch->tokens; t++) {
        float *key = world_input(batch, WORLD_RAW_KEY, t, 0, NULL), *q = world_input(batch, WORLD_INDEX_Q, t, 0, NULL);
        for (uint32_t d = 0; d < 8; d++) {
            q[d] = d < 4 ? 0 : 1;
            key[d] = t / 4 == 100 ? -1 : 1;
        }
    }
}

static void plant_pooled(qsa_cache *cache, qsa_place first, const float *key)
{
    qsa_store_pooled(&cache->layout, qsa_host_page(qsa_host(cache->store), QSA_ARENA_POOLED, 0, first.page), first.slot,
                     key);
}

/* A wrong pooled key changes nothing below the cut, which is why selection is tested above it. */
static void wrong_pooled_key_shows_only_above_the_cut(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {2047, 2051, 2052, 4100};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const uint32_t n = lengths[i];
        qsa_config config = world_narrow();
        config.index_dim = 8;
        world_batch whole = world_batch_open(&config, n, 1), found = world_batch_open(&config, n, 1);
        make_worst(&whole);
        make_worst(&found);
        world_solo(&config, 0, &whole, 0, (world_way){0});
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        world_feed(cache, seq, 0, &found, 0, n - 1, 0, (world_way){0});
        float zero[8] = {0};
        for (uint32_t g = 0; g < (n - 1) / 4; g++)
            plant_pooled(cache, qsa_sequence_place(&cache->sequences[seq.slot], (uint64_t)g * 4), zero);
        world_refused(QSA_E_FORMAT, "layer 0, group 0", qsa_seq_verify_index(cache, seq));
        world_feed(cache, seq, n - 1, &found, n - 1, 1, 0, (world_way){0});
        bool same = memcmp(whole.out + (n - 1) * 4, found.out + (n - 1) * 4, 4 * sizeof(float)) == 0;
        if (same != (n <= 2051))
            fail_msg("an index of zeros, %u tokens: %s", n, same ? "not seen" : "seen below the cut");
        qsa_cache_destroy(cache);
        world_batch_close(&whole);
        world_batch_close(&found);
    }
}

typedef void plant_fn(qsa_cache *cache, qsa_sequence *sequence);

static void plant_reference(qsa_cache *cache, qsa_sequence *sequence)
{
    cache->references[*qsa_sequence_page(sequence, 0)]++;
}

static void plant_foreign_page(qsa_cache *cache, qsa_sequence *sequence)
{
    *qsa_sequence_page(sequence, 0) = cache->free_pages[0];
}

static void plant_page_twice_free(qsa_cache *cache, qsa_sequence *sequence)
{
    (void)sequence;
    cache->free_pages[0] = cache->free_pages[1];
}

static void plant_lost_page(qsa_cache *cache, qsa_sequence *sequence)
{
    (void)sequence;
    cache->n_free--;
}

static void plant_length(qsa_cache *cache, qsa_sequence *sequence)
{
    (void)cache;
    sequence->frontier += QSA_PAGE_TOKENS;
}

static void plant_anchor(qsa_cache *cache, qsa_sequence *sequence)
{
    (void)cache;
    sequence->anchor = -1;
}

static void plant_slot(qsa_cache *cache, qsa_sequence *sequence)
{
    (void)cache;
    sequence->first_slot = 2;
}

static void plant_closed(qsa_cache *cache, qsa_sequence *sequence)
{
    (void)cache;
    sequence->open = false;
}

static void broken_invariants_are_seen(void **state)
{
    (void)state;
    static plant_fn *const plants[] = {plant_reference, plant_foreign_page, plant_page_twice_free,
                                       plant_lost_page, plant_length,       plant_anchor,
                                       plant_slot,      plant_closed};
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        qsa_config config = world_mini();
        world_batch batch = world_batch_open(&config, 100, 1);
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        world_feed(cache, seq, 0, &batch, 0, 100, 0, (world_way){0});
        plants[i](cache, &cache->sequences[seq.slot]);
        world_refused(QSA_E_FORMAT, "invariant", qsa_cache_check(cache));
        qsa_cache_destroy(cache);
        world_batch_close(&batch);
    }
}

/* One bit of any stored value, or of the logical state, is another digest. */
static void digest_sees_one_bit(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    world_batch batch = world_batch_open(&config, 100, 1);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 0, &batch, 0, 100, 0, (world_way){0});
    qsa_sequence *sequence = &cache->sequences[seq.slot];
    const qsa_place last = qsa_sequence_place(sequence, 99);
    uint64_t before = world_digest(cache, seq);
    uint8_t *const *arena = qsa_host(cache->store)->arena;
    uint8_t *const bits[] = {arena[QSA_ARENA_KV],
                             arena[QSA_ARENA_KV] + qsa_layout_v_token(&cache->layout, 0, 0),
                             arena[QSA_ARENA_RAW],
                             arena[QSA_ARENA_POOLED],
                             (uint8_t *)&cache->triples[0].w,
                             (uint8_t *)&qsa_triple_at(cache, last)->h,
                             (uint8_t *)&sequence->frame,
                             arena[QSA_ARENA_KV] + qsa_layout_page(&cache->layout, QSA_ARENA_KV, 2, 1)};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        *bits[i] ^= 1;
        assert_int_not_equal(world_digest(cache, seq), before);
        *bits[i] ^= 1;
        assert_int_equal(world_digest(cache, seq), before);
    }
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_kernels_are_seen),
        cmocka_unit_test(blind_check_of_input_is_seen),
        cmocka_unit_test(wrong_pooled_key_shows_only_above_the_cut),
        cmocka_unit_test(broken_invariants_are_seen),
        cmocka_unit_test(digest_sees_one_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
