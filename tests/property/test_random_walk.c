/* Random steps and verbs over up to 8 sequences and 3 layers; after every one the invariants hold, and every selection
 * and output is the naive oracle's, bit for bit.
 *
 * usage: test_random_walk [SEED [VERBS]]   replays one walk */
#include "world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 8, LAYERS = 3, LONGEST = 160, DEFAULT_WALKS = 4, DEFAULT_VERBS = 1200 };

static uint64_t first_seed = 1;
static uint32_t verbs = DEFAULT_VERBS;
static int walks = DEFAULT_WALKS;

/* What a sequence must be. Tokens are told apart by id; an id decides every value. */
typedef struct walker {
    bool open, placed;
    bool images; /* tokens come with triples of their own */
    qsa_seq seq;
    int64_t anchor, frame;
    uint32_t window, n;
    uint32_t ids[LONGEST];
    qsa_triple relative[LONGEST]; /* to the frame */
    bool modelled;                /* `layer` holds the n tokens */
    oracle_run layer[LAYERS];
} walker;

typedef struct walk {
    uint64_t seed, chance;
    uint32_t verb;
    qsa_config config;
    oracle_shape shape;
    qsa_cache *cache;
    qsa_threads *threads;
    walker walkers[SEQUENCES];
    uint32_t next_id;
} walk;

static void expect(const walk *w, const char *what, bool holds)
{
    if (!holds)
        fail_msg("verb %u: %s (%s); replay: test_random_walk %" PRIu64 " %u", w->verb, what, qsa_error_detail(),
                 w->seed, w->verb + 1);
}

static uint32_t below(walk *w, uint32_t n)
{
    return world_random(&w->chance, n);
}

/* ---- the model of one sequence ---- */

static qsa_triple moved(qsa_triple triple, int64_t by)
{
    return (qsa_triple){(int32_t)(triple.t + by), (int32_t)(triple.h + by), (int32_t)(triple.w + by)};
}

static void forget_model(walker *one)
{
    for (int layer = 0; layer < LAYERS && one->modelled; layer++)
        oracle_close(&one->layer[layer]);
    one->modelled = false;
}

static void append_to_model(walker *one, const world_batch *batch, uint32_t first, uint32_t at, uint32_t n)
{
    qsa_triple absolute[LONGEST];
    for (uint32_t t = 0; t < n; t++)
        absolute[t] = moved(one->relative[at + t], one->frame);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        world_oracle_append(&one->layer[layer], batch, layer, first, n, absolute);
}

/* Verbs that change more than the end of a run throw the oracle away; the next step makes it from the ids. */
static void need_model(const walk *w, walker *one)
{
    if (one->modelled)
        return;
    for (int layer = 0; layer < LAYERS; layer++)
        oracle_open(&one->layer[layer], &w->shape, one->anchor, one->frame, (int)one->window);
    one->modelled = true;
    if (one->n == 0)
        return;
    world_batch batch = world_batch_open(&w->config, one->n, 0);
    for (uint32_t t = 0; t < one->n; t++)
        world_batch_set(&batch, t, one->ids[t]);
    append_to_model(one, &batch, 0, 0, one->n);
    world_batch_close(&batch);
}

static void cut_model(walker *one, uint32_t n)
{
    one->n = n;
    for (int layer = 0; layer < LAYERS && one->modelled; layer++)
        oracle_truncate(&one->layer[layer], (int)n);
}

static void drop_front(walker *one, uint32_t n)
{
    if (n == 0)
        return;
    forget_model(one);
    one->anchor += n;
    one->n -= n;
    memmove(one->ids, one->ids + n, one->n * sizeof *one->ids);
    memmove(one->relative, one->relative + n, one->n * sizeof *one->relative);
}

/* The window's rule, for the query that comes next. */
static void slide(const walk *w, walker *one)
{
    uint32_t ratio = w->config.ratio;
    if (one->window != 0 && one->n + 1 > one->window)
        drop_front(one, (one->n + 1 - one->window + ratio - 1) / ratio * ratio);
}

/* ---- the verbs ---- */

static void open_one(walk *w, walker *one)
{
    expect(w, "open", qsa_seq_open(w->cache, &one->seq) == QSA_OK);
    *one = (walker){.open = true, .seq = one->seq, .images = below(w, 2) == 0};
}

static void close_one(walk *w, walker *one)
{
    expect(w, "close", qsa_seq_close(w->cache, one->seq) == QSA_OK);
    expect(w, "a closed handle is refused", qsa_seq_close(w->cache, one->seq) == QSA_E_SEQUENCE);
    forget_model(one);
    one->open = false;
}

static void rewind_one(walk *w, walker *one)
{
    uint32_t to = below(w, one->n + 1);
    expect(w, "rewind", qsa_seq_rewind(w->cache, one->seq, one->anchor + to) == QSA_OK);
    expect(w, "rewind beyond the frontier", qsa_seq_rewind(w->cache, one->seq, one->anchor + to + 1) == QSA_E_RANGE);
    cut_model(one, to);
}

/* By whole groups, or not: then the groups are cut anew, for which there may be no room. */
static void evict_one(walk *w, walker *one)
{
    uint32_t n = below(w, one->n + 1);
    qsa_span span = {one->anchor, one->anchor + n};
    qsa_status status =
        below(w, 2) ? qsa_seq_evict(w->cache, one->seq, span.end) : qsa_seq_remove(w->cache, one->seq, span);
    expect(w, "evict", status == QSA_OK || (status == QSA_E_FULL && n % w->config.ratio != 0));
    if (status != QSA_OK)
        return;
    if (n == one->n && span.begin < span.end) { /* remove of everything keeps the anchor, evict moves it */
        qsa_seq_info info;
        world_ok(qsa_seq_query(w->cache, one->seq, &info));
        expect(w, "evict of everything", info.tokens == 0 && (info.anchor == span.begin || info.anchor == span.end));
        if (info.anchor == span.begin) {
            cut_model(one, 0);
            return;
        }
    }
    drop_front(one, n);
}

static void remove_middle(walk *w, walker *one)
{
    if (one->n >= 3)
        expect(w, "remove in the middle",
               qsa_seq_remove(w->cache, one->seq, (qsa_span){one->anchor + 1, one->anchor + one->n - 1}) == QSA_E_HOLE);
}

static void shift_one(walk *w, walker *one)
{
    int64_t by = (int64_t)below(w, 3000) - 1000;
    qsa_status status = qsa_seq_shift(w->cache, one->seq, by);
    expect(w, "shift", status == (one->placed && one->anchor + by < 0 ? QSA_E_RANGE : QSA_OK));
    if (status != QSA_OK)
        return;
    forget_model(one);
    one->frame += by;
    one->anchor += one->placed ? by : 0;
}

static void window_one(walk *w, walker *one)
{
    expect(w, "a window below the ratio", qsa_seq_window(w->cache, one->seq, w->config.ratio - 1) == QSA_E_ARGUMENT);
    uint32_t window = below(w, 2) ? 1000000 : w->config.ratio + below(w, 40);
    expect(w, "window", qsa_seq_window(w->cache, one->seq, window) == QSA_OK);
    forget_model(one);
    one->window = window;
}

static void derive_one(walk *w, walker *one)
{
    walker *child = &w->walkers[below(w, SEQUENCES)];
    if (child->open)
        return;
    bool copy = below(w, 2) == 0;
    uint32_t at = copy ? one->n : below(w, one->n + 1);
    qsa_seq seq;
    qsa_status status =
        copy ? qsa_seq_copy(w->cache, one->seq, &seq) : qsa_seq_fork(w->cache, one->seq, one->anchor + at, &seq);
    expect(w, "fork or copy", status == QSA_OK || (copy && status == QSA_E_FULL));
    if (status != QSA_OK)
        return;
    *child = *one;
    child->seq = seq;
    child->modelled = false;
    child->n = at;
}

/* An append that is refused must leave no trace. */
static void append_badly(walk *w, walker *one)
{
    qsa_step *step = NULL;
    int64_t frontier = one->anchor + one->n;
    qsa_entry hole = {.seq = one->seq, .position = frontier + 1 + below(w, 9), .tokens = 1};
    qsa_entry stored = {.seq = one->seq, .position = frontier - 1, .tokens = 1};
    if (one->placed)
        expect(w, "a hole", qsa_step_begin(w->cache, &hole, 1, &step) == QSA_E_HOLE);
    if (one->placed && frontier > 0)
        expect(w, "a stored position", qsa_step_begin(w->cache, &stored, 1, &step) == QSA_E_STORED);
    expect(w, "no step", step == NULL);
}

/* ---- a step over several of them ---- */

typedef struct plan {
    uint32_t n, tokens;
    qsa_entry entries[SEQUENCES];
    walker *who[SEQUENCES];
    uint32_t keep[SEQUENCES];
    qsa_triple triples[SEQUENCES][LONGEST];
} plan;

static void plan_entry(walk *w, plan *p, walker *one)
{
    uint32_t n = below(w, 3) == 0 ? 1 + below(w, 40) : 1 + below(w, 6), e = p->n;
    if (one->n + n > LONGEST)
        return;
    int64_t position = one->placed ? one->anchor + one->n : below(w, 2) * (int64_t)below(w, 5000);
    for (uint32_t t = 0; t < n; t++) {
        int32_t at = (int32_t)position + (int32_t)t;
        p->triples[e][t] =
            one->images ? (qsa_triple){at / 7, at / 7 + at % 3, at / 7 + at % 5} : (qsa_triple){at, at, at};
    }
    p->who[e] = one;
    p->keep[e] = below(w, 3) == 0 ? below(w, n + 1) : n;
    p->entries[e] =
        (qsa_entry){.seq = one->seq, .position = position, .tokens = n, .triples = one->images ? p->triples[e] : NULL};
    p->tokens += n;
    p->n++;
}

/* The model learns the tokens of the step, then every query is compared with it. */
static void compare(const walk *w, const plan *p, const world_batch *batch)
{
    uint32_t token = 0;
    for (uint32_t e = 0; e < p->n; e++) {
        walker *one = p->who[e];
        uint32_t n = p->entries[e].tokens, stored = one->n;
        if (!one->placed) {
            forget_model(one);
            one->anchor = p->entries[e].position;
        }
        need_model(w, one);
        for (uint32_t t = 0; t < n; t++) {
            one->ids[stored + t] = w->next_id + token + t;
            one->relative[stored + t] = moved(p->triples[e][t], -one->frame);
        }
        append_to_model(one, batch, token, stored, n);
        for (uint32_t t = 0; t < n; t++)
            for (uint32_t layer = 0; layer < LAYERS; layer++)
                expect(w, "a query differs from the oracle",
                       world_oracle_agrees(&one->layer[layer], (int)(stored + t), batch, token + t, layer));
        token += n;
    }
}

static void keep_tokens(const walk *w, const plan *p, bool committed)
{
    for (uint32_t e = 0; e < p->n; e++) {
        walker *one = p->who[e];
        uint32_t kept = committed ? p->keep[e] : 0;
        cut_model(one, one->n + kept);
        one->placed = one->placed || kept > 0;
        if (!one->placed)
            one->anchor = 0;
        if (kept > 0)
            slide(w, one);
    }
}

static world_way any_way(walk *w)
{
    static const uint32_t parts[] = {0, 1, 2, 3, 13};
    uint32_t choice = below(w, 6);
    return choice == 5 ? (world_way){.threads = w->threads} : (world_way){.parts = parts[choice]};
}

static void run_plan(walk *w, plan *p)
{
    qsa_step *step;
    qsa_status status = qsa_step_begin(w->cache, p->entries, p->n, &step);
    if (status == QSA_E_FULL)
        return; /* a legal answer, and nothing happened */
    expect(w, "begin", status == QSA_OK);
    world_batch batch = world_batch_open(&w->config, p->tokens, w->next_id);
    expect(w, "layers", world_layers(step, &batch, 0, p->tokens, any_way(w)) == QSA_OK);
    compare(w, p, &batch);
    bool commit = below(w, 5) != 0;
    if (commit)
        expect(w, "commit", qsa_step_commit(step, p->keep) == QSA_OK);
    else
        qsa_step_abort(step);
    keep_tokens(w, p, commit);
    w->next_id += p->tokens;
    world_batch_close(&batch);
}

static void step_some(walk *w)
{
    plan *p = test_alloc(1, sizeof *p);
    for (int i = 0; i < SEQUENCES; i++)
        if (w->walkers[i].open && below(w, 3) == 0)
            plan_entry(w, p, &w->walkers[i]);
    if (p->n > 0)
        run_plan(w, p);
    free(p);
}

/* ---- one walk ---- */

static void check(const walk *w)
{
    expect(w, "the invariants", qsa_cache_check(w->cache) == QSA_OK);
    for (int i = 0; i < SEQUENCES; i++) {
        const walker *one = &w->walkers[i];
        qsa_seq_info info;
        if (!one->open)
            continue;
        expect(w, "query", qsa_seq_query(w->cache, one->seq, &info) == QSA_OK);
        expect(w, "the length", info.tokens == one->n && info.groups == one->n / w->config.ratio);
        expect(w, "the anchor and the frame", info.anchor == one->anchor && info.rotary_frame == one->frame);
        expect(w, "the frontier", info.frontier == one->anchor + one->n);
        expect(w, "pooled keys follow from raw keys", qsa_seq_verify_index(w->cache, one->seq) == QSA_OK);
    }
}

static void do_verb(walk *w)
{
    walker *one = &w->walkers[below(w, SEQUENCES)];
    static void (*const verb[])(walk *, walker *) = {close_one, rewind_one, rewind_one, evict_one,  remove_middle,
                                                     shift_one, window_one, derive_one, derive_one, append_badly};
    const uint32_t n_verbs = sizeof verb / sizeof *verb, choice = below(w, 2 * n_verbs);
    if (!one->open)
        open_one(w, one);
    else if (choice < n_verbs)
        verb[choice](w, one);
    else if (choice == n_verbs)
        expect(w, "compact", qsa_cache_compact(w->cache) == QSA_OK);
    else
        step_some(w);
    check(w);
}

static void run_walk(uint64_t seed)
{
    walk *w = test_alloc(1, sizeof *w);
    w->seed = seed;
    w->chance = seed << 32;
    w->config = world_mini();
    w->config.layers = LAYERS;
    w->config.max_sequences = SEQUENCES;
    w->config.capacity_tokens = 12 * QSA_PAGE_TOKENS; /* full now and then */
    world_kv_type(&w->config, (int)(seed % QSA_KV_TYPE_COUNT));
    w->config.profile = seed % 3 ? QSA_PROFILE_F32 : QSA_PROFILE_BF16;
    w->shape = world_oracle_shape(&w->config);
    w->cache = world_create(&w->config);
    world_ok(qsa_threads_create(2, &w->threads));
    for (w->verb = 0; w->verb < verbs; w->verb++)
        do_verb(w);
    for (int i = 0; i < SEQUENCES; i++)
        if (w->walkers[i].open)
            close_one(w, &w->walkers[i]);
    expect(w, "every page is free again", qsa_cache_free_tokens(w->cache) == w->config.capacity_tokens);
    qsa_threads_destroy(w->threads);
    qsa_cache_destroy(w->cache);
    free(w);
}

static void random_walks_agree_with_the_oracle(void **state)
{
    (void)state;
    for (int i = 0; i < walks; i++)
        run_walk(first_seed + (uint64_t)i);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        walks = 1;
    }
    if (argc > 2)
        verbs = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_walks_agree_with_the_oracle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
