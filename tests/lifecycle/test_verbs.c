/* The table of verbs, docs/VERBS.md: what each does, what it refuses, what it costs. Each row is run on a sequence of
 * 13 tokens (a group, and a tail of one, beyond the cut) and on one of 200, and K, V, index and bookkeeping are
 * compared with the oracle. A function of the library that is exported and has no row fails the test. */
#include "life_model.h"
#include "mini.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a verb may cost, per page and group of what is left; counted over all layers. */
typedef struct cost {
    uint32_t pages_taken, pages_copied, groups_pooled;
} cost;

typedef struct row {
    const char *symbol;
    qsa_status (*call)(life *l, qsa_seq seq); /* a call that is legal but for the handle or the moment; NULL: none */
    void (*apply)(life *l, walker *one);      /* the verb happens, in the cache and in the model */
    void (*refuse)(life *l, walker *one);     /* all that is refused; nothing happens */
    cost cost;
    bool in_step;   /* legal while a step is open */
    bool no_handle; /* takes no sequence */
} row;

static void refused(life *l, const char *what, qsa_status expected, qsa_status found)
{
    if (found != expected)
        fail_msg("%s: expected %s, found %s: %s", what, qsa_status_name(expected), qsa_status_name(found),
                 qsa_error_detail());
    life_expect(l, "a refusal says why", qsa_error_detail()[0] != 0);
}

/* ---- open, close ---- */

static qsa_status call_open(life *l, qsa_seq seq)
{
    (void)seq;
    qsa_seq out;
    return qsa_seq_open(l->cache, &out);
}

static void apply_open(life *l, walker *one)
{
    (void)one;
    life_open(l);
}

static void refuse_open(life *l, walker *one)
{
    (void)one;
    refused(l, "no place for the handle", QSA_E_ARGUMENT, qsa_seq_open(l->cache, NULL));
    qsa_seq out[LIFE_SEQUENCES];
    uint32_t n = 0;
    while (qsa_seq_open(l->cache, &out[n]) == QSA_OK)
        n++;
    refused(l, "one more than max_sequences", QSA_E_FULL, qsa_seq_open(l->cache, &out[n]));
    while (n > 0)
        world_ok(qsa_seq_close(l->cache, out[--n]));
}

static qsa_status call_close(life *l, qsa_seq seq)
{
    return qsa_seq_close(l->cache, seq);
}

static void apply_close(life *l, walker *one)
{
    life_close(l, one);
    life_expect(l, "every page is free", qsa_cache_free_tokens(l->cache) == l->rules.config.capacity_tokens);
}

static void refuse_close(life *l, walker *one)
{
    qsa_seq strange = {one->seq.slot, one->seq.generation + 1}, none = {0};
    refused(l, "another generation", QSA_E_SEQUENCE, qsa_seq_close(l->cache, strange));
    refused(l, "no handle", QSA_E_SEQUENCE, qsa_seq_close(l->cache, none));
    strange.slot = UINT32_MAX;
    refused(l, "no such place", QSA_E_SEQUENCE, qsa_seq_close(l->cache, strange));
}

/* ---- rewind ---- */

static qsa_status call_rewind(life *l, qsa_seq seq)
{
    return qsa_seq_rewind(l->cache, seq, 105);
}

static void apply_rewind(life *l, walker *one)
{
    const uint32_t targets[] = {one->n, one->n - 1, 11, 8, 7, 1, 0}; /* into groups, to their ends, to the anchor */
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        world_ok(qsa_seq_rewind(l->cache, one->seq, one->anchor + targets[i]));
        walker_cut(one, targets[i]);
        life_compare(l);
    }
    life_feed(l, one, one->anchor, 13, 13); /* the anchor stays where it was */
}

static void refuse_rewind(life *l, walker *one)
{
    refused(l, "before the anchor", QSA_E_RANGE, qsa_seq_rewind(l->cache, one->seq, one->anchor - 1));
    refused(l, "beyond the frontier", QSA_E_RANGE, qsa_seq_rewind(l->cache, one->seq, one->anchor + one->n + 1));
    refused(l, "far below", QSA_E_RANGE, qsa_seq_rewind(l->cache, one->seq, INT64_MIN));
    refused(l, "far above", QSA_E_RANGE, qsa_seq_rewind(l->cache, one->seq, INT64_MAX));
}

/* ---- evict and remove ---- */

static qsa_status call_evict(life *l, qsa_seq seq)
{
    return qsa_seq_evict(l->cache, seq, 100);
}

static void apply_evict(life *l, walker *one)
{
    world_ok(qsa_seq_evict(l->cache, one->seq, one->anchor));
    life_compare(l);
    world_ok(qsa_seq_evict(l->cache, one->seq, one->anchor + 4));
    walker_drop_front(one, 4);
}

/* Costs what a private copy of the rest costs, and its pooled keys. */
static void apply_evict_recut(life *l, walker *one)
{
    world_ok(qsa_seq_evict(l->cache, one->seq, one->anchor + 3));
    walker_drop_front(one, 3);
}

static void apply_evict_all(life *l, walker *one)
{
    world_ok(qsa_seq_evict(l->cache, one->seq, one->anchor + one->n));
    walker_drop_front(one, one->n);
    life_compare(l);
    life_feed(l, one, one->anchor, 5, 5);
}

static void refuse_evict(life *l, walker *one)
{
    refused(l, "before the anchor", QSA_E_RANGE, qsa_seq_evict(l->cache, one->seq, one->anchor - 1));
    refused(l, "beyond the frontier", QSA_E_RANGE, qsa_seq_evict(l->cache, one->seq, one->anchor + one->n + 1));
    walker *other = life_open(l); /* takes all pages */
    world_batch batch = world_batch_open(&l->rules.config, (uint32_t)qsa_cache_free_tokens(l->cache), 9);
    world_feed(l->cache, other->seq, 0, &batch, 0, batch.tokens, 0, (world_way){0});
    world_batch_close(&batch);
    refused(l, "no room to re-pack", QSA_E_FULL, qsa_seq_evict(l->cache, one->seq, one->anchor + 1));
    world_ok(qsa_seq_rewind(l->cache, other->seq, 0));
    life_close(l, other);
}

static qsa_status call_remove(life *l, qsa_seq seq)
{
    return qsa_seq_remove(l->cache, seq, (qsa_span){100, 104});
}

static void apply_remove(life *l, walker *one)
{
    int64_t anchor = one->anchor;
    world_ok(qsa_seq_remove(l->cache, one->seq, (qsa_span){anchor + 5, anchor + 5})); /* nothing */
    life_compare(l);
    world_ok(qsa_seq_remove(l->cache, one->seq, (qsa_span){anchor, anchor + 4})); /* a prefix: evict */
    walker_drop_front(one, 4);
    life_compare(l);
    world_ok(qsa_seq_remove(l->cache, one->seq, (qsa_span){anchor + 7, anchor + 4 + one->n})); /* a suffix: rewind */
    walker_cut(one, 3);
    life_compare(l);
    world_ok(qsa_seq_remove(l->cache, one->seq, (qsa_span){anchor + 4, anchor + 7})); /* everything: empty */
    walker_cut(one, 0);
}

static void refuse_remove(life *l, walker *one)
{
    int64_t a = one->anchor, f = a + one->n;
    refused(l, "interior", QSA_E_HOLE, qsa_seq_remove(l->cache, one->seq, (qsa_span){a + 4, a + 8}));
    char ends[64];
    snprintf(ends, sizeof ends, "between %lld and %lld", (long long)a + 3, (long long)a + 8);
    life_expect(l, "both ends of the hole are named", strstr(qsa_error_detail(), ends) != NULL);
    refused(l, "one inside", QSA_E_HOLE, qsa_seq_remove(l->cache, one->seq, (qsa_span){f - 2, f - 1}));
    refused(l, "before", QSA_E_RANGE, qsa_seq_remove(l->cache, one->seq, (qsa_span){a - 1, a + 4}));
    refused(l, "beyond", QSA_E_RANGE, qsa_seq_remove(l->cache, one->seq, (qsa_span){a + 4, f + 1}));
    refused(l, "backwards", QSA_E_ARGUMENT, qsa_seq_remove(l->cache, one->seq, (qsa_span){a + 4, a}));
}

/* ---- shift and window ---- */

static qsa_status call_shift(life *l, qsa_seq seq)
{
    return qsa_seq_shift(l->cache, seq, 1);
}

static void apply_shift(life *l, walker *one)
{
    const int64_t by[] = {0, 7, -107, INT64_C(2147483647) - 200, -(INT64_C(2147483647) - 200), 1};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        world_ok(qsa_seq_shift(l->cache, one->seq, by[i]));
        walker_shift(one, by[i]);
        life_compare(l);
    }
    life_feed(l, one, one->anchor + one->n, 9, 9); /* the same bits as before: the oracle was not fed again */
}

static void refuse_shift(life *l, walker *one)
{
    const int64_t most = QSA_MAX_POSITION;
    refused(l, "below 0", QSA_E_RANGE, qsa_seq_shift(l->cache, one->seq, -one->anchor - 1));
    refused(l, "above", QSA_E_RANGE, qsa_seq_shift(l->cache, one->seq, most + 2 - one->anchor - one->n));
    refused(l, "far below", QSA_E_RANGE, qsa_seq_shift(l->cache, one->seq, INT64_MIN));
    refused(l, "far above", QSA_E_RANGE, qsa_seq_shift(l->cache, one->seq, INT64_MAX));
}

static qsa_status call_window(life *l, qsa_seq seq)
{
    return qsa_seq_window(l->cache, seq, 8);
}

static void apply_window(life *l, walker *one)
{
    world_ok(qsa_seq_window(l->cache, one->seq, 6));
    walker_window(one, 6);
    life_compare(l); /* nothing is freed before the next commit */
    life_feed(l, one, one->anchor + one->n, 1, 1);
    life_expect(l, "the next query sees 3 to 6 tokens, itself included", one->n >= 2 && one->n <= 5);
    world_ok(qsa_seq_window(l->cache, one->seq, UINT64_MAX));
    walker_window(one, UINT64_MAX);
}

static void refuse_window(life *l, walker *one)
{
    refused(l, "below the ratio", QSA_E_ARGUMENT, qsa_seq_window(l->cache, one->seq, 3));
    refused(l, "0", QSA_E_ARGUMENT, qsa_seq_window(l->cache, one->seq, 0));
}

/* ---- fork and copy ---- */

static qsa_status call_fork(life *l, qsa_seq seq)
{
    qsa_seq out;
    return qsa_seq_fork(l->cache, seq, 100, &out);
}

static void apply_fork(life *l, walker *one)
{
    const uint64_t room = qsa_cache_free_tokens(l->cache);
    const uint32_t at[] = {0, 1, 4, 11, one->n};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        qsa_seq seq;
        world_ok(qsa_seq_fork(l->cache, one->seq, one->anchor + at[i], &seq));
        walker_clone(one, at[i], seq, &l->walkers[i + 1]);
        life_compare(l);
    }
    life_expect(l, "no page is taken", qsa_cache_free_tokens(l->cache) == room);
}

static void refuse_fork(life *l, walker *one)
{
    qsa_seq out = {77, 77};
    refused(l, "before", QSA_E_RANGE, qsa_seq_fork(l->cache, one->seq, one->anchor - 1, &out));
    refused(l, "beyond", QSA_E_RANGE, qsa_seq_fork(l->cache, one->seq, one->anchor + one->n + 1, &out));
    refused(l, "no place", QSA_E_ARGUMENT, qsa_seq_fork(l->cache, one->seq, one->anchor, NULL));
    walker *others[LIFE_SEQUENCES - 1];
    for (int i = 0; i < LIFE_SEQUENCES - 1; i++)
        others[i] = life_open(l);
    refused(l, "too many", QSA_E_FULL, qsa_seq_fork(l->cache, one->seq, one->anchor, &out));
    refused(l, "too many", QSA_E_FULL, qsa_seq_copy(l->cache, one->seq, &out));
    for (int i = 0; i < LIFE_SEQUENCES - 1; i++)
        life_close(l, others[i]);
    life_expect(l, "the handle is untouched", out.slot == 77 && out.generation == 77);
}

static qsa_status call_copy(life *l, qsa_seq seq)
{
    qsa_seq out;
    return qsa_seq_copy(l->cache, seq, &out);
}

static void apply_copy(life *l, walker *one)
{
    qsa_seq seq;
    world_ok(qsa_seq_copy(l->cache, one->seq, &seq));
    walker_clone(one, one->n, seq, &l->walkers[1]);
}

static void refuse_copy(life *l, walker *one)
{
    qsa_seq out = {77, 77}, copies[LIFE_SEQUENCES];
    uint32_t n = 0;
    refused(l, "no place", QSA_E_ARGUMENT, qsa_seq_copy(l->cache, one->seq, NULL));
    while (qsa_seq_copy(l->cache, one->seq, &copies[n]) == QSA_OK)
        n++;
    refused(l, "memory or sequences", QSA_E_FULL, qsa_seq_copy(l->cache, one->seq, &out));
    while (n > 0)
        world_ok(qsa_seq_close(l->cache, copies[--n]));
    life_expect(l, "the handle is untouched", out.slot == 77 && out.generation == 77);
}

/* ---- the rest ---- */

static qsa_status call_compact(life *l, qsa_seq seq)
{
    (void)seq;
    return qsa_cache_compact(l->cache);
}

static void apply_compact(life *l, walker *one)
{
    (void)one;
    world_ok(qsa_cache_compact(l->cache));
}

static qsa_status call_query(life *l, qsa_seq seq)
{
    qsa_seq_info info;
    return qsa_seq_query(l->cache, seq, &info);
}

static void refuse_query(life *l, walker *one)
{
    refused(l, "no place", QSA_E_ARGUMENT, qsa_seq_query(l->cache, one->seq, NULL));
}

static qsa_status call_read(life *l, qsa_seq seq)
{
    float out[16];
    return qsa_seq_read(l->cache, seq, 0, QSA_TENSOR_K, (qsa_span){100, 101}, out);
}

static void same_tensor(life *l, walker *one, uint32_t layer, qsa_tensor tensor, uint32_t first, uint32_t end)
{
    const oracle_run *run = &one->layer[layer];
    const float *const arrays[] = {run->k_stored, run->v_stored, run->raw_key, run->pooled};
    const uint32_t width = 8, group = tensor == QSA_TENSOR_POOLED ? 4 : 1;
    float *found = test_alloc((size_t)one->n * width, sizeof *found);
    qsa_span span = {one->anchor + first, one->anchor + end};
    world_ok(qsa_seq_read(l->cache, one->seq, layer, tensor, span, found));
    test_same_floats("read back", arrays[tensor] + (size_t)first / group * width, found,
                     (size_t)(end - first) / group * width);
    free(found);
}

static void apply_read(life *l, walker *one)
{
    for (uint32_t layer = 0; layer < LIFE_LAYERS; layer++)
        for (int tensor = 0; tensor < QSA_TENSOR_COUNT; tensor++) {
            same_tensor(l, one, layer, tensor, 0, one->n / 4 * 4);
            same_tensor(l, one, layer, tensor, 4, 8);
            same_tensor(l, one, layer, tensor, 8, 8);
        }
}

static void refuse_read(life *l, walker *one)
{
    float out[64];
    int64_t a = one->anchor;
    qsa_cache *c = l->cache;
    refused(l, "before", QSA_E_RANGE, qsa_seq_read(c, one->seq, 0, QSA_TENSOR_K, (qsa_span){a - 1, a}, out));
    refused(l, "beyond", QSA_E_RANGE, qsa_seq_read(c, one->seq, 0, QSA_TENSOR_K, (qsa_span){a, a + one->n + 1}, out));
    refused(l, "backwards", QSA_E_RANGE, qsa_seq_read(c, one->seq, 0, QSA_TENSOR_K, (qsa_span){a + 2, a}, out));
    refused(l, "half a group", QSA_E_RANGE, qsa_seq_read(c, one->seq, 0, QSA_TENSOR_POOLED, (qsa_span){a, a + 2}, out));
    refused(l, "no layer", QSA_E_ARGUMENT, qsa_seq_read(c, one->seq, 3, QSA_TENSOR_K, (qsa_span){a, a + 1}, out));
    refused(l, "no tensor", QSA_E_ARGUMENT, qsa_seq_read(c, one->seq, 0, QSA_TENSOR_COUNT, (qsa_span){a, a + 1}, out));
    refused(l, "no place", QSA_E_ARGUMENT, qsa_seq_read(c, one->seq, 0, QSA_TENSOR_K, (qsa_span){a, a + 1}, NULL));
}

static qsa_status call_triples(life *l, qsa_seq seq)
{
    qsa_triple out;
    return qsa_seq_read_triples(l->cache, seq, (qsa_span){100, 101}, &out);
}

static void apply_triples(life *l, walker *one)
{
    qsa_triple out[256];
    world_ok(qsa_seq_read_triples(l->cache, one->seq, (qsa_span){one->anchor, one->anchor + one->n}, out));
    for (uint32_t t = 0; t < one->n; t++)
        life_expect(l, "absolute positions",
                    out[t].t == one->anchor + t && out[t].h == out[t].t && out[t].w == out[t].t);
}

static void refuse_triples(life *l, walker *one)
{
    qsa_triple out[1];
    qsa_span one_token = {one->anchor, one->anchor + 1}, before = {one->anchor - 1, one->anchor};
    refused(l, "before", QSA_E_RANGE, qsa_seq_read_triples(l->cache, one->seq, before, out));
    refused(l, "no place", QSA_E_ARGUMENT, qsa_seq_read_triples(l->cache, one->seq, one_token, NULL));
}

static qsa_status call_verify(life *l, qsa_seq seq)
{
    return qsa_seq_verify_index(l->cache, seq);
}

static void apply_verify(life *l, walker *one)
{
    world_ok(qsa_seq_verify_index(l->cache, one->seq));
}

static qsa_status call_digest(life *l, qsa_seq seq)
{
    uint64_t out;
    return qsa_seq_digest(l->cache, seq, &out);
}

static void refuse_digest(life *l, walker *one)
{
    refused(l, "no place", QSA_E_ARGUMENT, qsa_seq_digest(l->cache, one->seq, NULL));
}

/* ---- commit ---- */

static void apply_commit(life *l, walker *one)
{
    for (uint32_t keep = 0; keep <= 4; keep++)
        life_feed(l, one, one->anchor + one->n, 4, keep);
}

static void refuse_commit(life *l, walker *one)
{
    const qsa_entry entry = {.seq = one->seq, .position = one->anchor + one->n, .tokens = 2};
    const uint32_t keep = 3;
    qsa_step *step;
    world_batch batch = world_batch_open(&l->rules.config, 2, 1);
    world_ok(qsa_step_begin(l->cache, &entry, 1, &step));
    world_ok(world_layers(step, &batch, 0, 2, (world_way){0}));
    refused(l, "keep 3 of 2", QSA_E_ARGUMENT, qsa_step_commit(step, &keep));
    world_ok(qsa_step_begin(l->cache, &entry, 1, &step));
    refused(l, "no layer ran", QSA_E_ORDER, qsa_step_commit(step, NULL));
    refused(l, "no step", QSA_E_ORDER, qsa_step_commit(step, NULL));
    world_batch_close(&batch);
}

static void apply_abort(life *l, walker *one)
{
    const qsa_entry entry = {.seq = one->seq, .position = one->anchor + one->n, .tokens = 70};
    qsa_step *step;
    world_ok(qsa_step_begin(l->cache, &entry, 1, &step));
    qsa_step_abort(step);
}

static void nothing(life *l, walker *one)
{
    (void)l;
    (void)one;
}

static const row table[] = {
    {"qsa_seq_open", call_open, apply_open, refuse_open, {0, 0, 0}, false, true},
    {"qsa_seq_close", call_close, apply_close, refuse_close, {0, 0, 0}, false, false},
    {"qsa_seq_rewind", call_rewind, apply_rewind, refuse_rewind, {1, 0, 1}, false, false},
    {"qsa_seq_evict", call_evict, apply_evict, refuse_evict, {0, 0, 0}, false, false},
    {"qsa_seq_evict", call_evict, apply_evict_recut, refuse_evict, {1, 0, 1}, false, false},
    {"qsa_seq_evict", call_evict, apply_evict_all, refuse_evict, {1, 0, 1}, false, false},
    {"qsa_seq_remove", call_remove, apply_remove, refuse_remove, {0, 0, 0}, false, false},
    {"qsa_seq_shift", call_shift, apply_shift, refuse_shift, {1, 0, 1}, false, false},
    {"qsa_seq_window", call_window, apply_window, refuse_window, {1, 0, 1}, false, false},
    {"qsa_seq_fork", call_fork, apply_fork, refuse_fork, {0, 0, 0}, false, false},
    {"qsa_seq_copy", call_copy, apply_copy, refuse_copy, {1, 1, 0}, false, false},
    {"qsa_cache_compact", call_compact, apply_compact, nothing, {0, 0, 0}, false, true},
    {"qsa_step_commit", NULL, apply_commit, refuse_commit, {1, 0, 5}, false, true},
    {"qsa_step_abort", NULL, apply_abort, nothing, {2, 0, 0}, false, true},
    /* what only reads */
    {"qsa_seq_query", call_query, nothing, refuse_query, {0, 0, 0}, true, false},
    {"qsa_seq_read", call_read, apply_read, refuse_read, {0, 0, 0}, false, false},
    {"qsa_seq_read_triples", call_triples, apply_triples, refuse_triples, {0, 0, 0}, false, false},
    {"qsa_seq_verify_index", call_verify, apply_verify, nothing, {0, 0, 0}, false, false},
    {"qsa_seq_digest", call_digest, nothing, refuse_digest, {0, 0, 0}, false, false},
};
enum { ROWS = sizeof table / sizeof *table };

/* ---- the table is run ---- */

static life *begin(uint32_t tokens, walker **out_one)
{
    life_rules rules = life_mini(2);
    rules.config.max_step_tokens = 1024;
    life *l = life_begin(&rules, 2, NULL, 0);
    *out_one = life_open(l);
    life_feed(l, *out_one, 100, tokens, tokens);
    return l;
}

static void each(uint32_t tokens, void (*test)(life *, walker *, const row *))
{
    for (int i = 0; i < ROWS; i++) {
        walker *one;
        life *l = begin(tokens, &one);
        l->doing = table[i].symbol;
        test(l, one, &table[i]);
        l->doing = table[i].symbol;
        life_compare(l);
        life_end(l);
    }
}

static void check_effect(life *l, walker *one, const row *r)
{
    qsa_counters before, after;
    world_ok(qsa_cache_counters(l->cache, &before));
    const uint32_t layers = l->rules.config.layers;
    r->apply(l, one);
    world_ok(qsa_cache_counters(l->cache, &after));
    uint32_t pages = (one->n + 200) / 64 + 1, groups = (one->n + 20) / 4;
    life_expect(l, "pages taken", after.pages_taken - before.pages_taken <= (uint64_t)r->cost.pages_taken * pages);
    life_expect(l, "pages copied", after.pages_copied - before.pages_copied <= (uint64_t)r->cost.pages_copied * pages);
    life_expect(l, "keys pooled",
                after.keys_pooled - before.keys_pooled <= (uint64_t)r->cost.groups_pooled * groups * layers);
}

static void every_verb_does_what_the_oracle_does(void **state)
{
    (void)state;
    each(13, check_effect);
    each(200, check_effect);
}

static void check_refusals(life *l, walker *one, const row *r)
{
    uint64_t room = qsa_cache_free_tokens(l->cache);
    r->refuse(l, one);
    life_expect(l, "no page is lost", qsa_cache_free_tokens(l->cache) == room);
}

static void every_refusal_changes_nothing(void **state)
{
    (void)state;
    each(13, check_refusals);
    each(200, check_refusals);
}

static void check_handles(life *l, walker *one, const row *r)
{
    if (r->call == NULL || r->no_handle)
        return;
    qsa_seq closed;
    world_ok(qsa_seq_open(l->cache, &closed));
    world_ok(qsa_seq_close(l->cache, closed));
    const qsa_seq strange[] = {closed, {0}, {one->seq.slot, one->seq.generation + 1}, {UINT32_MAX, 1}};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        refused(l, r->symbol, QSA_E_SEQUENCE, r->call(l, strange[i]));
    walker *next = life_open(l); /* the place of the closed one: its handle stays closed */
    refused(l, r->symbol, QSA_E_SEQUENCE, r->call(l, closed));
    life_close(l, next);
}

static void every_handle_is_checked(void **state)
{
    (void)state;
    each(13, check_handles);
}

static void check_busy(life *l, walker *one, const row *r)
{
    if (r->call == NULL)
        return;
    qsa_step *step;
    const qsa_entry entry = {.seq = one->seq, .position = one->anchor + one->n, .tokens = 1};
    world_ok(qsa_step_begin(l->cache, &entry, 1, &step));
    qsa_status status = r->call(l, one->seq);
    life_expect(l, "during a step", status == (r->in_step ? QSA_OK : QSA_E_BUSY));
    qsa_step_abort(step);
}

static void everything_is_busy_during_a_step(void **state)
{
    (void)state;
    each(13, check_busy);
    walker *one;
    life *l = begin(13, &one);
    qsa_step *step, *second = NULL;
    const qsa_entry entry = {.seq = one->seq, .position = one->anchor + one->n, .tokens = 1};
    const qsa_writer writer = {0};
    const qsa_reader reader = {0};
    qsa_snapshot snapshot;
    world_ok(qsa_step_begin(l->cache, &entry, 1, &step));
    refused(l, "begin", QSA_E_BUSY, qsa_step_begin(l->cache, &entry, 1, &second));
    refused(l, "write", QSA_E_BUSY, qsa_snapshot_write(l->cache, &one->seq, 1, NULL, 0, 0, &writer));
    refused(l, "save", QSA_E_BUSY, qsa_snapshot_save(l->cache, &one->seq, 1, NULL, 0, 0, "/tmp/qsa-busy-test"));
    refused(l, "read", QSA_E_BUSY, qsa_snapshot_read(l->cache, 0, &reader, &snapshot));
    qsa_step_abort(step);
    life_compare(l);
    life_end(l);
}

/* ---- callbacks ---- */

/* A host whose callbacks try a verb on the cache that calls them; the rest of it is an honest host. */
typedef struct intruder {
    life *l; /* NULL: leaves the cache alone */
    qsa_seq seq;
    const row *r;
    uint32_t tries;
    qsa_writer writer;
    qsa_reader reader;
} intruder;

static void try_others(life *l, qsa_seq seq)
{
    qsa_step *step;
    qsa_snapshot snapshot;
    const qsa_entry entry = {.seq = seq, .position = 113, .tokens = 1};
    mini_bytes nothing_yet = {0};
    const qsa_writer writer = mini_writer(&nothing_yet);
    const qsa_reader reader = mini_reader(&nothing_yet);
    refused(l, "begin", QSA_E_BUSY, qsa_step_begin(l->cache, &entry, 1, &step));
    refused(l, "write", QSA_E_BUSY, qsa_snapshot_write(l->cache, &seq, 1, NULL, 0, 0, &writer));
    refused(l, "save", QSA_E_BUSY, qsa_snapshot_save(l->cache, &seq, 1, NULL, 0, 0, "/tmp/qsa-busy-test"));
    refused(l, "read", QSA_E_BUSY, qsa_snapshot_read(l->cache, 0, &reader, &snapshot));
    refused(l, "load", QSA_E_BUSY, qsa_snapshot_load(l->cache, 0, "/tmp/qsa-busy-test", &snapshot));
}

/* All that a host may try. */
static void intrude(intruder *host)
{
    life *l = host->l;
    if (l == NULL)
        return;
    host->tries++;
    const qsa_status status = host->r->call(l, host->seq);
    life_expect(l, "inside a callback", status == (host->r->in_step ? QSA_OK : QSA_E_BUSY));
    try_others(l, host->seq);
    qsa_cache_destroy(l->cache);
    qsa_counters counters;
    qsa_config config;
    world_ok(qsa_cache_counters(l->cache, &counters));
    world_ok(qsa_cache_config(l->cache, &config));
    world_ok(qsa_cache_check(l->cache));
}

static qsa_status intruding_write(void *context, const void *bytes, size_t size_bytes)
{
    intruder *host = context;
    intrude(host);
    return host->writer.write(host->writer.context, bytes, size_bytes);
}

static qsa_status intruding_read(void *context, void *bytes, size_t size_bytes)
{
    intruder *host = context;
    intrude(host);
    return host->reader.read(host->reader.context, bytes, size_bytes);
}

static void *intruding_allocate(void *context, size_t size_bytes, size_t alignment)
{
    intrude(context);
    return aligned_alloc(alignment, (size_bytes + alignment - 1) / alignment * alignment);
}

static void intruding_release(void *context, void *memory, size_t size_bytes)
{
    (void)size_bytes;
    intrude(context);
    free(memory);
}

static mini_bytes written(life *l, intruder *host, qsa_seq seq)
{
    mini_bytes bytes = {0};
    const qsa_writer writer = {intruding_write, host};
    host->writer = mini_writer(&bytes);
    world_ok(qsa_snapshot_write(l->cache, &seq, 1, NULL, 0, 42, &writer));
    return bytes;
}

/* Everything that calls the host gives what it gives to a host that keeps still. */
static void check_callbacks(const row *r)
{
    intruder quiet = {0}, loud = {.r = r};
    const qsa_allocator allocator = {intruding_allocate, intruding_release, &loud};
    life_rules rules = life_mini(2);
    rules.config.allocator = &allocator;
    life *l = life_begin(&rules, 2, NULL, 0);
    l->doing = r->symbol;
    walker *one = life_open(l);
    life_feed(l, one, 100, 13, 13);
    loud.seq = one->seq;
    mini_bytes expected = written(l, &quiet, one->seq);
    const uint64_t digest = world_digest(l->cache, one->seq);
    loud.l = l;
    mini_bytes found = written(l, &loud, one->seq);
    life_expect(l, "the bytes of a quiet host",
                found.size == expected.size && memcmp(found.data, expected.data, expected.size) == 0);
    life_expect(l, "the digest", world_digest(l->cache, one->seq) == digest);
    world_ok(qsa_seq_verify_index(l->cache, one->seq));
    qsa_snapshot snapshot;
    const qsa_reader reader = {intruding_read, &loud};
    loud.reader = mini_reader(&found);
    world_ok(qsa_snapshot_read(l->cache, 42, &reader, &snapshot));
    loud.l = NULL;
    life_expect(l, "the restored digest", world_digest(l->cache, snapshot.sequences[0]) == digest);
    life_expect(l, "tries", loud.tries > 20);
    world_ok(qsa_seq_close(l->cache, snapshot.sequences[0]));
    qsa_snapshot_free(&snapshot);
    life_compare(l);
    loud.l = r->in_step ? NULL : l; /* what is released last is the cache itself; no sequence is left to query */
    life_end(l);
    mini_free(&expected);
    mini_free(&found);
}

static void everything_is_busy_inside_a_callback(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++)
        if (table[i].call != NULL)
            check_callbacks(&table[i]);
}

static void check_null(life *l, walker *one, const row *r)
{
    if (r->call == NULL)
        return;
    qsa_cache *cache = l->cache;
    l->cache = NULL;
    qsa_status status = r->call(l, one->seq);
    l->cache = cache;
    life_expect(l, "no cache", status == QSA_E_ARGUMENT);
}

static void no_cache_is_refused(void **state)
{
    (void)state;
    each(13, check_null);
}

static bool has_row(const char *symbol)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(table[i].symbol, symbol) == 0)
            return true;
    return false;
}

/* Somebody adds a verb without a row in the table. */
static void a_new_verb_without_a_row_fails(void **state)
{
    (void)state;
    static const char *const elsewhere[] = {/* with tests of their own */
                                            "qsa_step_begin", "qsa_step_layer", "qsa_step_selection"};
    FILE *file = fopen(QSA_EXPORTS_FILE, "r");
    assert_non_null(file);
    char symbol[128];
    int verbs = 0;
    while (fscanf(file, "%127s", symbol) == 1) {
        bool known = false;
        for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
            known = known || strcmp(symbol, elsewhere[i]) == 0;
        bool is_verb = strncmp(symbol, "qsa_seq_", 8) == 0 || strncmp(symbol, "qsa_step_", 9) == 0 ||
                       strcmp(symbol, "qsa_cache_compact") == 0;
        if (!is_verb || known)
            continue;
        verbs++;
        if (!has_row(symbol))
            fail_msg("%s is exported and has no row in the table of verbs", symbol);
    }
    fclose(file);
    assert_true(verbs >= 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verb_does_what_the_oracle_does),
        cmocka_unit_test(every_refusal_changes_nothing),
        cmocka_unit_test(every_handle_is_checked),
        cmocka_unit_test(everything_is_busy_during_a_step),
        cmocka_unit_test(everything_is_busy_inside_a_callback),
        cmocka_unit_test(no_cache_is_refused),
        cmocka_unit_test(a_new_verb_without_a_row_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
