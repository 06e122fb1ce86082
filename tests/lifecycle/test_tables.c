/* Page tables in chunks: what they take, what sequences share, and that they never run out but where ADR 9 says so. */
#include "cache/cache.h"
#include "mini.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 6, PAGES = 420, STEP_TOKENS = 8192 };

static qsa_config config_of(void)
{
    qsa_config config = world_mini();
    config.layers = 1;
    config.capacity_tokens = PAGES * QSA_PAGE_TOKENS;
    config.max_sequences = SEQUENCES;
    config.max_step_tokens = STEP_TOKENS;
    return config;
}

/* ---- what is planned ---- */

static uint64_t planned_tables(uint64_t capacity_tokens, uint32_t max_sequences)
{
    qsa_config config;
    qsa_memory_plan plan;
    qsa_config_init(&config);
    config.capacity_tokens = capacity_tokens;
    config.max_sequences = max_sequences;
    world_ok(qsa_plan_memory(&config, &plan));
    return plan.table_bytes;
}

static void planned_tables_are_bounded(void **state)
{
    (void)state;
    const uint64_t most = UINT64_C(65536) * QSA_PAGE_TOKENS; /* a page for each of 65,536 sequences */
    assert_in_range(planned_tables(most, 65536), 1, 260000000);
    assert_in_range(planned_tables(262144, 65536), 1, 130000000);
    assert_in_range(planned_tables(262144, 1), 1, 128 * 1024);
    /* a page costs its own few words, once, and a number in each directory per QSA_CHUNK_PAGES pages */
    const uint64_t more = planned_tables(2 * most, 65536) - planned_tables(most, 65536);
    assert_in_range(more / 65536, 1, 6 * 4 + (65537 + QSA_CHUNK_PAGES) * 4 / QSA_CHUNK_PAGES + 4);
}

/* ---- a cache whose runs are long ---- */

static uint32_t used_chunks(const qsa_cache *cache)
{
    return cache->n_chunks - cache->n_free_chunks;
}

/* Appends without output; every token has the same input. */
static qsa_status append(qsa_cache *cache, qsa_seq seq, uint32_t tokens, bool commit)
{
    static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const qsa_strided same = {ones, 0, 0};
    const qsa_tensors tensors = {.k = same, .v = same, .raw_key = same};
    qsa_seq_info info;
    qsa_step *step;
    world_ok(qsa_seq_query(cache, seq, &info));
    const qsa_entry entry = {.seq = seq, .position = info.frontier, .tokens = tokens};
    qsa_status status = qsa_step_begin(cache, &entry, 1, &step);
    if (status != QSA_OK)
        return status;
    if (!commit) {
        qsa_step_abort(step);
        return QSA_OK;
    }
    world_ok(qsa_step_layer(step, 0, &tensors, &(qsa_output){NULL, 0, 0}));
    return qsa_step_commit(step, NULL);
}

static qsa_seq run_of(qsa_cache *cache, uint32_t tokens)
{
    qsa_seq seq = world_open(cache);
    for (uint32_t n; tokens > 0; tokens -= n) {
        n = tokens < STEP_TOKENS ? tokens : STEP_TOKENS;
        world_ok(append(cache, seq, n, true));
    }
    return seq;
}

static void forks_share_chunks_until_one_writes(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config);
    const qsa_seq run = run_of(cache, 2 * QSA_CHUNK_TOKENS + 100);
    assert_int_equal(used_chunks(cache), 3);
    qsa_seq forks[3];
    for (int i = 0; i < 3; i++)
        world_ok(qsa_seq_fork(cache, run, 2 * QSA_CHUNK_TOKENS - 70 * i, &forks[i]));
    assert_int_equal(used_chunks(cache), 3);
    world_ok(append(cache, forks[0], 1, true)); /* a chunk of its own behind two that are shared */
    assert_int_equal(used_chunks(cache), 4);
    world_ok(append(cache, forks[1], 1, true)); /* the second chunk is copied: it gets another last page */
    assert_int_equal(used_chunks(cache), 5);
    world_ok(append(cache, forks[2], 1, true));
    assert_int_equal(used_chunks(cache), 6);
    world_ok(append(cache, run, 1, true)); /* the only one there */
    assert_int_equal(used_chunks(cache), 6);
    world_ok(qsa_cache_check(cache));
    for (int i = 0; i < 3; i++)
        world_ok(qsa_seq_close(cache, forks[i]));
    world_ok(qsa_seq_evict(cache, run, QSA_CHUNK_TOKENS));
    assert_int_equal(used_chunks(cache), 2);
    world_ok(qsa_seq_close(cache, run));
    assert_int_equal(used_chunks(cache), 0);
    qsa_cache_destroy(cache);
}

/* A window of more than two chunks slides through six: the directory moves forward, and every token stays where the
 * table says. */
static void a_long_window_keeps_every_token(void **state)
{
    (void)state;
    enum { WINDOW = 2 * QSA_CHUNK_TOKENS + 5 * QSA_PAGE_TOKENS, END = 6 * QSA_CHUNK_TOKENS + 777 };
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config);
    const qsa_seq seq = world_open(cache);
    world_ok(qsa_seq_window(cache, seq, WINDOW));
    qsa_triple *triples = test_alloc(WINDOW + STEP_TOKENS, sizeof *triples);
    qsa_seq_info info = {0};
    for (uint32_t n = 3000; info.frontier < END; n = n % STEP_TOKENS + 997) {
        world_ok(append(cache, seq, n % STEP_TOKENS + 1, true));
        world_ok(qsa_cache_check(cache));
        world_ok(qsa_seq_query(cache, seq, &info));
        assert_true(info.tokens <= WINDOW && info.pages <= WINDOW / QSA_PAGE_TOKENS + 2);
        world_ok(qsa_seq_read_triples(cache, seq, (qsa_span){info.anchor, info.frontier}, triples));
        for (uint64_t t = 0; t < info.tokens; t++)
            if (triples[t].t != info.anchor + (int64_t)t)
                fail_msg("token %lld has the place of token %d", (long long)info.anchor + (long long)t, triples[t].t);
    }
    world_ok(qsa_seq_verify_index(cache, seq));
    free(triples);
    qsa_cache_destroy(cache);
}

/* ---- restored ---- */

static void restored_forks_share_chunks(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config), *other = world_create(&config);
    qsa_seq all[SEQUENCES] = {run_of(cache, 3 * QSA_CHUNK_TOKENS + 30)};
    for (int i = 1; i < SEQUENCES; i++) {
        world_ok(qsa_seq_fork(cache, all[0], 3 * QSA_CHUNK_TOKENS, &all[i]));
        world_ok(qsa_seq_shift(cache, all[i], 1000 * i));
        world_ok(append(cache, all[i], 1, true));
    }
    const qsa_seq late = all[SEQUENCES - 1]; /* its front is another; it lies in the same chunks */
    qsa_seq_info info;
    world_ok(qsa_seq_query(cache, late, &info));
    world_ok(qsa_seq_evict(cache, late, info.anchor + 200));
    uint64_t digests[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++)
        digests[i] = world_digest(cache, all[i]);
    mini_bytes bytes = {0};
    const qsa_writer writer = mini_writer(&bytes);
    world_ok(qsa_snapshot_write(cache, all, SEQUENCES, NULL, 0, 0, &writer));
    qsa_snapshot back;
    const qsa_reader reader = mini_reader(&bytes);
    world_ok(qsa_snapshot_read(other, 0, &reader, &back));
    world_ok(qsa_cache_check(other));
    for (int i = 0; i < SEQUENCES; i++)
        assert_int_equal(world_digest(other, back.sequences[i]), digests[i]);
    assert_int_equal(used_chunks(other), used_chunks(cache));
    qsa_snapshot_free(&back);
    mini_free(&bytes);
    qsa_cache_destroy(cache);
    qsa_cache_destroy(other);
}

/* ---- refused ---- */

/* The pool of chunks becomes one with so many free; chunks 0 .. used are in use. */
static void leave_free(qsa_cache *cache, uint32_t used, uint32_t free)
{
    cache->n_chunks = used + free;
    cache->n_free_chunks = free;
    for (uint32_t i = 0; i < free; i++)
        cache->free_chunks[i] = used + free - 1 - i;
}

/* Something that needs a chunk is refused, and nothing has changed. */
static void without_chunks_nothing_changes(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config);
    const qsa_seq run = run_of(cache, QSA_CHUNK_TOKENS + 90), empty = world_open(cache);
    mini_bytes bytes = {0};
    const qsa_writer writer = mini_writer(&bytes);
    world_ok(qsa_snapshot_write(cache, &run, 1, NULL, 0, 0, &writer));
    const uint64_t digest = world_digest(cache, run), tokens = qsa_cache_free_tokens(cache);
    const uint32_t free = cache->n_free_chunks, used = used_chunks(cache);
    qsa_seq seq = {0};
    qsa_snapshot back;
    qsa_reader reader = mini_reader(&bytes);
    for (uint32_t left = 0; left < 2; left++) {
        leave_free(cache, used, left);
        if (left == 0)
            world_refused(QSA_E_FULL, "chunks of page tables, 0 of", append(cache, empty, 1, true));
        world_refused(QSA_E_FULL, "chunks of page tables", qsa_seq_copy(cache, run, &seq));
        world_refused(QSA_E_FULL, "chunks of page tables", qsa_seq_evict(cache, run, 1));
        reader = mini_reader(&bytes);
        world_refused(QSA_E_FULL, "chunks of page tables", qsa_snapshot_read(cache, 0, &reader, &back));
        world_ok(append(cache, run, 1, false));
        assert_int_equal(cache->n_free_chunks, left);
        assert_int_equal(world_digest(cache, run), digest);
        assert_int_equal(qsa_cache_free_tokens(cache), tokens);
        world_ok(qsa_cache_check(cache));
    }
    leave_free(cache, used, free);
    reader = mini_reader(&bytes);
    world_ok(qsa_snapshot_read(cache, 0, &reader, &back));
    assert_int_equal(world_digest(cache, back.sequences[0]), digest);
    qsa_snapshot_free(&back);
    world_ok(qsa_seq_copy(cache, run, &seq));
    world_ok(append(cache, empty, 1, true));
    mini_free(&bytes);
    qsa_cache_destroy(cache);
}

/* A fork that writes needs a copy of the chunk that it shares. */
static void a_shared_chunk_is_counted_before_it_is_copied(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config);
    const qsa_seq run = run_of(cache, 3 * QSA_PAGE_TOKENS);
    qsa_seq fork;
    world_ok(qsa_seq_fork(cache, run, 3 * QSA_PAGE_TOKENS, &fork));
    const uint32_t free = cache->n_free_chunks, used = used_chunks(cache);
    leave_free(cache, used, 0);
    world_refused(QSA_E_FULL, "needs 1 chunks of page tables, 0 of", append(cache, fork, 1, true));
    world_ok(qsa_cache_check(cache));
    leave_free(cache, used, 1);
    world_ok(append(cache, fork, 1, true));
    world_ok(qsa_cache_check(cache));
    leave_free(cache, used_chunks(cache), free - 1);
    qsa_cache_destroy(cache);
}

/* Two forks that write in one step need a chunk each. */
static void chunks_of_all_entries_are_counted(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config);
    const qsa_seq run = run_of(cache, 100);
    qsa_entry entries[2] = {{.position = 100, .tokens = 1}, {.position = 100, .tokens = 1}};
    for (int i = 0; i < 2; i++)
        world_ok(qsa_seq_fork(cache, run, 100, &entries[i].seq));
    const uint32_t free = cache->n_free_chunks, used = used_chunks(cache);
    for (uint32_t left = 1; left <= 2; left++) {
        qsa_step *step;
        leave_free(cache, used, left);
        if (left == 1)
            world_refused(QSA_E_FULL, "needs 2 chunks of page tables, 1 of", qsa_step_begin(cache, entries, 2, &step));
        else
            world_ok(qsa_step_begin(cache, entries, 2, &step));
        if (left == 2)
            qsa_step_abort(step);
        world_ok(qsa_cache_check(cache));
    }
    leave_free(cache, used_chunks(cache), free - (used_chunks(cache) - used));
    qsa_cache_destroy(cache);
}

/* Only chunks from the first page that is written on are copied, wherever the table begins in its first chunk. */
static void chunks_before_the_write_stay_shared(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config);
    const qsa_seq run = run_of(cache, 132 * QSA_PAGE_TOKENS);
    qsa_seq fork;
    world_ok(qsa_seq_evict(cache, run, 120 * QSA_PAGE_TOKENS)); /* eight pages in the first chunk, four in the second */
    world_ok(qsa_seq_fork(cache, run, 132 * QSA_PAGE_TOKENS, &fork));
    const uint32_t free = cache->n_free_chunks, used = used_chunks(cache);
    assert_int_equal(used, 2);
    leave_free(cache, used, 1);
    world_ok(append(cache, fork, 1, true));
    assert_int_equal(used_chunks(cache), 3);
    world_ok(qsa_cache_check(cache));
    leave_free(cache, 3, free - 1);
    qsa_cache_destroy(cache);
}

/* Pages of every sequence, the one in the last slot too, in order from the front. */
static void compacting_leaves_no_gap(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *cache = world_create(&config);
    qsa_seq seqs[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++)
        seqs[i] = world_open(cache);
    for (int round = 0; round < 3; round++)
        for (int i = SEQUENCES; i-- > 0;)
            world_ok(append(cache, seqs[i], QSA_PAGE_TOKENS, true));
    world_ok(qsa_seq_close(cache, seqs[2]));
    world_ok(qsa_cache_compact(cache));
    world_ok(qsa_cache_check(cache));
    uint32_t next = 0;
    for (int i = 0; i < SEQUENCES; i++)
        for (uint32_t p = 0; i != 2 && p < 3; p++)
            assert_int_equal(*qsa_sequence_page(&cache->sequences[seqs[i].slot], p), next++);
    qsa_cache_destroy(cache);
}

/* The third of three sequences finds no chunk: the first two are not there either. */
static void a_restore_that_ends_in_the_middle_leaves_nothing(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    qsa_cache *from = world_create(&config), *to = world_create(&config);
    qsa_seq seqs[3];
    for (int i = 0; i < 3; i++)
        seqs[i] = run_of(from, 100);
    mini_bytes bytes = {0};
    const qsa_writer writer = mini_writer(&bytes);
    world_ok(qsa_snapshot_write(from, seqs, 3, NULL, 0, 0, &writer));
    const uint32_t free = to->n_free_chunks;
    for (uint32_t left = 0; left < 3; left++) {
        qsa_snapshot back;
        const qsa_reader reader = mini_reader(&bytes);
        leave_free(to, 0, left);
        world_refused(QSA_E_FULL, "chunks of page tables", qsa_snapshot_read(to, 0, &reader, &back));
        assert_int_equal(qsa_cache_free_tokens(to), config.capacity_tokens);
        assert_int_equal(to->n_free_chunks, left);
        for (uint32_t slot = 0; slot < SEQUENCES; slot++)
            assert_false(to->sequences[slot].open);
        world_ok(qsa_cache_check(to));
    }
    leave_free(to, 0, free);
    mini_free(&bytes);
    qsa_cache_destroy(from);
    qsa_cache_destroy(to);
}

/* ---- at random ---- */

typedef struct lives {
    qsa_cache *cache;
    uint64_t chance;
    bool open[SEQUENCES];
    qsa_seq seqs[SEQUENCES];
} lives;

static uint32_t tokens_about(lives *l, uint32_t n)
{
    const uint32_t around = world_random(&l->chance, 2) ? QSA_CHUNK_TOKENS : QSA_PAGE_TOKENS;
    const uint32_t t = world_random(&l->chance, 3) * around + world_random(&l->chance, 3 * QSA_PAGE_TOKENS);
    return t < n ? t : n;
}

static qsa_status verb(lives *l, uint32_t i)
{
    qsa_seq_info info;
    qsa_seq *seq = &l->seqs[i], child;
    const uint32_t other = world_random(&l->chance, SEQUENCES);
    world_ok(qsa_seq_query(l->cache, *seq, &info));
    const uint32_t cut = tokens_about(l, (uint32_t)info.tokens);
    qsa_status status = QSA_OK;
    switch (world_random(&l->chance, 9)) {
    case 0:
        return qsa_seq_rewind(l->cache, *seq, info.frontier - cut);
    case 1:
        return qsa_seq_evict(l->cache, *seq, info.anchor + cut / 4 * 4);
    case 2:
        return qsa_seq_evict(l->cache, *seq, info.anchor + cut);
    case 3:
    case 4:
        if (l->open[other])
            return QSA_OK;
        status = world_random(&l->chance, 6) == 0 ? qsa_seq_copy(l->cache, *seq, &child)
                                                  : qsa_seq_fork(l->cache, *seq, info.frontier - cut, &child);
        l->open[other] = status == QSA_OK;
        l->seqs[other] = child;
        return status;
    case 5:
        l->open[i] = false;
        return qsa_seq_close(l->cache, *seq);
    case 6:
        return world_random(&l->chance, 4) ? qsa_seq_shift(l->cache, *seq, 64) : qsa_cache_compact(l->cache);
    default:
        return append(l->cache, *seq, 1 + tokens_about(l, STEP_TOKENS - 1), world_random(&l->chance, 4) != 0);
    }
}

/* Pages may run out, chunks never. */
static void chunks_never_run_out(void **state)
{
    (void)state;
    const qsa_config config = config_of();
    lives l = {.cache = world_create(&config), .chance = 9};
    uint32_t most = 0, full = 0;
    for (int n = 0; n < 5000; n++) {
        const uint32_t i = world_random(&l.chance, SEQUENCES);
        if (!l.open[i])
            l.seqs[i] = world_open(l.cache);
        l.open[i] = true;
        const qsa_status status = verb(&l, i);
        if (status != QSA_OK && (status != QSA_E_FULL || strstr(qsa_error_detail(), "chunks") != NULL))
            fail_msg("verb %d: %s", n, qsa_error_detail());
        full += status == QSA_E_FULL;
        world_ok(qsa_cache_check(l.cache));
        most = used_chunks(l.cache) > most ? used_chunks(l.cache) : most;
    }
    assert_true(full > 10 && most > PAGES / QSA_CHUNK_PAGES + SEQUENCES / 2); /* it was tight */
    for (int i = 0; i < SEQUENCES; i++)
        if (l.open[i])
            world_ok(qsa_seq_close(l.cache, l.seqs[i]));
    assert_int_equal(used_chunks(l.cache), 0);
    qsa_cache_destroy(l.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_tables_are_bounded),
        cmocka_unit_test(forks_share_chunks_until_one_writes),
        cmocka_unit_test(restored_forks_share_chunks),
        cmocka_unit_test(without_chunks_nothing_changes),
        cmocka_unit_test(chunks_never_run_out),
        cmocka_unit_test(a_long_window_keeps_every_token),
        cmocka_unit_test(a_shared_chunk_is_counted_before_it_is_copied),
        cmocka_unit_test(chunks_of_all_entries_are_counted),
        cmocka_unit_test(chunks_before_the_write_stay_shared),
        cmocka_unit_test(compacting_leaves_no_gap),
        cmocka_unit_test(a_restore_that_ends_in_the_middle_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
