/* Sequences that share pages, and pages that move: no result depends on either. */
#include "cache/cache.h"
#include "life_model.h"

#include <stdlib.h>
#include <string.h>

static walker *fork_at(life *l, walker *from, uint32_t n)
{
    walker *child = l->walkers;
    while (child->open)
        child++;
    qsa_seq seq;
    world_ok(qsa_seq_fork(l->cache, from->seq, from->anchor + n, &seq));
    walker_clone(from, n, seq, child);
    life_compare(l);
    return child;
}

/* Every cut around two groups and a page; both sides write behind it, in either order. */
static void both_sides_of_a_fork_write(void **state)
{
    (void)state;
    for (uint32_t length = 1; length <= 68; length += length < 14 ? 1 : 18)
        for (uint32_t at = 0; at <= length; at++) {
            const life_rules rules = life_mini(length);
            life *l = life_begin(&rules, length, NULL, 0);
            walker *one = life_open(l);
            life_feed(l, one, 50, length, length);
            walker *child = fork_at(l, one, at);
            walker *first = at % 2 ? one : child, *second = at % 2 ? child : one;
            life_feed(l, first, first->anchor + first->n, 3, 3);
            life_feed(l, second, second->anchor + second->n, 5, 5);
            life_feed(l, first, first->anchor + first->n, 2, 1);
            life_close(l, at % 3 ? one : child);
            life_end(l);
        }
}

static void only_the_last_page_is_copied_when_one_side_writes(void **state)
{
    (void)state;
    const life_rules rules = life_mini(1);
    life *l = life_begin(&rules, 1, NULL, 0);
    walker *one = life_open(l);
    life_feed(l, one, 0, 150, 150); /* 2 full pages and 22 tokens */
    qsa_counters before, after;
    world_ok(qsa_cache_counters(l->cache, &before));
    walker *child = fork_at(l, one, 150), *on_edge = fork_at(l, one, 128);
    world_ok(qsa_cache_counters(l->cache, &after));
    assert_int_equal(after.pages_taken, before.pages_taken);
    assert_int_equal(after.pages_copied, before.pages_copied);
    life_feed(l, child, 150, 1, 1);
    world_ok(qsa_cache_counters(l->cache, &after));
    assert_int_equal(after.pages_copied, before.pages_copied + 1);
    life_feed(l, on_edge, 128, 1, 1); /* its last page is full: a new one, no copy */
    life_feed(l, one, 150, 1, 1);     /* the last page is its own again */
    world_ok(qsa_cache_counters(l->cache, &after));
    assert_int_equal(after.pages_copied, before.pages_copied + 1);
    assert_int_equal(after.pages_taken, before.pages_taken + 2);
    life_end(l);
}

/* A copy has the source's keys, whatever its pages held before; neither sees what the other writes. */
static void a_copy_is_the_source_and_independent(void **state)
{
    (void)state;
    const life_rules rules = life_mini(3);
    life *l = life_begin(&rules, 3, NULL, 0);
    walker *earlier = life_open(l);
    life_feed(l, earlier, 0, 100, 100);
    life_close(l, earlier);
    walker *one = life_open(l), *copy = &l->walkers[1];
    life_feed(l, one, 7, 75, 75);
    qsa_seq seq;
    world_ok(qsa_seq_copy(l->cache, one->seq, &seq));
    walker_clone(one, 75, seq, copy);
    life_compare(l);
    world_ok(qsa_seq_rewind(l->cache, copy->seq, 7 + 5));
    walker_cut(copy, 5);
    life_feed(l, copy, 12, 20, 20); /* other keys from token 5 on */
    life_feed(l, one, 82, 9, 9);
    life_end(l);
}

/* The length of one sequence does not affect another; neither does closing or reordering sequences. */
static void lengths_of_two_sequences_move_apart(void **state)
{
    (void)state;
    const life_rules rules = life_mini(1);
    life *l = life_begin(&rules, 1, NULL, 0);
    walker *a = life_open(l), *b = life_open(l);
    life_feed(l, a, 0, 150, 150);
    life_feed(l, b, 0, 10, 10);
    life_close(l, b);
    life_feed(l, a, 150, 30, 30);
    world_ok(qsa_seq_remove(l->cache, a->seq, (qsa_span){11, 180}));
    walker_cut(a, 11);
    life_feed(l, a, 11, 5, 5);
    b = life_open(l); /* joins while a goes on */
    life_feed(l, b, 1000, 17, 17);
    life_feed(l, a, 16, 1, 1);
    walker *c = life_open(l);
    life_feed(l, c, 0, 21, 21);
    life_close(l, b);
    walker *d = life_open(l); /* takes the place of b */
    life_feed(l, d, 0, 9, 9);
    life_feed(l, c, 21, 3, 3);
    life_feed(l, a, 17, 3, 3);
    life_end(l);
}

/* ---- pages that move ---- */

/* Exchanges two pages and everything that names them, as a host that swaps memory would. */
static void move_pages(qsa_cache *cache, uint32_t a, uint32_t b)
{
    world_ok(qsa_page_swap(cache, a, b));
    for (uint32_t page = 0; page < cache->layout.pages; page++)
        cache->page_map[page] = page == a ? b : page == b ? a : page;
    qsa_tables_rename(cache, cache->page_map);
    for (uint32_t i = 0; i < cache->n_free; i++) {
        uint32_t *page = &cache->free_pages[i];
        *page = *page == a ? b : *page == b ? a : *page;
    }
}

/* Pages move anywhere in the pool, to its last page too. */
static void a_thousand_page_moves_change_nothing(void **state)
{
    (void)state;
    const life_rules rules = life_mini(2);
    life *l = life_begin(&rules, 2, NULL, 0);
    walker *one = life_open(l);
    life_feed(l, one, 0, 150, 150);
    walker *two = fork_at(l, one, 140);
    uint64_t chance = 1;
    const uint32_t pages = (uint32_t)(rules.config.capacity_tokens / QSA_PAGE_TOKENS);
    for (int i = 0; i < 1000; i++) {
        move_pages(l->cache, world_random(&chance, pages), world_random(&chance, pages));
        if (i % 40 != 0) {
            world_ok(qsa_cache_check(l->cache));
            continue;
        }
        life_feed(l, one, one->anchor + one->n, 3, 2);
        life_feed(l, two, two->anchor + two->n, 1, 1);
        world_ok(qsa_seq_rewind(l->cache, one->seq, one->anchor + 147));
        walker_cut(one, 147);
    }
    life_end(l);
}

/* After compacting, the pages of each sequence lie in order from the front of the pool. */
static void compact_puts_sequences_in_order(void **state)
{
    (void)state;
    const life_rules rules = life_mini(2);
    life *l = life_begin(&rules, 2, NULL, 0);
    uint64_t chance = 5;
    walker *one = life_open(l), *gone = life_open(l), *two = life_open(l);
    for (int i = 0; i < 3; i++) {
        life_feed(l, gone, gone->n, 60, 60);
        life_feed(l, one, one->n, 50, 50);
        life_feed(l, two, two->n, 45, 45);
    }
    life_close(l, gone);
    walker *shared = fork_at(l, one, 100);
    life_feed(l, shared, 100, 1, 1);
    for (int i = 0; i < 50; i++) {
        move_pages(l->cache, world_random(&chance, 12), world_random(&chance, 12));
        world_ok(qsa_cache_compact(l->cache));
        life_compare(l);
        uint32_t next = 0;
        for (uint32_t slot = 0; slot < l->cache->layout.config.max_sequences; slot++)
            for (uint32_t p = 0; p < l->cache->sequences[slot].n_pages; p++) {
                uint32_t page = *qsa_sequence_page(&l->cache->sequences[slot], p);
                assert_true(page <= next); /* shared with one before, or the next */
                next += page == next;
            }
        assert_int_equal(next, 12 - qsa_cache_free_tokens(l->cache) / 64);
    }
    life_feed(l, one, 150, 4, 4);
    life_feed(l, two, 135, 4, 4);
    life_end(l);
}

/* Two sequences have a token at every position, appended in turn, in either order, with and without a shared prefix:
 * each is as if it were alone. */
static void sequences_at_the_same_positions_do_not_mix(void **state)
{
    (void)state;
    for (int order = 0; order < 4; order++) {
        const life_rules rules = life_mini((uint64_t)order);
        life *l = life_begin(&rules, (uint64_t)order, NULL, 0);
        walker *a = life_open(l), *b;
        if (order & 2) {
            life_feed(l, a, 0, 41, 41);
            b = fork_at(l, a, 41);
        } else {
            b = life_open(l);
        }
        for (int i = 0; i < 25; i++) {
            walker *first = order & 1 ? a : b, *second = order & 1 ? b : a;
            life_feed(l, first, first->n, 2, 2);
            life_feed(l, second, second->n, 2, 2);
        }
        life_end(l); /* every query was compared with the oracle of its own sequence */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_of_a_fork_write),
        cmocka_unit_test(only_the_last_page_is_copied_when_one_side_writes),
        cmocka_unit_test(a_copy_is_the_source_and_independent),
        cmocka_unit_test(lengths_of_two_sequences_move_apart),
        cmocka_unit_test(a_thousand_page_moves_change_nothing),
        cmocka_unit_test(compact_puts_sequences_in_order),
        cmocka_unit_test(sequences_at_the_same_positions_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
