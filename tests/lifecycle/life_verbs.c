#include "life_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void (*life_on_failure)(const char *message);

life_rules life_mini(uint64_t seed)
{
    life_rules rules = {"mini", world_mini(), LIFE_SEQUENCES, 9, 15, 160};
    rules.config.capacity_tokens = 12 * QSA_PAGE_TOKENS; /* full now and then */
    world_kv_type(&rules.config, (int)(seed % QSA_KV_TYPE_COUNT));
    rules.config.profile = seed % 3 ? QSA_PROFILE_F32 : QSA_PROFILE_BF16;
    return rules;
}

life_rules life_narrow(uint64_t seed)
{
    life_rules rules = {"narrow", world_narrow(), 3, 2044, 2060, 2200};
    rules.config.max_sequences = 3;
    rules.config.capacity_tokens = 110 * QSA_PAGE_TOKENS;
    rules.config.kv_type = seed % 2 ? QSA_KV_F32 : QSA_KV_BF16;
    rules.config.profile = seed % 3 ? QSA_PROFILE_F32 : QSA_PROFILE_BF16;
    return rules;
}

void life_expect(const life *l, const char *what, bool holds)
{
    char message[1024];
    if (holds)
        return;
    snprintf(message, sizeof message, "verb %u, %s: %s (%s); replay: test_life_walk %s %" PRIu64 " %u", l->verb,
             l->doing, what, qsa_error_detail(), l->rules.name, l->seed, l->verb + 1);
    if (life_on_failure != NULL)
        life_on_failure(message);
    fail_msg("%s", message);
}

uint32_t life_below(life *l, uint32_t n)
{
    if (l->bytes == NULL)
        return world_random(&l->chance, n);
    uint32_t value = 0;
    for (uint32_t most = n - 1; most > 0; most >>= 8)
        value = value << 8 | (l->used < l->n_bytes ? l->bytes[l->used++] : 0);
    return value % n;
}

/* ---- the verbs ---- */

static void open_one(life *l, walker *one)
{
    qsa_seq seq;
    life_expect(l, "open", qsa_seq_open(l->cache, &seq) == QSA_OK);
    *one = (walker){.open = true, .seq = seq, .images = life_below(l, 2) == 0};
}

walker *life_open(life *l)
{
    walker *one = l->walkers;
    while (one->open)
        one++;
    open_one(l, one);
    one->images = false;
    return one;
}

void life_close(life *l, walker *one)
{
    life_expect(l, "close", qsa_seq_close(l->cache, one->seq) == QSA_OK);
    life_expect(l, "a closed handle", qsa_seq_close(l->cache, one->seq) == QSA_E_SEQUENCE);
    walker_forget(one);
    one->open = false;
}

static void rewind_one(life *l, walker *one)
{
    const life_rules *r = &l->rules;
    uint32_t to = life_below(l, one->n + 1);
    if (one->n >= r->low && life_below(l, 3))
        to = r->low + life_below(l, (one->n < r->high ? one->n : r->high) - r->low + 1);
    qsa_span rest = {one->anchor + to, one->anchor + one->n};
    qsa_status status =
        life_below(l, 2) ? qsa_seq_rewind(l->cache, one->seq, rest.begin) : qsa_seq_remove(l->cache, one->seq, rest);
    life_expect(l, "rewind", status == QSA_OK);
    life_expect(l, "rewind too far", qsa_seq_rewind(l->cache, one->seq, rest.begin + 1) == QSA_E_RANGE);
    life_expect(l, "rewind too little", qsa_seq_rewind(l->cache, one->seq, one->anchor - 1) == QSA_E_RANGE);
    walker_cut(one, to);
}

static uint32_t choose_drop(life *l, const walker *one)
{
    uint32_t few = 3 * l->rules.config.ratio;
    return life_below(l, 4) == 0 || one->n < few ? life_below(l, one->n + 1) : life_below(l, few);
}

/* By whole groups, or not: then the groups are cut anew, for which there may be no room. */
static void evict_one(life *l, walker *one)
{
    const uint32_t n = choose_drop(l, one);
    const bool recut = n % l->rules.config.ratio != 0 && n < one->n;
    uint64_t room = qsa_cache_free_tokens(l->cache);
    bool fits = !recut || one->n - n <= room;
    qsa_status status = qsa_seq_evict(l->cache, one->seq, one->anchor + n);
    life_expect(l, "evict", status == (fits ? QSA_OK : QSA_E_FULL));
    if (status == QSA_OK)
        walker_drop_front(one, n);
}

static void remove_prefix(life *l, walker *one)
{
    const uint32_t n = choose_drop(l, one);
    if (n == one->n) /* everything: rewind's part */
        return;
    qsa_status status = qsa_seq_remove(l->cache, one->seq, (qsa_span){one->anchor, one->anchor + n});
    life_expect(l, "remove a prefix", status == QSA_OK || (status == QSA_E_FULL && n % l->rules.config.ratio != 0));
    if (status == QSA_OK)
        walker_drop_front(one, n);
}

static void remove_badly(life *l, walker *one)
{
    int64_t anchor = one->anchor, frontier = anchor + one->n;
    qsa_span inside = {anchor + 1, frontier - 1}, late = {anchor, frontier + 1}, backwards = {frontier, anchor};
    if (one->n >= 3)
        life_expect(l, "a hole", qsa_seq_remove(l->cache, one->seq, inside) == QSA_E_HOLE);
    life_expect(l, "a span beyond", qsa_seq_remove(l->cache, one->seq, late) == QSA_E_RANGE);
    if (one->n > 0)
        life_expect(l, "a span backwards", qsa_seq_remove(l->cache, one->seq, backwards) == QSA_E_ARGUMENT);
    life_expect(l, "evict beyond", qsa_seq_evict(l->cache, one->seq, frontier + 1) == QSA_E_RANGE);
}

static void shift_one(life *l, walker *one)
{
    int64_t by = (int64_t)life_below(l, 3000) - 1000;
    bool fits = !one->placed || one->anchor + by >= 0;
    life_expect(l, "shift", qsa_seq_shift(l->cache, one->seq, by) == (fits ? QSA_OK : QSA_E_RANGE));
    if (fits)
        walker_shift(one, by);
    life_expect(l, "shift too far", qsa_seq_shift(l->cache, one->seq, INT64_MAX) == QSA_E_RANGE);
}

static void window_one(life *l, walker *one)
{
    const life_rules *r = &l->rules;
    life_expect(l, "a window below the ratio",
                qsa_seq_window(l->cache, one->seq, r->config.ratio - 1) == QSA_E_ARGUMENT);
    uint64_t window = life_below(l, 2) ? 1000000 : r->config.ratio + life_below(l, 2 * r->high);
    life_expect(l, "window", qsa_seq_window(l->cache, one->seq, window) == QSA_OK);
    walker_window(one, window);
}

static void derive_one(life *l, walker *one)
{
    walker *child = &l->walkers[life_below(l, l->rules.sequences)];
    if (child == one)
        return;
    if (child->open)
        life_close(l, child);
    qsa_seq_info info;
    world_ok(qsa_seq_query(l->cache, one->seq, &info));
    bool copy = life_below(l, 2) == 0, fits = !copy || info.pages * QSA_PAGE_TOKENS <= qsa_cache_free_tokens(l->cache);
    uint32_t at = copy ? one->n : life_below(l, one->n + 1);
    qsa_seq seq;
    qsa_status status =
        copy ? qsa_seq_copy(l->cache, one->seq, &seq) : qsa_seq_fork(l->cache, one->seq, one->anchor + at, &seq);
    life_expect(l, "fork or copy", status == (fits ? QSA_OK : QSA_E_FULL));
    if (fits)
        walker_clone(one, at, seq, child);
    life_expect(l, "fork beyond", qsa_seq_fork(l->cache, one->seq, one->anchor + one->n + 1, &seq) == QSA_E_RANGE);
}

static void verify_index(life *l, walker *one)
{
    life_expect(l, "pooled keys follow from raw keys", qsa_seq_verify_index(l->cache, one->seq) == QSA_OK);
}

static void compact(life *l)
{
    life_expect(l, "compact", qsa_cache_compact(l->cache) == QSA_OK);
}

typedef struct deed {
    const char *name;
    uint32_t share;
    void (*one)(life *, walker *);
    void (*all)(life *);
} deed;

static const deed deeds[] = {
    {"step", 30, NULL, life_step},
    {"rewind", 8, rewind_one, NULL},
    {"evict", 5, evict_one, NULL},
    {"remove a prefix", 2, remove_prefix, NULL},
    {"remove badly", 1, remove_badly, NULL},
    {"shift", 3, shift_one, NULL},
    {"window", 3, window_one, NULL},
    {"fork or copy", 8, derive_one, NULL},
    {"close", 4, life_close, NULL},
    {"append badly", 2, life_bad_append, NULL},
    {"verify the index", 1, verify_index, NULL},
    {"compact", 2, NULL, compact},
    {"hand over", 1, NULL, life_hand_over},
    {"restore beside", 2, NULL, life_restore_beside},
    {"a damaged snapshot", 1, NULL, life_damaged_snapshot},
};
enum { DEEDS = sizeof deeds / sizeof *deeds };

static const deed *choose_deed(life *l)
{
    uint32_t shares = 0;
    for (int i = 0; i < DEEDS; i++)
        shares += deeds[i].share;
    uint32_t at = life_below(l, shares);
    int i = 0;
    while (at >= deeds[i].share)
        at -= deeds[i++].share;
    return &deeds[i];
}

bool life_verb(life *l)
{
    walker *one = &l->walkers[life_below(l, l->rules.sequences)];
    const deed *deed = choose_deed(l);
    l->doing = deed->name;
    if (deed->all != NULL)
        deed->all(l);
    else if (one->open)
        deed->one(l, one);
    else
        open_one(l, one);
    life_compare(l);
    l->verb++;
    return l->bytes == NULL || l->used < l->n_bytes;
}

life *life_begin(const life_rules *rules, uint64_t seed, const uint8_t *bytes, size_t n_bytes)
{
    life *l = test_alloc(1, sizeof *l);
    l->rules = *rules;
    l->seed = seed;
    l->chance = seed << 32;
    l->bytes = bytes;
    l->n_bytes = n_bytes;
    l->doing = "begin";
    l->shape = world_oracle_shape(&rules->config);
    l->cache = world_create(&l->rules.config);
    world_ok(qsa_threads_create(2, &l->threads));
    return l;
}

void life_end(life *l)
{
    l->doing = "the end";
    for (uint32_t i = 0; i < l->rules.sequences; i++)
        if (l->walkers[i].open)
            life_close(l, &l->walkers[i]);
    life_expect(l, "every page is free again", qsa_cache_free_tokens(l->cache) == l->rules.config.capacity_tokens);
    life_compare(l);
    qsa_threads_destroy(l->threads);
    qsa_cache_destroy(l->cache);
    free(l);
}
