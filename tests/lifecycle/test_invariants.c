/* For every invariant of src/cache/cache.h a fault is planted, and qsa_cache_check (or, for what only the values show,
 * qsa_seq_verify_index) must name it. A checker that never fails would prove nothing. */
#include "cache/cache.h"
#include "device/host/store.h"
#include "world.h"

#include <string.h>

/* Two sequences that share two pages, and a third of its own; page 5 and others are free. */
typedef struct scene {
    qsa_config config;
    qsa_cache *cache;
    qsa_seq seqs[3];
    qsa_sequence *s[3];
} scene;

static scene set_scene(void)
{
    scene s = {.config = world_mini()};
    s.config.capacity_tokens = 12 * QSA_PAGE_TOKENS;
    s.cache = world_create(&s.config);
    s.seqs[0] = world_open(s.cache);
    world_batch batch = world_batch_open(&s.config, 170, 1);
    world_feed(s.cache, s.seqs[0], 10, &batch, 0, 150, 0, (world_way){0});
    world_ok(qsa_seq_fork(s.cache, s.seqs[0], 10 + 128, &s.seqs[1]));
    s.seqs[2] = world_open(s.cache);
    world_feed(s.cache, s.seqs[2], 0, &batch, 150, 20, 0, (world_way){0});
    world_batch_close(&batch);
    for (int i = 0; i < 3; i++)
        s.s[i] = &s.cache->sequences[s.seqs[i].slot];
    world_ok(qsa_cache_check(s.cache));
    return s;
}

typedef struct fault {
    const char *name, *words;
    void (*plant)(scene *s);
} fault;

static void count_too_high(scene *s)
{
    s->cache->references[*qsa_sequence_page(s->s[0], 1)]++;
}

static void count_too_low(scene *s)
{
    s->cache->references[*qsa_sequence_page(s->s[0], 0)]--;
}

static void free_twice(scene *s)
{
    s->cache->free_pages[0] = s->cache->free_pages[1];
}

static void free_and_used(scene *s)
{
    s->cache->free_pages[s->cache->n_free - 1] = *qsa_sequence_page(s->s[2], 0);
}

static void leaked(scene *s)
{
    s->cache->n_free--;
}

static void no_such_page(scene *s)
{
    *qsa_sequence_page(s->s[2], 0) = (uint32_t)s->cache->layout.pages;
}

static void too_many_free(scene *s)
{
    s->cache->n_free = (uint32_t)s->cache->layout.pages + 1;
}

static void another_page(scene *s)
{
    *qsa_sequence_page(s->s[2], 0) = s->cache->free_pages[0];
}

static void anchor_below_zero(scene *s)
{
    s->s[2]->anchor = -4;
}

static void frontier_before_anchor(scene *s)
{
    s->s[2]->frontier = s->s[2]->anchor - 1;
}

static void frontier_beyond(scene *s)
{
    s->s[2]->anchor = s->s[2]->frontier = QSA_MAX_POSITION + 2;
}

static void slot_off_the_groups(scene *s)
{
    s->s[2]->first_slot = 2;
}

static void slot_off_the_page(scene *s)
{
    s->s[2]->first_slot = 64;
}

static void page_missing(scene *s)
{
    s->s[0]->frontier += 64;
}

static void page_too_many(scene *s)
{
    s->s[0]->frontier = s->s[0]->anchor + 64;
}

static void closed_with_pages(scene *s)
{
    s->s[2]->open = false;
}

static void directory_elsewhere(scene *s)
{
    s->s[2]->table.chunks[0] = s->cache->n_chunks;
}

static void chunk_count_too_high(scene *s)
{
    s->cache->chunk_references[s->s[0]->table.chunks[0]]++;
}

static void chunk_count_too_low(scene *s)
{
    s->cache->chunk_references[s->s[1]->table.chunks[0]]--;
}

static void chunk_free_and_used(scene *s)
{
    s->cache->free_chunks[s->cache->n_free_chunks - 1] = s->s[2]->table.chunks[0];
}

static void chunk_lost(scene *s)
{
    s->cache->n_free_chunks--;
}

static void too_many_free_chunks(scene *s)
{
    s->cache->n_free_chunks = s->cache->n_chunks + 1;
}

static void table_begins_elsewhere(scene *s)
{
    s->s[2]->first_entry++;
}

static void page_twice(scene *s)
{
    s->cache->references[*qsa_sequence_page(s->s[0], 1)]++;
    s->cache->references[*qsa_sequence_page(s->s[0], 2)]--;
    s->cache->free_pages[s->cache->n_free++] = *qsa_sequence_page(s->s[0], 2);
    *qsa_sequence_page(s->s[0], 2) = *qsa_sequence_page(s->s[0], 1);
}

static const fault faults[] = {
    {"a count too high", "invariant 1", count_too_high},
    {"a count too low", "invariant 1", count_too_low},
    {"a page twice on the free stack", "invariant 1", free_twice},
    {"a page free and used", "invariant 1", free_and_used},
    {"a page neither free nor used", "invariant 1", leaked},
    {"a page that does not exist", "invariant 1", no_such_page},
    {"more free pages than there are", "invariant 1", too_many_free},
    {"a page that was never taken", "invariant 1", another_page},
    {"an anchor below 0", "invariant 2", anchor_below_zero},
    {"a frontier before the anchor", "invariant 2", frontier_before_anchor},
    {"a frontier beyond 2^31", "invariant 2", frontier_beyond},
    {"a first slot inside a group", "invariant 2", slot_off_the_groups},
    {"a first slot outside the page", "invariant 2", slot_off_the_page},
    {"a page missing", "invariant 3", page_missing},
    {"a page too many", "invariant 3", page_too_many},
    {"a closed sequence with pages", "invariant 6", closed_with_pages},
    {"a directory that leads nowhere", "invariant 7", directory_elsewhere},
    {"a chunk's count too high", "invariant 7", chunk_count_too_high},
    {"a chunk's count too low", "invariant 7", chunk_count_too_low},
    {"a chunk free and used", "invariant 7", chunk_free_and_used},
    {"a chunk neither free nor used", "invariant 7", chunk_lost},
    {"more free chunks than there are", "invariant 7", too_many_free_chunks},
    {"a table that begins at another entry", "invariant 9", table_begins_elsewhere},
    {"a page twice in a sequence", "invariant 8", page_twice},
};

static void every_planted_fault_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        scene s = set_scene();
        faults[i].plant(&s);
        if (qsa_cache_check(s.cache) != QSA_E_FORMAT || strstr(qsa_error_detail(), faults[i].words) == NULL)
            fail_msg("%s: expected %s, found \"%s\"", faults[i].name, faults[i].words, qsa_error_detail());
        qsa_cache_destroy(s.cache);
    }
}

/* Invariant 5: one bit of any raw or pooled key of any layer, or of the triple of a group's first token. */
static void a_pooled_key_that_does_not_follow_is_named(void **state)
{
    (void)state;
    for (uint32_t layer = 0; layer < 3; layer++)
        for (int arena = QSA_ARENA_RAW; arena <= QSA_ARENA_POOLED; arena++) {
            scene s = set_scene();
            uint8_t *page = qsa_host_page(qsa_host(s.cache->store), arena, layer, *qsa_sequence_page(s.s[2], 0));
            page[2] ^= 0x40; /* of the first token and of the first group */
            world_refused(QSA_E_FORMAT, "group 0", qsa_seq_verify_index(s.cache, s.seqs[2]));
            world_ok(qsa_seq_verify_index(s.cache, s.seqs[0]));
            qsa_cache_destroy(s.cache);
        }
    scene s = set_scene();
    qsa_triple_at(s.cache, qsa_sequence_place(s.s[2], 4))->t ^= 1;
    world_refused(QSA_E_FORMAT, "layer 0, group 1", qsa_seq_verify_index(s.cache, s.seqs[2]));
    qsa_cache_destroy(s.cache);
}

/* Invariant 4: with a place computed any other way, the digest is another. */
static void a_shifted_place_changes_the_digest(void **state)
{
    (void)state;
    scene s = set_scene();
    uint64_t digest = world_digest(s.cache, s.seqs[2]);
    s.s[2]->first_slot = 4;
    assert_true(world_digest(s.cache, s.seqs[2]) != digest);
    qsa_cache_destroy(s.cache);
}

/* One bit of anything that the digest covers. */
static void the_digest_sees_every_part(void **state)
{
    (void)state;
    for (int part = 0; part < 8; part++) {
        scene s = set_scene();
        uint64_t digest = world_digest(s.cache, s.seqs[2]);
        if (part < QSA_ARENA_COUNT)
            *qsa_host_page(qsa_host(s.cache->store), part, 2, *qsa_sequence_page(s.s[2], 0)) ^= 1;
        else if (part == QSA_ARENA_COUNT)
            qsa_host_page(qsa_host(s.cache->store), QSA_ARENA_KV, 2,
                          *qsa_sequence_page(s.s[2], 0))[qsa_layout_v_token(&s.cache->layout, 0, 0)] ^= 1;
        else if (part == 4)
            qsa_triple_at(s.cache, qsa_sequence_place(s.s[2], 19))->w ^= 1;
        else if (part == 5)
            s.s[2]->frame++;
        else if (part == 6)
            s.s[2]->window = 100;
        else
            s.s[2]->frontier--;
        assert_true(world_digest(s.cache, s.seqs[2]) != digest);
        qsa_cache_destroy(s.cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planted_fault_is_named),
        cmocka_unit_test(a_pooled_key_that_does_not_follow_is_named),
        cmocka_unit_test(a_shifted_place_changes_the_digest),
        cmocka_unit_test(the_digest_sees_every_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
