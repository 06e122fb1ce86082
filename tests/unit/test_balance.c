/* How evenly the phases deal out their work over parts, by multiply-adds that a counting table of kernels sees; never
 * by time. A task is what a phase does not split: a part may have one more of them than its share. Parts run one
 * after another, so that none finds another's work begun and steals from it: what is seen is the share each starts
 * with. (What a merge of ranges costs in phase 2 is comparisons, not multiply-adds, and a query's own.) */
#include "world.h"

#include "cache/cache.h"
#include "device/device.h"

#include <stdlib.h>

/* ---- kernels that count ---- */

static const qsa_kernels *right;
static uint64_t counted;

static void count_score(const qsa_score_call *call, enum qsa_element type)
{
    counted += (uint64_t)call->n_queries * call->heads * call->dim * call->n_tiles * call->groups;
    right->score(call, type);
}

static void count_qk(const qsa_qk_call *call, enum qsa_element type)
{
    counted += (uint64_t)call->heads * call->dim * call->n_blocks * QSA_BLOCK_TOKENS;
    right->qk(call, type);
}

static void count_pv(const qsa_pv_call *call, enum qsa_element type)
{
    counted += (uint64_t)call->heads * call->n * call->dim;
    right->pv(call, type);
}

static void count_norm_rotate(const qsa_norm_rotate_call *call)
{
    counted += (uint64_t)call->heads * call->dim;
    right->norm_rotate(call);
}

/* ---- a layer of a step ---- */

enum {
    MOST_PARTS = 64,
    Q_HEADS = 24,
    KV_HEADS = 2,
    DIM = 64, /* two chunks of dimensions that are not cut */
    INDEX_HEADS = 4,
    INDEX_DIM = 8,
    CHUNK = 192,
    DEPTH = 9000,
    BUDGET = 512
};

typedef struct deal {
    uint64_t all, most; /* multiply-adds of all parts, of the one that has most */
} deal;

typedef struct layer {
    deal phase[QSA_PHASES];
    uint64_t groups_scored, k_rows_read; /* by the cache's own counters */
} layer;

static qsa_config shape(void)
{
    qsa_config config = world_narrow();
    config.q_heads = Q_HEADS;
    config.kv_heads = KV_HEADS;
    config.head_dim = DIM;
    config.index_heads = INDEX_HEADS;
    config.index_dim = INDEX_DIM;
    config.kv_type = QSA_KV_F32;
    config.profile = QSA_PROFILE_F32;
    config.capacity_tokens = DEPTH + CHUNK + QSA_PAGE_TOKENS;
    config.max_parts = MOST_PARTS;
    config.budget = BUDGET;
    return config;
}

static qsa_counters counters(const qsa_cache *cache)
{
    qsa_counters c;
    world_ok(qsa_cache_counters(cache, &c));
    return c;
}

/* `tokens` tokens at `position`, in `parts` parts; nothing of it stays. */
static layer deal_out(qsa_cache *cache, qsa_seq seq, world_batch *batch, uint32_t position, uint32_t tokens,
                      uint32_t parts)
{
    const qsa_entry entry = {.seq = seq, .position = position, .tokens = tokens};
    const qsa_tensors tensors = world_tensors(batch, 0, 0);
    const qsa_output out = world_output(batch, 0, 0);
    const qsa_counters before = counters(cache);
    layer l = {0};
    qsa_step *step;
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    world_ok(qsa_layer_begin(step, 0, &tensors, &out));
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
        for (uint32_t part = 0; part < parts; part++) {
            counted = 0;
            world_ok(qsa_layer_phase(step, phase, part, parts));
            l.phase[phase].all += counted;
            l.phase[phase].most = counted > l.phase[phase].most ? counted : l.phase[phase].most;
        }
    qsa_step_abort(step);
    l.groups_scored = counters(cache).groups_scored - before.groups_scored;
    l.k_rows_read = counters(cache).k_rows_read - before.k_rows_read;
    return l;
}

/* Multiply-adds of one head over the longest row, with a block that is not full. */
enum { HEAD_ROW = 2 * (BUDGET + 3 + QSA_BLOCK_TOKENS) * DIM + DIM };
/* Of a group: k of four tokens, and the pooled key. */
enum { GROUP = 4 * KV_HEADS * DIM + INDEX_DIM };
/* Of a page, and of the query that a range norms for itself. */
enum { PAGE = INDEX_HEADS * INDEX_DIM * QSA_PAGE_TOKENS / 4, QUERY = INDEX_HEADS * INDEX_DIM };

static const uint32_t PARTS[] = {1, 2, 3, 4, 7, 8, 16, 32, MOST_PARTS};
enum { PARTS_COUNT = sizeof PARTS / sizeof PARTS[0] };
enum { APPEND = 0, SCAN = 1, QK = 3, ATTEND = 4 };

/* At most `times` its share, and a task. */
static void expect_even(const char *what, deal d, uint32_t parts, double times, uint64_t task)
{
    const double share = (double)d.all / parts;
    if (d.all == 0 || (double)d.most > times * share + (double)task)
        fail_msg("%s in %u parts: one part does %llu of %llu multiply-adds; its share is %.0f, a task %llu", what,
                 parts, (unsigned long long)d.most, (unsigned long long)d.all, share, (unsigned long long)task);
}

/* All that the cache says was done went through the counting kernels, and dealing it out made it no more: but for
 * queries, which each part that needs one norms and rotates. */
static void expect_all_seen(const layer *l, const layer *alone, uint32_t parts)
{
    const uint64_t score = INDEX_HEADS * INDEX_DIM, row = Q_HEADS / KV_HEADS * DIM * 2;
    assert_true(l->phase[SCAN].all >= l->groups_scored * score);
    const uint64_t attention = l->phase[QK].all + l->phase[ATTEND].all;
    assert_true(attention >= l->k_rows_read * row);
    assert_true(l->phase[SCAN].all <= alone->phase[SCAN].all * 101 / 100 + parts * (score + MOST_PARTS * score));
    assert_int_equal(alone->phase[QK].all, 0);
    assert_true(attention >= alone->phase[ATTEND].all);
    if (l->phase[QK].all == 0)
        assert_int_equal(attention, alone->phase[ATTEND].all);
    else
        assert_true(attention <= alone->phase[ATTEND].all + 2 * (parts + Q_HEADS) * Q_HEADS / KV_HEADS * DIM);
    assert_int_equal(l->phase[APPEND].all, alone->phase[APPEND].all);
}

typedef struct bounds {
    double attend_times; /* share of the attention that a part may have */
    uint64_t scan, head; /* tasks: of the scan, and one head over its selected tokens */
} bounds;

/* Tokens that nobody asks about. */
static void store(qsa_cache *cache, qsa_seq seq, const world_batch *batch, uint32_t position, uint32_t tokens)
{
    const qsa_entry entry = {.seq = seq, .position = position, .tokens = tokens};
    const qsa_tensors tensors = world_tensors(batch, 0, 0);
    const qsa_output none = {0};
    qsa_step *step;
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    world_ok(qsa_step_layer(step, 0, &tensors, &none));
    world_ok(qsa_step_commit(step, NULL));
}

/* The largest task of phases 3 and 4. With no more parts than rows (a query and a kv head) that is a row with all its
 * query heads; otherwise a piece of it for all heads, and some heads over it for some chunks of dimensions. */
static void tasks_of(uint32_t tokens, uint32_t parts, uint64_t head, uint64_t *out_qk, uint64_t *out_attend)
{
    const uint32_t shared = Q_HEADS / KV_HEADS, rows = tokens * KV_HEADS, members = BUDGET / 4 + 1;
    *out_qk = 0;
    *out_attend = head * shared;
    if (parts <= rows)
        return;
    const uint32_t pieces = parts % rows == 0 ? parts / rows : (2 * parts + rows - 1) / rows;
    const uint32_t strips = pieces >= 4 ? 2 : 1, wanted = (pieces + strips - 1) / strips;
    const uint32_t blocks = wanted < shared ? wanted : shared;
    *out_qk = (uint64_t)((members + pieces - 1) / pieces * 4 + 1) * shared * DIM;
    *out_attend = (uint64_t)(BUDGET + 3) * ((shared + blocks - 1) / blocks) * DIM / strips;
}

static void expect_even_phases(uint32_t position, uint32_t tokens, bounds b)
{
    const qsa_config config = shape();
    qsa_cache *cache = world_create(&config);
    const qsa_seq seq = world_open(cache);
    world_batch batch = world_batch_open(&config, CHUNK, 1);
    for (uint32_t at = 0; at < position; at += CHUNK)
        store(cache, seq, &batch, at, position - at < CHUNK ? position - at : CHUNK);
    qsa_kernels counting = *cache->store->kernels;
    right = cache->store->kernels;
    counting.score = count_score;
    counting.qk = count_qk;
    counting.pv = count_pv;
    counting.norm_rotate = count_norm_rotate;
    cache->store->kernels = &counting;
    layer alone = {0};
    for (size_t i = 0; i < PARTS_COUNT; i++) {
        const layer l = deal_out(cache, seq, &batch, position, tokens, PARTS[i]);
        alone = i == 0 ? l : alone;
        expect_all_seen(&l, &alone, PARTS[i]);
        expect_even("append", l.phase[APPEND], PARTS[i], 1, GROUP);
        if (l.groups_scored > 0 && position > 0)
            expect_even("scan", l.phase[SCAN], PARTS[i], 1, b.scan);
        uint64_t qk, attend;
        tasks_of(tokens, PARTS[i], b.head, &qk, &attend);
        if (qk > 0)
            expect_even("qk", l.phase[QK], PARTS[i], 1, qk);
        expect_even("attend", l.phase[ATTEND], PARTS[i], b.attend_times, attend);
    }
    cache->store->kernels = right;
    world_batch_close(&batch);
    qsa_cache_destroy(cache);
}

/* One token: the scan is cut by pages; attention by pieces of the row, then by heads and dimensions. */
static void one_token_is_dealt_out_by_pages_and_pieces(void **state)
{
    (void)state;
    expect_even_phases(DEPTH + 3, 1, (bounds){1, PAGE + QUERY, HEAD_ROW});
}

/* A chunk: the scan is cut by queries, attention by the twelve heads of a kv head. */
static void a_chunk_is_dealt_out_by_queries(void **state)
{
    (void)state;
    const uint64_t query = (uint64_t)PAGE * ((DEPTH + CHUNK) / QSA_PAGE_TOKENS + 1) + QUERY;
    expect_even_phases(DEPTH, CHUNK, (bounds){1, query, HEAD_ROW});
}

/* At the beginning rows grow from one token on: the last part has at most twice its share. */
static void first_chunk_gives_nobody_more_than_twice_its_share(void **state)
{
    (void)state;
    const uint64_t longest = (uint64_t)2 * (CHUNK + QSA_BLOCK_TOKENS) * DIM + DIM;
    expect_even_phases(0, CHUNK, (bounds){2, 0, longest});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_token_is_dealt_out_by_pages_and_pieces),
        cmocka_unit_test(a_chunk_is_dealt_out_by_queries),
        cmocka_unit_test(first_chunk_gives_nobody_more_than_twice_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
