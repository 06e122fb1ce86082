/* The life of a sequence: open, rewind, evict, shift, fork, copy, close; and what reads back. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    qsa_config config;
    qsa_cache *cache;
    qsa_seq seq;
    world_batch batch;
} fixture;

enum { ANCHOR = 50, TOKENS = 150, EXTRA = 50 };

/* 150 tokens at position 50; the batch has 50 more. */
static fixture open_fixture(void)
{
    fixture f = {.config = world_mini()};
    f.cache = world_create(&f.config);
    f.seq = world_open(f.cache);
    f.batch = world_batch_open(&f.config, TOKENS + EXTRA, 1);
    world_feed(f.cache, f.seq, ANCHOR, &f.batch, 0, TOKENS, 0, (world_way){0});
    return f;
}

static void close_fixture(fixture *f)
{
    qsa_cache_destroy(f->cache);
    world_batch_close(&f->batch);
}

static qsa_seq_info info_of(const fixture *f, qsa_seq seq)
{
    qsa_seq_info info;
    world_ok(qsa_seq_query(f->cache, seq, &info));
    return info;
}

/* Feeds the rest of the batch to a sequence that stands at ANCHOR + first and compares it with a run in one go. */
static void goes_on_as_one_run(fixture *f, qsa_seq seq, uint32_t first)
{
    world_batch found = world_batch_open(&f->config, TOKENS + EXTRA, 1);
    world_batch whole = world_batch_open(&f->config, TOKENS + EXTRA, 1);
    world_feed(f->cache, seq, ANCHOR + first, &found, first, TOKENS + EXTRA - first, 0, (world_way){0});
    uint64_t digest = world_solo(&f->config, ANCHOR, &whole, 0, (world_way){0});
    world_same("going on", &whole, first, &found, first, TOKENS + EXTRA - first);
    assert_int_equal(world_digest(f->cache, seq), digest);
    world_ok(qsa_seq_verify_index(f->cache, seq));
    world_batch_close(&found);
    world_batch_close(&whole);
}

static void open_sequence_is_empty_and_unplaced(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_seq fresh = world_open(f.cache);
    qsa_seq_info info = info_of(&f, fresh);
    assert_true(info.anchor == 0 && info.frontier == 0 && info.tokens == 0 && info.groups == 0 && info.pages == 0);
    info = info_of(&f, f.seq);
    assert_true(info.anchor == ANCHOR && info.frontier == ANCHOR + TOKENS && info.tokens == TOKENS);
    assert_true(info.groups == TOKENS / 4 && info.pages == 3 && info.rotary_frame == 0);
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_seq_open(f.cache, NULL));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_seq_open(NULL, &fresh));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_seq_query(f.cache, f.seq, NULL));
    close_fixture(&f);
}

static void closed_handles_stay_refused(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_seq old = f.seq, taker;
    uint64_t digest = 1;
    qsa_seq_info info;
    world_ok(qsa_seq_close(f.cache, old));
    assert_int_equal(qsa_cache_free_tokens(f.cache), f.config.capacity_tokens);
    taker = world_open(f.cache);
    assert_int_equal(taker.slot, old.slot);
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_close(f.cache, old));
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_query(f.cache, old, &info));
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_rewind(f.cache, old, ANCHOR));
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_digest(f.cache, old, &digest));
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_fork(f.cache, old, ANCHOR, &taker));
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_verify_index(f.cache, (qsa_seq){0, 0}));
    assert_int_equal(digest, 1);
    close_fixture(&f);
}

/* Handles of every life of a slot, while later ones come and go. */
static void closed_handles_stay_refused_after_many_reuses(void **state)
{
    (void)state;
    enum { LIVES = 300 };
    fixture f = open_fixture();
    qsa_seq old[LIVES];
    qsa_seq_info info;
    for (int life = 0; life < LIVES; life++) {
        old[life] = world_open(f.cache);
        for (int i = 0; i < life; i++)
            world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_query(f.cache, old[i], &info));
        world_ok(qsa_seq_query(f.cache, old[life], &info));
        world_ok(qsa_seq_close(f.cache, old[life]));
    }
    close_fixture(&f);
}

/* The frame of a sequence without tokens goes as far as positions do. */
static void a_frame_is_shifted_to_both_ends(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const int64_t most = QSA_MAX_POSITION;
    const qsa_seq seq = world_open(f.cache);
    world_ok(qsa_seq_shift(f.cache, seq, most));
    world_refused(QSA_E_RANGE, "shift by 1 ", qsa_seq_shift(f.cache, seq, 1));
    assert_true(info_of(&f, seq).rotary_frame == most);
    world_ok(qsa_seq_shift(f.cache, seq, -2 * most));
    world_refused(QSA_E_RANGE, "shift by -1 ", qsa_seq_shift(f.cache, seq, -1));
    world_refused(QSA_E_RANGE, "shift by", qsa_seq_shift(f.cache, seq, 2 * most + 1));
    assert_true(info_of(&f, seq).rotary_frame == -most && info_of(&f, seq).anchor == 0);
    close_fixture(&f);
}

/* Copy, re-packing evict and step with exactly the pages that they need, and with one fewer. */
static void what_fits_exactly_fits(void **state)
{
    (void)state;
    enum { N = 130, PAGES = 3 };
    for (uint64_t pages = 2 * PAGES - 1; pages <= 2 * PAGES; pages++) {
        const bool fits = pages == 2 * PAGES;
        qsa_config config = world_mini();
        config.capacity_tokens = pages * QSA_PAGE_TOKENS;
        config.max_sequences = 2;
        qsa_cache *cache = world_create(&config);
        world_batch batch = world_batch_open(&config, N, 1);
        qsa_seq seq = world_open(cache), other;
        world_feed(cache, seq, 0, &batch, 0, N, 0, (world_way){0});
        const uint64_t digest = world_digest(cache, seq);
        if (fits) {
            world_ok(qsa_seq_copy(cache, seq, &other));
            assert_true(world_digest(cache, other) == digest);
            assert_int_equal(qsa_cache_free_tokens(cache), 0);
            world_ok(qsa_seq_close(cache, other));
        } else {
            world_refused(QSA_E_FULL, "copy needs 3 pages of 64 tokens, 2 are free", qsa_seq_copy(cache, seq, &other));
        }
        world_ok(qsa_cache_check(cache));
        qsa_step *step;
        const qsa_entry entry = {.seq = world_open(cache), .position = 0, .tokens = PAGES * QSA_PAGE_TOKENS};
        if (fits)
            world_ok(qsa_step_begin(cache, &entry, 1, &step));
        else
            world_refused(QSA_E_FULL, "3 pages of 64 tokens, 2 are free", qsa_step_begin(cache, &entry, 1, &step));
        if (fits)
            qsa_step_abort(step);
        assert_int_equal(qsa_cache_free_tokens(cache), (pages - PAGES) * QSA_PAGE_TOKENS);
        if (fits)
            world_ok(qsa_seq_evict(cache, seq, 1)); /* 129 tokens from the start of a page: 3 pages */
        else
            world_refused(QSA_E_FULL, "evict needs 3 pages", qsa_seq_evict(cache, seq, 1));
        world_ok(qsa_cache_check(cache));
        qsa_cache_destroy(cache);
        world_batch_close(&batch);
    }
}

static void handles_of_another_cache_are_refused(void **state)
{
    (void)state;
    fixture f = open_fixture(), g = open_fixture();
    qsa_seq_info info;
    qsa_seq fork;
    assert_int_equal(f.seq.slot, g.seq.slot); /* the first sequence of each */
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_query(f.cache, g.seq, &info));
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_close(g.cache, f.seq));
    for (int i = 0; i < 100; i++) { /* however often a slot of the other cache was used */
        world_ok(qsa_seq_close(g.cache, g.seq));
        g.seq = world_open(g.cache);
        world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_query(f.cache, g.seq, &info));
        world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_query(g.cache, f.seq, &info));
    }
    world_refused(QSA_E_SEQUENCE, "not open", qsa_seq_fork(f.cache, g.seq, 0, &fork));
    close_fixture(&f);
    close_fixture(&g);
}

/* A shift moves absolute coordinates anywhere; what fits in 32 bits is read, the first that does not is named. */
static void triples_are_read_at_both_ends(void **state)
{
    (void)state;
    enum { N = 8, FAR = 1 << 24 };
    const int64_t last = QSA_MAX_POSITION;
    qsa_config config = world_mini();
    qsa_cache *cache = world_create(&config);
    world_batch batch = world_batch_open(&config, N, 1);
    qsa_seq seq = world_open(cache);
    qsa_triple triples[N], back[N];
    for (int t = 0; t < N; t++)
        triples[t] = (qsa_triple){t, t == 5 ? N : t, t == 6 ? -FAR : 0};
    const qsa_entry entry = {.seq = seq, .position = 0, .tokens = N, .triples = triples};
    world_step(cache, &entry, 1, &batch, 0, (world_way){0}, NULL);
    world_ok(qsa_seq_shift(cache, seq, last - (N - 1)));
    world_ok(qsa_seq_read_triples(cache, seq, (qsa_span){last - 7, last - 2}, back));
    assert_true(back[4].t == (int32_t)last - 3 && back[4].w == (int32_t)last - 7);
    memset(back, 0x55, sizeof back);
    world_refused(QSA_E_LIMIT, "position 2147483645: a coordinate",
                  qsa_seq_read_triples(cache, seq, (qsa_span){last - 7, last + 1}, back));
    assert_int_equal(back[0].t, 0x55555555); /* nothing was written */
    world_ok(qsa_seq_read_triples(cache, seq, (qsa_span){last - 1, last + 1}, back));
    assert_int_equal(back[0].w, (int32_t)last - 7 - FAR);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

static void rewind_to_any_token_goes_on_as_if_never_fed(void **state)
{
    (void)state;
    for (uint32_t to = 0; to <= TOKENS; to += to % 16 < 9 ? 1 : 7) {
        fixture f = open_fixture();
        world_ok(qsa_seq_rewind(f.cache, f.seq, ANCHOR + to));
        qsa_seq_info info = info_of(&f, f.seq);
        assert_true(info.anchor == ANCHOR && info.frontier == ANCHOR + to);
        assert_int_equal(info.groups, to / 4);
        assert_int_equal(info.pages, (to + 63) / 64);
        world_ok(qsa_cache_check(f.cache));
        goes_on_as_one_run(&f, f.seq, to);
        close_fixture(&f);
    }
}

static void rewind_outside_the_run_is_refused(void **state)
{
    (void)state;
    fixture f = open_fixture();
    uint64_t before = world_digest(f.cache, f.seq);
    world_refused(QSA_E_RANGE, "rewind to 49", qsa_seq_rewind(f.cache, f.seq, ANCHOR - 1));
    world_refused(QSA_E_RANGE, "rewind to 201", qsa_seq_rewind(f.cache, f.seq, ANCHOR + TOKENS + 1));
    world_refused(QSA_E_RANGE, "rewind to -1", qsa_seq_rewind(f.cache, f.seq, -1));
    world_ok(qsa_seq_rewind(f.cache, f.seq, ANCHOR + TOKENS));
    assert_int_equal(world_digest(f.cache, f.seq), before);
    world_ok(qsa_seq_rewind(f.cache, f.seq, ANCHOR)); /* the anchor stays decided */
    qsa_step *step;
    qsa_entry entry = {.seq = f.seq, .position = 0, .tokens = 1};
    world_refused(QSA_E_STORED, "expected 50", qsa_step_begin(f.cache, &entry, 1, &step));
    entry.position = ANCHOR + 1;
    world_refused(QSA_E_HOLE, "expected position 50", qsa_step_begin(f.cache, &entry, 1, &step));
    close_fixture(&f);
}

/* A group whose last tokens were taken back is pooled from raw keys when it closes again, never from a pooled key. */
static void rewind_into_a_group_again_and_again(void **state)
{
    (void)state;
    fixture f = open_fixture();
    world_batch others = world_batch_open(&f.config, 8, 900);
    for (int round = 0; round < 5; round++) {
        world_ok(qsa_seq_rewind(f.cache, f.seq, ANCHOR + 11));
        world_feed(f.cache, f.seq, ANCHOR + 11, &others, 0, 4, 0, (world_way){0}); /* other keys in group 2 */
        world_ok(qsa_seq_verify_index(f.cache, f.seq));
        world_ok(qsa_seq_rewind(f.cache, f.seq, ANCHOR + 11));
        world_feed(f.cache, f.seq, ANCHOR + 11, &f.batch, 11, 3, 1, (world_way){0});
        world_ok(qsa_seq_verify_index(f.cache, f.seq));
    }
    goes_on_as_one_run(&f, f.seq, 14);
    world_batch_close(&others);
    close_fixture(&f);
}

static void evict_cuts_the_groups_from_the_new_anchor(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= TOKENS; n += n < 9 ? 1 : 47) {
        fixture f = open_fixture();
        world_ok(qsa_seq_evict(f.cache, f.seq, ANCHOR + n));
        qsa_seq_info info = info_of(&f, f.seq);
        assert_true(info.anchor == ANCHOR + n && info.frontier == ANCHOR + TOKENS);
        world_ok(qsa_cache_check(f.cache));
        world_ok(qsa_seq_verify_index(f.cache, f.seq));
        world_batch fresh = world_batch_open(&f.config, TOKENS + EXTRA - n, 1 + n);
        uint64_t digest = world_solo(&f.config, ANCHOR + n, &fresh, 0, (world_way){0});
        world_feed(f.cache, f.seq, ANCHOR + TOKENS, &f.batch, TOKENS, EXTRA, 7, (world_way){0});
        world_same("after evict", &fresh, TOKENS - n, &f.batch, TOKENS, EXTRA);
        assert_int_equal(world_digest(f.cache, f.seq), digest);
        world_batch_close(&fresh);
        close_fixture(&f);
    }
}

static void evict_that_re_packs_needs_room(void **state)
{
    (void)state;
    fixture f = open_fixture(); /* 3 pages of 16 */
    qsa_seq filler = world_open(f.cache);
    world_batch many = world_batch_open(&f.config, 11 * 64, 2000);
    world_feed(f.cache, filler, 0, &many, 0, 11 * 64, 352, (world_way){0});
    uint64_t before = world_digest(f.cache, f.seq);
    world_refused(QSA_E_FULL, "evict needs 3 pages", qsa_seq_evict(f.cache, f.seq, ANCHOR + 1));
    world_refused(QSA_E_FULL, "needs 3 pages", qsa_seq_remove(f.cache, f.seq, (qsa_span){ANCHOR, ANCHOR + 2}));
    assert_int_equal(world_digest(f.cache, f.seq), before);
    world_ok(qsa_seq_evict(f.cache, f.seq, ANCHOR + 64)); /* whole groups always can */
    world_ok(qsa_seq_evict(f.cache, f.seq, ANCHOR + 65));
    world_ok(qsa_cache_check(f.cache));
    world_ok(qsa_seq_verify_index(f.cache, f.seq));
    world_batch_close(&many);
    close_fixture(&f);
}

static void remove_from_the_middle_is_a_hole(void **state)
{
    (void)state;
    fixture f = open_fixture();
    uint64_t before = world_digest(f.cache, f.seq);
    world_refused(QSA_E_HOLE, "hole between 54 and 57", qsa_seq_remove(f.cache, f.seq, (qsa_span){55, 57}));
    world_refused(QSA_E_ARGUMENT, "backwards", qsa_seq_remove(f.cache, f.seq, (qsa_span){57, 55}));
    world_refused(QSA_E_RANGE, "49", qsa_seq_remove(f.cache, f.seq, (qsa_span){49, 55}));
    world_refused(QSA_E_RANGE, "201", qsa_seq_remove(f.cache, f.seq, (qsa_span){55, 201}));
    world_ok(qsa_seq_remove(f.cache, f.seq, (qsa_span){60, 60}));
    assert_int_equal(world_digest(f.cache, f.seq), before);
    world_ok(qsa_seq_remove(f.cache, f.seq, (qsa_span){180, ANCHOR + TOKENS}));
    assert_int_equal(info_of(&f, f.seq).frontier, 180);
    world_ok(qsa_seq_remove(f.cache, f.seq, (qsa_span){ANCHOR, 54}));
    assert_int_equal(info_of(&f, f.seq).anchor, 54);
    close_fixture(&f);
}

/* Evict three, shift by minus three: results equal a fresh run of the same keys at the unshifted rotary positions. */
static void shift_moves_positions_and_no_result(void **state)
{
    (void)state;
    fixture f = open_fixture();
    world_batch still = world_batch_open(&f.config, TOKENS + EXTRA - 3, 4);
    world_solo(&f.config, ANCHOR + 3, &still, 0, (world_way){0});
    world_ok(qsa_seq_evict(f.cache, f.seq, ANCHOR + 3));
    world_ok(qsa_seq_shift(f.cache, f.seq, -3));
    qsa_seq_info info = info_of(&f, f.seq);
    assert_true(info.anchor == ANCHOR && info.frontier == ANCHOR + TOKENS - 3 && info.rotary_frame == -3);
    world_feed(f.cache, f.seq, info.frontier, &f.batch, TOKENS, EXTRA, 0, (world_way){0});
    world_same("after shift", &still, TOKENS - 3, &f.batch, TOKENS, EXTRA);
    qsa_triple triple;
    world_ok(qsa_seq_read_triples(f.cache, f.seq, (qsa_span){ANCHOR + 5, ANCHOR + 6}, &triple));
    assert_true(triple.t == ANCHOR + 5 && triple.h == triple.t && triple.w == triple.t);
    uint64_t before = world_digest(f.cache, f.seq);
    world_refused(QSA_E_RANGE, "shift by -51", qsa_seq_shift(f.cache, f.seq, -51));
    world_refused(QSA_E_RANGE, "shift", qsa_seq_shift(f.cache, f.seq, INT64_MAX));
    world_refused(QSA_E_RANGE, "shift", qsa_seq_shift(f.cache, f.seq, INT64_MIN));
    assert_int_equal(world_digest(f.cache, f.seq), before);
    world_batch_close(&still);
    close_fixture(&f);
}

static void forks_share_and_never_disturb(void **state)
{
    (void)state;
    for (uint32_t at = 0; at <= TOKENS; at += at < 9 ? 3 : 29) {
        fixture f = open_fixture();
        uint64_t parent = world_digest(f.cache, f.seq);
        qsa_seq child;
        world_ok(qsa_seq_fork(f.cache, f.seq, ANCHOR + at, &child));
        assert_int_equal(qsa_cache_free_tokens(f.cache), f.config.capacity_tokens - 3 * 64); /* nothing copied */
        world_batch others = world_batch_open(&f.config, 80, 700);
        qsa_seq second;
        world_ok(qsa_seq_fork(f.cache, f.seq, ANCHOR + at, &second));
        world_feed(f.cache, second, ANCHOR + at, &others, 0, 80, 9, (world_way){0}); /* into the shared page */
        assert_int_equal(world_digest(f.cache, f.seq), parent);
        goes_on_as_one_run(&f, child, at);
        assert_int_equal(world_digest(f.cache, f.seq), parent);
        world_ok(qsa_seq_close(f.cache, second));
        goes_on_as_one_run(&f, f.seq, TOKENS);
        world_batch_close(&others);
        close_fixture(&f);
    }
}

static void copies_have_pages_of_their_own(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_seq old = world_open(f.cache), copy; /* pages that held something else before */
    world_batch others = world_batch_open(&f.config, 200, 700);
    world_feed(f.cache, old, 0, &others, 0, 200, 0, (world_way){0});
    world_ok(qsa_seq_close(f.cache, old));
    world_ok(qsa_seq_copy(f.cache, f.seq, &copy));
    assert_int_equal(world_digest(f.cache, copy), world_digest(f.cache, f.seq));
    assert_int_equal(qsa_cache_free_tokens(f.cache), f.config.capacity_tokens - 6 * 64);
    uint64_t before = world_digest(f.cache, f.seq);
    world_ok(qsa_seq_rewind(f.cache, copy, ANCHOR + 5));
    world_feed(f.cache, copy, ANCHOR + 5, &others, 0, 20, 0, (world_way){0});
    assert_int_equal(world_digest(f.cache, f.seq), before);
    goes_on_as_one_run(&f, f.seq, TOKENS);
    world_batch_close(&others);
    close_fixture(&f);
}

static void window_frees_pages_and_gives_the_window_s_rows(void **state)
{
    (void)state;
    fixture f = open_fixture();
    world_ok(qsa_seq_window(f.cache, f.seq, 70));
    world_batch token_by_token = world_batch_open(&f.config, TOKENS + EXTRA, 1);
    qsa_seq second = world_open(f.cache);
    world_feed(f.cache, second, ANCHOR, &token_by_token, 0, TOKENS, 0, (world_way){0});
    world_ok(qsa_seq_window(f.cache, second, 70));
    world_feed(f.cache, f.seq, ANCHOR + TOKENS, &f.batch, TOKENS, EXTRA, 0, (world_way){0});
    world_feed(f.cache, second, ANCHOR + TOKENS, &token_by_token, TOKENS, EXTRA, 1, (world_way){0});
    const size_t row =
        (size_t)f.config.layers * f.config.q_heads * f.config.head_dim; /* groups count from the anchor, which moves */
    test_same_floats("window", token_by_token.out + TOKENS * row, f.batch.out + TOKENS * row, EXTRA * row);
    assert_int_equal(world_digest(f.cache, f.seq), world_digest(f.cache, second));
    qsa_seq_info info = info_of(&f, f.seq);
    assert_int_equal(info.window, 70);
    assert_true(info.tokens >= 66 && info.tokens < 70 && info.pages <= 2);
    world_refused(QSA_E_ARGUMENT, "window of 3", qsa_seq_window(f.cache, f.seq, 3));
    world_batch_close(&token_by_token);
    close_fixture(&f);
}

static void compact_moves_pages_and_no_result(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qsa_seq seqs[6];
    world_batch others = world_batch_open(&f.config, 100, 700);
    for (int i = 0; i < 6; i++) {
        seqs[i] = world_open(f.cache);
        world_feed(f.cache, seqs[i], i, &others, 0, 100, 0, (world_way){0});
    }
    for (int i = 0; i < 6; i += 2)
        world_ok(qsa_seq_close(f.cache, seqs[i]));
    world_ok(qsa_seq_fork(f.cache, seqs[1], 50, &seqs[0]));
    uint64_t before[] = {world_digest(f.cache, f.seq), world_digest(f.cache, seqs[1]), world_digest(f.cache, seqs[0])};
    world_ok(qsa_cache_compact(f.cache));
    world_ok(qsa_cache_check(f.cache));
    uint64_t after[] = {world_digest(f.cache, f.seq), world_digest(f.cache, seqs[1]), world_digest(f.cache, seqs[0])};
    assert_memory_equal(before, after, sizeof before);
    goes_on_as_one_run(&f, f.seq, TOKENS);
    world_batch_close(&others);
    close_fixture(&f);
}

/* ---- reading back ---- */

static void read_back_is_what_the_oracle_stores(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const oracle_shape shape = world_oracle_shape(&f.config);
    float values[TOKENS * 8];
    const qsa_span all = {ANCHOR, ANCHOR + TOKENS}, groups = {ANCHOR + 8, ANCHOR + 148};
    for (uint32_t layer = 0; layer < f.config.layers; layer++) {
        oracle_run run;
        oracle_open(&run, &shape, ANCHOR, 0, 0);
        world_oracle_append(&run, &f.batch, layer, 0, TOKENS, NULL);
        world_ok(qsa_seq_read(f.cache, f.seq, layer, QSA_TENSOR_K, all, values));
        test_same_floats("k", run.k_stored, values, TOKENS * 8);
        world_ok(qsa_seq_read(f.cache, f.seq, layer, QSA_TENSOR_V, all, values));
        test_same_floats("v", run.v_stored, values, TOKENS * 8);
        world_ok(qsa_seq_read(f.cache, f.seq, layer, QSA_TENSOR_RAW, all, values));
        test_same_floats("raw", run.raw_key, values, TOKENS * 8);
        world_ok(qsa_seq_read(f.cache, f.seq, layer, QSA_TENSOR_POOLED, groups, values));
        test_same_floats("pooled", run.pooled + 2 * 8, values, 35 * 8);
        oracle_close(&run);
    }
    close_fixture(&f);
}

static void reads_outside_the_run_are_refused(void **state)
{
    (void)state;
    fixture f = open_fixture();
    float x[8] = {77};
    qsa_triple triple = {7, 7, 7};
    uint64_t digest;
    world_refused(QSA_E_RANGE, "[49, 50)", qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_K, (qsa_span){49, 50}, x));
    world_refused(QSA_E_RANGE, "201", qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_K, (qsa_span){200, 201}, x));
    world_refused(QSA_E_RANGE, "[52, 51)", qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_K, (qsa_span){52, 51}, x));
    world_refused(QSA_E_RANGE, "whole groups",
                  qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_POOLED, (qsa_span){50, 51}, x));
    world_refused(QSA_E_RANGE, "whole groups",
                  qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_POOLED, (qsa_span){51, 55}, x));
    world_refused(QSA_E_ARGUMENT, "layer 3", qsa_seq_read(f.cache, f.seq, 3, QSA_TENSOR_K, (qsa_span){50, 51}, x));
    world_refused(QSA_E_ARGUMENT, "tensor 4", qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_COUNT, (qsa_span){50, 51}, x));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_K, (qsa_span){50, 51}, NULL));
    world_refused(QSA_E_RANGE, "[49, 50)", qsa_seq_read_triples(f.cache, f.seq, (qsa_span){49, 50}, &triple));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_seq_read_triples(f.cache, f.seq, (qsa_span){50, 51}, NULL));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_seq_digest(f.cache, f.seq, NULL));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_seq_digest(NULL, f.seq, &digest));
    world_ok(qsa_seq_read(f.cache, f.seq, 0, QSA_TENSOR_K, (qsa_span){60, 60}, x));
    assert_true(x[0] == 77 && triple.t == 7);
    close_fixture(&f);
}

static void status_names_and_detail(void **state)
{
    (void)state;
    assert_string_equal(qsa_status_name(QSA_OK), "QSA_OK");
    assert_string_equal(qsa_status_name(QSA_E_HOLE), "QSA_E_HOLE");
    assert_string_equal(qsa_status_name(QSA_E_IO), "QSA_E_IO");
    assert_string_equal(qsa_status_name(QSA_STATUS_COUNT), "QSA_E_?");
    assert_string_equal(qsa_status_name((qsa_status)-1), "QSA_E_?");
    for (int status = 0; status < QSA_STATUS_COUNT; status++)
        assert_non_null(strstr(qsa_status_name((qsa_status)status), "QSA_"));
    assert_string_equal(qsa_version(), QSA_VERSION);
    assert_int_equal(qsa_cache_free_tokens(NULL), 0);
    assert_string_equal(qsa_cache_isa(NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_and_detail),
        cmocka_unit_test(open_sequence_is_empty_and_unplaced),
        cmocka_unit_test(closed_handles_stay_refused),
        cmocka_unit_test(closed_handles_stay_refused_after_many_reuses),
        cmocka_unit_test(a_frame_is_shifted_to_both_ends),
        cmocka_unit_test(what_fits_exactly_fits),
        cmocka_unit_test(handles_of_another_cache_are_refused),
        cmocka_unit_test(triples_are_read_at_both_ends),
        cmocka_unit_test(rewind_to_any_token_goes_on_as_if_never_fed),
        cmocka_unit_test(rewind_outside_the_run_is_refused),
        cmocka_unit_test(rewind_into_a_group_again_and_again),
        cmocka_unit_test(evict_cuts_the_groups_from_the_new_anchor),
        cmocka_unit_test(evict_that_re_packs_needs_room),
        cmocka_unit_test(remove_from_the_middle_is_a_hole),
        cmocka_unit_test(shift_moves_positions_and_no_result),
        cmocka_unit_test(forks_share_and_never_disturb),
        cmocka_unit_test(copies_have_pages_of_their_own),
        cmocka_unit_test(window_frees_pages_and_gives_the_window_s_rows),
        cmocka_unit_test(compact_moves_pages_and_no_result),
        cmocka_unit_test(read_back_is_what_the_oracle_stores),
        cmocka_unit_test(reads_outside_the_run_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
