/* A step: what it refuses, in which order it must go, and that whatever fails or is dropped never happened. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two sequences, 10 and 70 tokens, in a cache of three layers. */
typedef struct fixture {
    qsa_config config;
    qsa_cache *cache;
    qsa_seq a, b;
    world_batch batch; /* tokens for whatever comes next */
} fixture;

enum { A_TOKENS = 10, B_TOKENS = 70, SPARE = 40 };

static fixture open_fixture(void)
{
    fixture f = {.config = world_mini()};
    f.config.max_step_tokens = 100;
    f.config.capacity_tokens = 6 * QSA_PAGE_TOKENS;
    f.cache = world_create(&f.config);
    f.a = world_open(f.cache);
    f.b = world_open(f.cache);
    f.batch = world_batch_open(&f.config, 130, 1);
    world_feed(f.cache, f.a, 100, &f.batch, 0, A_TOKENS, 0, (world_way){0});
    world_feed(f.cache, f.b, 0, &f.batch, 20, B_TOKENS, 0, (world_way){0});
    return f;
}

static void close_fixture(fixture *f)
{
    qsa_cache_destroy(f->cache);
    world_batch_close(&f->batch);
}

/* All that a host can see of the two sequences and of the pool. */
typedef struct seen {
    uint64_t digest[2], free_tokens;
    qsa_seq_info info[2];
} seen;

static seen look(const fixture *f)
{
    seen s;
    memset(&s, 0, sizeof s);
    s.digest[0] = world_digest(f->cache, f->a);
    s.digest[1] = world_digest(f->cache, f->b);
    s.free_tokens = qsa_cache_free_tokens(f->cache);
    world_ok(qsa_seq_query(f->cache, f->a, &s.info[0]));
    world_ok(qsa_seq_query(f->cache, f->b, &s.info[1]));
    world_ok(qsa_cache_check(f->cache));
    return s;
}

static void unchanged(const fixture *f, const seen *before)
{
    seen now = look(f);
    assert_memory_equal(&now, before, sizeof now);
}

static void begin_refused(const fixture *f, const qsa_entry *entries, size_t n, qsa_status status, const char *part)
{
    seen before = look(f);
    qsa_step *step = NULL;
    world_refused(status, part, qsa_step_begin(f->cache, entries, n, &step));
    assert_null(step);
    unchanged(f, &before);
}

/* ---- what begin refuses ---- */

static void begin_refuses_holes_and_stored_positions(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_entry entry = {.seq = f.a, .position = 111, .tokens = 2};
    begin_refused(&f, &entry, 1, QSA_E_HOLE, "entry 0: a hole: expected position 110, found 111");
    entry.position = 109;
    begin_refused(&f, &entry, 1, QSA_E_STORED, "entry 0: position 109 is already stored; expected 110");
    entry.position = 0;
    begin_refused(&f, &entry, 1, QSA_E_STORED, "expected 110");
    entry.position = -1;
    begin_refused(&f, &entry, 1, QSA_E_STORED, "-1");
    qsa_entry two[] = {{.seq = f.b, .position = B_TOKENS, .tokens = 3}, {.seq = f.a, .position = 500, .tokens = 1}};
    begin_refused(&f, two, 2, QSA_E_HOLE, "entry 1: a hole: expected position 110, found 500");
    close_fixture(&f);
}

static void begin_refuses_sequences_that_are_none(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_entry entry = {.seq = {0, 0}, .position = 0, .tokens = 1};
    begin_refused(&f, &entry, 1, QSA_E_SEQUENCE, "not open");
    entry.seq = (qsa_seq){5, 1};
    begin_refused(&f, &entry, 1, QSA_E_SEQUENCE, "sequence 5");
    entry.seq = (qsa_seq){UINT32_MAX, 1};
    begin_refused(&f, &entry, 1, QSA_E_SEQUENCE, "not open");
    entry.seq = (qsa_seq){f.a.slot, f.a.generation + 1};
    begin_refused(&f, &entry, 1, QSA_E_SEQUENCE, "generation");
    qsa_seq closed = world_open(f.cache), after;
    world_ok(qsa_seq_close(f.cache, closed));
    entry.seq = closed;
    begin_refused(&f, &entry, 1, QSA_E_SEQUENCE, "not open");
    after = world_open(f.cache); /* takes the same place */
    assert_int_equal(after.slot, closed.slot);
    begin_refused(&f, &entry, 1, QSA_E_SEQUENCE, "not open");
    qsa_entry twice[] = {{.seq = f.a, .position = 110, .tokens = 1}, {.seq = f.a, .position = 111, .tokens = 1}};
    begin_refused(&f, twice, 2, QSA_E_SEQUENCE, "entry 1: sequence 0 is already in this step");
    const qsa_seq third = world_open(f.cache);
    const qsa_entry named[] = {{f.a, 110, 1, NULL}, {f.b, 70, 1, NULL}, {after, 0, 1, NULL}, {third, 9, 1, NULL}};
    for (uint32_t later = 1; later < 4; later++) /* of four entries the last names one of the others */
        for (uint32_t earlier = 0; earlier < later; earlier++) {
            qsa_entry entries[4];
            memcpy(entries, named, sizeof entries);
            entries[later].seq = named[earlier].seq;
            char words[64];
            snprintf(words, sizeof words, "entry %u: sequence %u is already in this step", later,
                     named[earlier].seq.slot);
            begin_refused(&f, entries, 4, QSA_E_SEQUENCE, words);
        }
    close_fixture(&f);
}

static void begin_refuses_empty_and_oversized_steps(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_step *step = NULL;
    qsa_entry entry = {.seq = f.a, .position = 110, .tokens = 0};
    begin_refused(&f, &entry, 1, QSA_E_ARGUMENT, "entry 0 is empty");
    begin_refused(&f, &entry, 0, QSA_E_ARGUMENT, "no entry");
    begin_refused(&f, NULL, 1, QSA_E_ARGUMENT, "NULL");
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_step_begin(f.cache, &entry, 1, NULL));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_step_begin(NULL, &entry, 1, &step));
    entry.tokens = 101;
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "max_step_tokens");
    entry.tokens = UINT32_MAX;
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "max_step_tokens");
    qsa_entry two[] = {{.seq = f.a, .position = 110, .tokens = 60}, {.seq = f.b, .position = 70, .tokens = 41}};
    begin_refused(&f, two, 2, QSA_E_LIMIT, "entry 1");
    qsa_entry many[101];
    for (int i = 0; i < 101; i++)
        many[i] = (qsa_entry){.seq = f.a, .position = 110, .tokens = 1};
    begin_refused(&f, many, 101, QSA_E_LIMIT, "101 entries");
    close_fixture(&f);
}

static void begin_refuses_positions_and_triples_out_of_range(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_seq fresh = world_open(f.cache);
    qsa_entry entry = {.seq = fresh, .position = -1, .tokens = 1};
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "position -1");
    entry.position = QSA_MAX_POSITION + 1;
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "2147483647");
    entry.position = QSA_MAX_POSITION;
    entry.tokens = 2;
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "2 tokens");
    entry.position = (1 << 24) + 1; /* its own triple is beyond what an f32 holds */
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "2^24");
    qsa_triple triples[] = {{0, 0, 0}, {0, -(1 << 24) - 1, 0}};
    entry.triples = triples;
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "entry 0, token 1: rotary coordinate h = -16777217");
    triples[1] = (qsa_triple){(1 << 24) + 1, 0, 0};
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "entry 0, token 1: rotary coordinate t = 16777217");
    triples[1] = (qsa_triple){1 << 24, -(1 << 24), 1 << 24};
    entry.position = QSA_MAX_POSITION - 1; /* the position itself may be anything */
    world_step(f.cache, &entry, 1, &f.batch, 0, (world_way){0}, NULL);
    qsa_seq_info info;
    world_ok(qsa_seq_query(f.cache, fresh, &info));
    assert_int_equal(info.frontier, QSA_MAX_POSITION + 1);
    entry = (qsa_entry){.seq = fresh, .position = info.frontier, .tokens = 1};
    begin_refused(&f, &entry, 1, QSA_E_LIMIT, "2147483647");
    close_fixture(&f);
}

static void full_cache_is_said_before_anything_happens(void **state)
{
    (void)state;
    fixture f = open_fixture(); /* 6 pages: a has 1, b has 2 */
    qsa_entry entries[] = {{.seq = f.a, .position = 110, .tokens = 54}, {.seq = f.b, .position = 70, .tokens = 46}};
    world_step(f.cache, entries, 2, &f.batch, 0, (world_way){0}, NULL); /* a full page, b 116 tokens */
    qsa_seq fresh = world_open(f.cache);
    qsa_entry fill = {.seq = fresh, .position = 0, .tokens = 100};
    world_step(f.cache, &fill, 1, &f.batch, 0, (world_way){0}, NULL); /* 2 pages */
    qsa_entry three[] = {{.seq = f.a, .position = 164, .tokens = 1},
                         {.seq = f.b, .position = 116, .tokens = 12},
                         {.seq = fresh, .position = 100, .tokens = 29}};
    begin_refused(&f, three, 3, QSA_E_FULL, "needs 2 pages of 64 tokens, 1 are free");
    three[2].tokens = 28; /* fits to the last slot */
    world_step(f.cache, three, 3, &f.batch, 0, (world_way){0}, NULL);
    assert_int_equal(qsa_cache_free_tokens(f.cache), 0);
    qsa_entry one = {.seq = f.b, .position = 128, .tokens = 1};
    begin_refused(&f, &one, 1, QSA_E_FULL, "needs 1 pages");
    world_ok(qsa_seq_close(f.cache, fresh));
    world_step(f.cache, &one, 1, &f.batch, 0, (world_way){0}, NULL);
    qsa_seq others[5], none;
    for (int i = 0; i < 5; i++)
        others[i] = world_open(f.cache);
    (void)others;
    world_ok(qsa_seq_open(f.cache, &none));
    world_refused(QSA_E_FULL, "all 8 sequences", qsa_seq_open(f.cache, &none));
    close_fixture(&f);
}

static void verbs_are_busy_during_a_step(void **state)
{
    (void)state;
    fixture f = open_fixture();
    seen before = look(&f);
    qsa_step *step, *second = NULL;
    qsa_seq seq = {7, 7};
    uint64_t digest = 0;
    float value[8];
    qsa_triple triple;
    const qsa_span span = {100, 101};
    qsa_entry entry = {.seq = f.a, .position = 110, .tokens = 1};
    world_ok(qsa_step_begin(f.cache, &entry, 1, &step));
    world_refused(QSA_E_BUSY, "a step is open", qsa_step_begin(f.cache, &entry, 1, &second));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_open(f.cache, &seq));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_close(f.cache, f.a));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_rewind(f.cache, f.a, 105));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_evict(f.cache, f.a, 104));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_remove(f.cache, f.a, span));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_shift(f.cache, f.a, 5));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_window(f.cache, f.a, 50));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_fork(f.cache, f.a, 105, &seq));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_copy(f.cache, f.a, &seq));
    world_refused(QSA_E_BUSY, "a step is open", qsa_cache_compact(f.cache));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_digest(f.cache, f.a, &digest));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_verify_index(f.cache, f.a));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_read(f.cache, f.a, 0, QSA_TENSOR_RAW, span, value));
    world_refused(QSA_E_BUSY, "a step is open", qsa_seq_read_triples(f.cache, f.a, span, &triple));
    assert_null(second);
    assert_int_equal(seq.slot, 7);
    qsa_step_abort(step);
    unchanged(&f, &before);
    close_fixture(&f);
}

/* ---- order ---- */

static void layers_come_once_each_in_any_order(void **state)
{
    (void)state;
    fixture f = open_fixture();
    seen before = look(&f);
    qsa_step *step;
    qsa_entry entry = {.seq = f.a, .position = 110, .tokens = 5};
    world_ok(qsa_step_begin(f.cache, &entry, 1, &step));
    qsa_tensors tensors = world_tensors(&f.batch, 0, 0), none = {.q = {NULL, 0, 0}};
    qsa_output out = world_output(&f.batch, 0, 0);
    uint32_t groups[2], n;
    world_refused(QSA_E_ORDER, "no layer", qsa_layer_phase(step, 0, 0, 1));
    world_refused(QSA_E_ORDER, "no finished layer", qsa_step_selection(step, 0, groups, &n));
    world_refused(QSA_E_ARGUMENT, "layer 3 of 3", qsa_step_layer(step, 3, &tensors, &out));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_step_layer(step, 2, NULL, &out));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_step_layer(step, 2, &tensors, NULL));
    world_refused(QSA_E_ARGUMENT, "has no data", qsa_step_layer(step, 2, &none, &out));
    for (int missing = 0; missing < WORLD_INPUTS; missing++) {
        static const char *const said[] = {"q has no", "k has no", "v has no", "index_q has no", "raw_key has no"};
        qsa_tensors some = tensors;
        qsa_strided *all[] = {&some.q, &some.k, &some.v, &some.index_q, &some.raw_key};
        all[missing]->data = NULL;
        world_refused(QSA_E_ARGUMENT, said[missing], qsa_layer_begin(step, 2, &some, &out));
        if (missing != WORLD_Q && missing != WORLD_INDEX_Q) /* those two are not read without output */
            world_refused(QSA_E_ARGUMENT, said[missing], qsa_layer_begin(step, 2, &some, &(qsa_output){NULL, 0, 0}));
    }
    world_ok(qsa_step_layer(step, 2, &tensors, &out));
    world_ok(qsa_step_selection(step, 4, groups, &n));
    world_refused(QSA_E_ARGUMENT, "token 5 of 5", qsa_step_selection(step, 5, groups, &n));
    world_refused(QSA_E_ORDER, "layer 2 is repeated", qsa_step_layer(step, 2, &tensors, &out));
    world_ok(qsa_layer_begin(step, 0, &tensors, &out));
    world_refused(QSA_E_ORDER, "layer 1 begins before layer 0", qsa_layer_begin(step, 1, &tensors, &out));
    world_refused(QSA_E_ORDER, "layer 0 begins before layer 0", qsa_layer_begin(step, 0, &tensors, &out));
    world_refused(QSA_E_ORDER, "no finished layer", qsa_step_selection(step, 0, groups, &n));
    world_refused(QSA_E_ORDER, "layer 0 is missing or unfinished", qsa_step_commit(step, NULL));
    unchanged(&f, &before);
    world_refused(QSA_E_ORDER, "no step", qsa_step_commit(step, NULL));
    world_refused(QSA_E_ORDER, "no step", qsa_layer_begin(step, 0, &tensors, &out));
    world_refused(QSA_E_ORDER, "no layer", qsa_layer_phase(step, 0, 0, 1));
    qsa_step_abort(step); /* gone already: does nothing */
    qsa_step_abort(NULL);
    unchanged(&f, &before);
    close_fixture(&f);
}

/* Each of several forks gets a copy of the page that it shares, in one step. */
static void every_entry_copies_the_page_that_it_shares(void **state)
{
    (void)state;
    fixture f = open_fixture(), g = open_fixture();
    qsa_seq forks[2];
    for (int i = 0; i < 2; i++)
        world_ok(qsa_seq_fork(f.cache, f.a, 110, &forks[i]));
    const qsa_entry together[] = {{f.a, 110, 3, NULL}, {forks[0], 110, 5, NULL}, {forks[1], 110, 7, NULL}};
    world_step(f.cache, together, 3, &f.batch, 0, (world_way){0}, NULL);
    for (uint32_t e = 0, first = 0; e < 3; first += together[e++].tokens) { /* alone, in a sequence of its own */
        const qsa_entry alone = {g.a, 110, together[e].tokens, NULL};
        world_step(g.cache, &alone, 1, &g.batch, first, (world_way){0}, NULL);
        assert_true(world_digest(f.cache, together[e].seq) == world_digest(g.cache, g.a));
        world_ok(qsa_seq_rewind(g.cache, g.a, 110));
    }
    world_ok(qsa_cache_check(f.cache));
    close_fixture(&f);
    close_fixture(&g);
}

static void counters_count_what_was_committed(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_counters before, after;
    const qsa_entry entries[] = {{f.a, 110, 5, NULL}, {f.b, 70, 60, NULL}};
    world_ok(qsa_cache_counters(f.cache, &before));
    world_step(f.cache, entries, 2, &f.batch, 0, (world_way){0}, (const uint32_t[]){2, 60});
    world_ok(qsa_cache_counters(f.cache, &after));
    assert_int_equal(after.steps, before.steps + 1);
    assert_int_equal(after.tokens, before.tokens + 62);
    assert_int_equal(after.layouts, before.layouts + 1);
    assert_int_equal(after.pages_taken, before.pages_taken + 1); /* b: 70 tokens in two pages, then 130 in three */
    assert_int_equal(after.pages_copied, before.pages_copied);
    assert_int_equal(after.keys_pooled, before.keys_pooled + 3 * (1 + 15)); /* of a [108, 112), of b [68, 128) */
    qsa_step *step;
    const qsa_entry third = {f.a, 112, 1, NULL};
    world_ok(qsa_step_begin(f.cache, &third, 1, &step));
    qsa_step_abort(step);
    world_ok(qsa_cache_counters(f.cache, &after));
    assert_true(after.steps == before.steps + 1 && after.tokens == before.tokens + 62);
    close_fixture(&f);
}

static void every_layer_is_needed(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const seen before = look(&f);
    const qsa_entry entry = {.seq = f.a, .position = 110, .tokens = 5};
    for (uint32_t missing = 0; missing < 3; missing++)
        for (int begun = 0; begun < 2; begun++) { /* it never began, or did not end */
            qsa_step *step;
            char words[64];
            world_ok(qsa_step_begin(f.cache, &entry, 1, &step));
            for (uint32_t i = 1; i <= 3; i++) { /* the missing one last */
                const uint32_t layer = (missing + i) % 3;
                const qsa_tensors tensors = world_tensors(&f.batch, 0, layer);
                const qsa_output out = world_output(&f.batch, 0, layer);
                if (layer != missing)
                    world_ok(qsa_step_layer(step, layer, &tensors, &out));
                else if (begun)
                    world_ok(qsa_layer_begin(step, layer, &tensors, &out));
            }
            snprintf(words, sizeof words, "layer %u is missing or unfinished", missing);
            world_refused(QSA_E_ORDER, words, qsa_step_commit(step, NULL));
            unchanged(&f, &before);
        }
    close_fixture(&f);
}

static void phases_come_in_order_and_in_the_same_parts(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_step *step;
    qsa_entry entry = {.seq = f.a, .position = 110, .tokens = 5};
    world_ok(qsa_step_begin(f.cache, &entry, 1, &step));
    for (uint32_t layer = 0; layer < 3; layer++) {
        qsa_tensors tensors = world_tensors(&f.batch, 0, layer);
        qsa_output out = world_output(&f.batch, 0, layer);
        world_ok(qsa_layer_begin(step, layer, &tensors, &out));
        world_refused(QSA_E_ORDER, "phase 1 is out of order", qsa_layer_phase(step, 1, 0, 7)); /* fixes nothing */
        world_refused(QSA_E_ARGUMENT, "part 0 of 0", qsa_layer_phase(step, 0, 0, 0));
        world_refused(QSA_E_ARGUMENT, "part 2 of 2", qsa_layer_phase(step, 0, 2, 2));
        world_refused(QSA_E_ARGUMENT, "part 0 of 1025", qsa_layer_phase(step, 0, 0, 1025));
        for (uint32_t phase = 0; phase < QSA_PHASES; phase++) {
            world_ok(qsa_layer_phase(step, phase, 1, 2));
            world_refused(QSA_E_ORDER, "out of order", qsa_layer_phase(step, phase, 1, 2));
            world_refused(QSA_E_ORDER, "out of order", qsa_layer_phase(step, phase + 1, 1, 2)); /* before the barrier */
            world_refused(QSA_E_ARGUMENT, "runs in 2 parts, not 3", qsa_layer_phase(step, phase, 0, 3));
            world_refused(QSA_E_ORDER, "out of order", qsa_layer_phase(step, QSA_PHASES, 0, 2));
            world_ok(qsa_layer_phase(step, phase, 0, 2));
        }
    }
    world_ok(qsa_step_commit(step, NULL));
    close_fixture(&f);
}

static void most_parts_are_legal_whatever_was_planned(void **state)
{
    (void)state;
    fixture f = open_fixture();
    world_batch again = world_batch_open(&f.config, 5, 500), once = world_batch_open(&f.config, 5, 500);
    qsa_entry entry = {.seq = f.a, .position = 110, .tokens = 5};
    world_step(f.cache, &entry, 1, &once, 0, (world_way){0}, (const uint32_t[]){0});
    world_step(f.cache, &entry, 1, &again, 0, (world_way){.parts = QSA_MAX_PARTS}, (const uint32_t[]){0});
    world_same("1,024 parts", &once, 0, &again, 0, 5);
    world_batch_close(&again);
    world_batch_close(&once);
    close_fixture(&f);
}

/* ---- commit and abort ---- */

static void keep_counts_keep_the_first_tokens(void **state)
{
    (void)state;
    for (uint32_t keep_a = 0; keep_a <= 7; keep_a++)
        for (uint32_t keep_b = 0; keep_b <= 60; keep_b += 12) {
            fixture f = open_fixture(), g = open_fixture();
            qsa_entry both[] = {{.seq = f.a, .position = 110, .tokens = 7}, {.seq = f.b, .position = 70, .tokens = 60}};
            world_step(f.cache, both, 2, &f.batch, 0, (world_way){.parts = 3}, (const uint32_t[]){keep_a, keep_b});
            qsa_entry only_a = {.seq = g.a, .position = 110, .tokens = keep_a};
            qsa_entry only_b = {.seq = g.b, .position = 70, .tokens = keep_b};
            if (keep_a > 0)
                world_step(g.cache, &only_a, 1, &g.batch, 0, (world_way){0}, NULL);
            if (keep_b > 0)
                world_step(g.cache, &only_b, 1, &g.batch, 7, (world_way){0}, NULL);
            seen expected = look(&g);
            unchanged(&f, &expected);
            close_fixture(&f);
            close_fixture(&g);
        }
}

static void keep_beyond_an_entry_is_an_abort(void **state)
{
    (void)state;
    fixture f = open_fixture();
    seen before = look(&f);
    qsa_step *step;
    qsa_entry both[] = {{.seq = f.a, .position = 110, .tokens = 7}, {.seq = f.b, .position = 70, .tokens = 6}};
    world_ok(qsa_step_begin(f.cache, both, 2, &step));
    world_ok(world_layers(step, &f.batch, 0, 13, (world_way){0}));
    world_refused(QSA_E_ARGUMENT, "entry 1: keep 7 of 6", qsa_step_commit(step, (const uint32_t[]){7, 7}));
    unchanged(&f, &before);
    close_fixture(&f);
}

static void abort_at_any_point_is_as_if_nothing_happened(void **state)
{
    (void)state;
    fixture f = open_fixture();
    seen before = look(&f);
    for (uint32_t stop = 0; stop <= 3 * QSA_PHASES; stop++) {
        qsa_step *step;
        qsa_seq fresh = world_open(f.cache);
        qsa_entry three[] = {{.seq = f.a, .position = 110, .tokens = 7},
                             {.seq = f.b, .position = 70, .tokens = 60},
                             {.seq = fresh, .position = 33, .tokens = 5}};
        world_ok(qsa_step_begin(f.cache, three, 3, &step));
        for (uint32_t at = 0; at < stop; at++) {
            uint32_t layer = at / QSA_PHASES;
            qsa_tensors tensors = world_tensors(&f.batch, 0, layer);
            qsa_output out = world_output(&f.batch, 0, layer);
            if (at % QSA_PHASES == 0)
                world_ok(qsa_layer_begin(step, layer, &tensors, &out));
            world_ok(qsa_layer_phase(step, at % QSA_PHASES, 0, 1));
        }
        qsa_step_abort(step);
        qsa_seq_info info;
        world_ok(qsa_seq_query(f.cache, fresh, &info));
        assert_true(info.tokens == 0 && info.anchor == 0 && info.frontier == 0 && info.pages == 0);
        qsa_entry elsewhere = {.seq = fresh, .position = 4, .tokens = 1}; /* the anchor is still open */
        world_step(f.cache, &elsewhere, 1, &f.batch, 0, (world_way){0}, NULL);
        world_ok(qsa_seq_close(f.cache, fresh));
        unchanged(&f, &before);
    }
    close_fixture(&f);
}

static void destroying_a_cache_drops_its_step(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_step *step;
    qsa_entry entry = {.seq = f.a, .position = 110, .tokens = 7};
    world_ok(qsa_step_begin(f.cache, &entry, 1, &step));
    close_fixture(&f);
}

static void storing_without_output_stores_the_same(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 3; parts++) {
        fixture f = open_fixture(), g = open_fixture();
        qsa_entry entry = {.seq = g.a, .position = 110, .tokens = 33};
        world_step(g.cache, &entry, 1, &g.batch, 0, (world_way){0}, NULL);
        seen expected = look(&g);
        entry.seq = f.a;
        qsa_step *step;
        world_ok(qsa_step_begin(f.cache, &entry, 1, &step));
        for (uint32_t layer = 0; layer < 3; layer++) {
            qsa_tensors tensors = world_tensors(&f.batch, 0, layer);
            qsa_output nowhere = {0};
            uint32_t groups[2], n;
            tensors.q = tensors.index_q = (qsa_strided){0};
            world_ok(qsa_layer_begin(step, layer, &tensors, &nowhere));
            for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
                for (uint32_t part = 0; part < parts; part++)
                    world_ok(qsa_layer_phase(step, phase, part, parts));
            world_refused(QSA_E_ORDER, "without output", qsa_step_selection(step, 0, groups, &n));
        }
        world_ok(qsa_step_commit(step, NULL));
        unchanged(&f, &expected);
        close_fixture(&f);
        close_fixture(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin_refuses_holes_and_stored_positions),
        cmocka_unit_test(begin_refuses_sequences_that_are_none),
        cmocka_unit_test(begin_refuses_empty_and_oversized_steps),
        cmocka_unit_test(begin_refuses_positions_and_triples_out_of_range),
        cmocka_unit_test(full_cache_is_said_before_anything_happens),
        cmocka_unit_test(verbs_are_busy_during_a_step),
        cmocka_unit_test(layers_come_once_each_in_any_order),
        cmocka_unit_test(every_entry_copies_the_page_that_it_shares),
        cmocka_unit_test(counters_count_what_was_committed),
        cmocka_unit_test(every_layer_is_needed),
        cmocka_unit_test(phases_come_in_order_and_in_the_same_parts),
        cmocka_unit_test(most_parts_are_legal_whatever_was_planned),
        cmocka_unit_test(keep_counts_keep_the_first_tokens),
        cmocka_unit_test(keep_beyond_an_entry_is_an_abort),
        cmocka_unit_test(abort_at_any_point_is_as_if_nothing_happened),
        cmocka_unit_test(destroying_a_cache_drops_its_step),
        cmocka_unit_test(storing_without_output_stores_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
