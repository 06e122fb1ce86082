/* Snapshots in a world where memory ends, readers stop and writers fail, at every point where they can. */
#include "mini.h"
#include "support.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL = 42 };

/* Two sequences that share pages, in a cache whose allocator can be told to fail. */
typedef struct scene {
    world_memory memory;
    qsa_allocator allocator;
    qsa_cache *cache;
    qsa_seq seqs[2];
    mini_bytes bytes; /* of both, as they are now */
    uint64_t state;
} scene;

static const qsa_section sections[2] = {{1, "some host state", 15}, {2, "more", 4}};

static qsa_status save(const scene *s, const qsa_writer *writer)
{
    return qsa_snapshot_write(s->cache, s->seqs, 2, sections, 2, MODEL, writer);
}

static scene *set_scene(void)
{
    scene *s = test_alloc(1, sizeof *s);
    s->allocator = world_allocator(&s->memory);
    qsa_config config = mini_config();
    config.allocator = &s->allocator;
    s->cache = mini_create(&config);
    mini_ok(qsa_seq_open(s->cache, &s->seqs[0]));
    mini_feed(s->cache, s->seqs[0], 3, 70, 1, NULL);
    mini_ok(qsa_seq_fork(s->cache, s->seqs[0], 3 + 66, &s->seqs[1]));
    mini_feed(s->cache, s->seqs[1], 3 + 66, 2, 2, NULL);
    qsa_writer writer = mini_writer(&s->bytes);
    mini_ok(save(s, &writer));
    s->state = mini_state(s->cache, s->seqs, 2);
    return s;
}

static void leave(scene *s)
{
    mini_free(&s->bytes);
    qsa_cache_destroy(s->cache);
    assert_int_equal(s->memory.live_bytes, 0);
    free(s);
}

/* As it was: the sequences, the free pages, and every byte of memory. */
static void unchanged(scene *s, uint64_t live_bytes)
{
    s->memory.fail_at = 0;
    assert_int_equal(s->memory.live_bytes, live_bytes);
    assert_true(mini_state(s->cache, s->seqs, 2) == s->state);
}

static void close_both(scene *s, qsa_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->n_sequences; i++)
        mini_ok(qsa_seq_close(s->cache, snapshot->sequences[i]));
    qsa_snapshot_free(snapshot);
}

static void every_allocation_may_fail_while_writing(void **state)
{
    (void)state;
    scene *s = set_scene();
    const uint64_t live = s->memory.live_bytes;
    for (uint64_t n = 1;; n++) {
        mini_bytes bytes = {0};
        qsa_writer writer = mini_writer(&bytes);
        s->memory.fail_at = s->memory.calls + n;
        qsa_status status = save(s, &writer);
        unchanged(s, live);
        bool whole = status == QSA_OK;
        if (whole) {
            assert_true(n > 1);
            assert_int_equal(bytes.size, s->bytes.size);
            assert_memory_equal(bytes.data, s->bytes.data, bytes.size);
        } else {
            assert_int_equal(status, QSA_E_MEMORY);
            assert_int_equal(bytes.size, 0); /* memory is there before the first byte leaves */
        }
        mini_free(&bytes);
        if (whole)
            break;
    }
    leave(s);
}

static void every_allocation_may_fail_while_reading(void **state)
{
    (void)state;
    scene *s = set_scene();
    const uint64_t live = s->memory.live_bytes;
    qsa_snapshot snapshot;
    for (uint64_t n = 1;; n++) {
        qsa_reader reader = mini_reader(&s->bytes);
        s->memory.fail_at = s->memory.calls + n;
        qsa_status status = qsa_snapshot_read(s->cache, MODEL, &reader, &snapshot);
        s->memory.fail_at = 0;
        if (status == QSA_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, QSA_E_MEMORY);
        unchanged(s, live);
    }
    close_both(s, &snapshot); /* the retry that had memory */
    unchanged(s, live);
    leave(s);
}

/* ---- readers and writers that stop ---- */

typedef struct faulty {
    mini_bytes *bytes;
    uint64_t calls, fail_at; /* call that fails, from 1 */
    uint64_t budget;         /* bytes after which it fails */
} faulty;

static qsa_status faulty_write(void *context, const void *data, size_t size)
{
    faulty *f = context;
    (void)data;
    f->calls++;
    if (size > f->budget)
        return QSA_E_IO;
    f->budget -= size;
    return QSA_OK;
}

static qsa_status faulty_read(void *context, void *data, size_t size)
{
    faulty *f = context;
    if (++f->calls == f->fail_at)
        return QSA_E_IO;
    if (size > f->bytes->size - f->bytes->at) {
        memcpy(data, f->bytes->data + f->bytes->at, f->bytes->size - f->bytes->at); /* a short read leaves some */
        return QSA_E_FORMAT;
    }
    memcpy(data, f->bytes->data + f->bytes->at, size);
    f->bytes->at += size;
    return QSA_OK;
}

static void every_read_may_fail(void **state)
{
    (void)state;
    scene *s = set_scene();
    const uint64_t live = s->memory.live_bytes;
    for (uint64_t n = 1;; n++) {
        faulty f = {.bytes = &s->bytes, .fail_at = n};
        const qsa_reader reader = {faulty_read, &f};
        qsa_snapshot snapshot;
        s->bytes.at = 0;
        qsa_status status = qsa_snapshot_read(s->cache, MODEL, &reader, &snapshot);
        if (status == QSA_OK) {
            assert_true(n == f.calls + 1 && n > 40);
            close_both(s, &snapshot);
            unchanged(s, live);
            break;
        }
        assert_int_equal(status, QSA_E_IO);
        unchanged(s, live);
        s->bytes.at = 0;
        f = (faulty){.bytes = &s->bytes, .fail_at = n};
        assert_int_equal(qsa_snapshot_inspect(&reader, &snapshot), QSA_E_IO);
    }
    leave(s);
}

static void every_read_may_be_short(void **state)
{
    (void)state;
    scene *s = set_scene();
    const uint64_t live = s->memory.live_bytes;
    const size_t whole = s->bytes.size;
    for (size_t size = 0; size < whole; size++) {
        faulty f = {.bytes = &s->bytes};
        const qsa_reader reader = {faulty_read, &f};
        qsa_snapshot snapshot;
        s->bytes.at = 0;
        s->bytes.size = size;
        assert_int_equal(qsa_snapshot_read(s->cache, MODEL, &reader, &snapshot), QSA_E_FORMAT);
        if (size % 16 == 0)
            unchanged(s, live);
    }
    s->bytes.size = whole;
    unchanged(s, live);
    leave(s);
}

static void every_write_may_fail(void **state)
{
    (void)state;
    scene *s = set_scene();
    const uint64_t live = s->memory.live_bytes;
    for (uint64_t budget = 0; budget < s->bytes.size; budget += 97) {
        faulty f = {.budget = budget};
        const qsa_writer writer = {faulty_write, &f};
        assert_int_equal(save(s, &writer), QSA_E_IO);
        unchanged(s, live);
    }
    leave(s);
}

/* A status that is the host's own comes back as it was given. */
static qsa_status strange_write(void *context, const void *data, size_t size)
{
    (void)context;
    (void)data;
    (void)size;
    return (qsa_status)1234;
}

static void the_status_of_a_writer_comes_back(void **state)
{
    (void)state;
    scene *s = set_scene();
    const qsa_writer writer = {strange_write, NULL};
    assert_int_equal(save(s, &writer), 1234);
    leave(s);
}

/* No result depends on what the target's memory held before. */
static void a_poisoned_target_gives_the_same_results(void **state)
{
    (void)state;
    scene *s = set_scene();
    world_memory memory = {.poison = true};
    qsa_allocator allocator = world_allocator(&memory);
    qsa_config config = mini_config();
    config.allocator = &allocator;
    qsa_cache *target = mini_create(&config);
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(&s->bytes);
    mini_ok(qsa_snapshot_read(target, MODEL, &reader, &snapshot));
    float here[16], there[16];
    for (int i = 0; i < 2; i++) {
        assert_true(mini_digest(target, snapshot.sequences[i]) == mini_digest(s->cache, s->seqs[i]));
        mini_ok(qsa_seq_verify_index(target, snapshot.sequences[i]));
    }
    mini_feed(s->cache, s->seqs[1], 3 + 68, 9, 2, here);
    mini_feed(target, snapshot.sequences[1], 3 + 68, 9, 2, there);
    test_same_floats("output", here, there, 16);
    qsa_snapshot_free(&snapshot);
    qsa_cache_destroy(target);
    assert_int_equal(memory.live_bytes, 0);
    leave(s);
}

static void a_cache_without_room_refuses_and_keeps_what_it_has(void **state)
{
    (void)state;
    scene *s = set_scene();
    qsa_config config = mini_config();
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(&s->bytes);
    config.capacity_tokens = 2 * QSA_PAGE_TOKENS; /* 3 pages are needed */
    qsa_cache *small = mini_create(&config);
    assert_int_equal(qsa_snapshot_read(small, MODEL, &reader, &snapshot), QSA_E_FULL);
    assert_non_null(strstr(qsa_error_detail(), "3 pages, 2 are free"));
    mini_ok(qsa_cache_check(small));
    qsa_cache_destroy(small);
    config = mini_config();
    config.max_sequences = 1;
    qsa_cache *lone = mini_create(&config);
    reader = mini_reader(&s->bytes);
    assert_int_equal(qsa_snapshot_read(lone, MODEL, &reader, &snapshot), QSA_E_FULL);
    assert_non_null(strstr(qsa_error_detail(), "2 sequences, 1"));
    mini_ok(qsa_cache_check(lone));
    qsa_cache_destroy(lone);
    leave(s);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    scene *s = set_scene();
    mini_bytes bytes = {0};
    const qsa_writer writer = mini_writer(&bytes), none = {0};
    const qsa_seq twice[2] = {s->seqs[0], s->seqs[0]}, closed = {5, 1};
    const qsa_section repeated[2] = {{1, "a", 1}, {1, "b", 1}}, empty = {1, NULL, 1};
    qsa_section many[QSA_SNAPSHOT_MAX_SECTIONS + 1] = {{0}};
    for (uint32_t i = 0; i <= QSA_SNAPSHOT_MAX_SECTIONS; i++)
        many[i].tag = i;
    assert_int_equal(qsa_snapshot_write(s->cache, twice, 2, NULL, 0, MODEL, &writer), QSA_E_SEQUENCE);
    assert_int_equal(qsa_snapshot_write(s->cache, &closed, 1, NULL, 0, MODEL, &writer), QSA_E_SEQUENCE);
    assert_int_equal(qsa_snapshot_write(s->cache, s->seqs, 2, repeated, 2, MODEL, &writer), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_write(s->cache, s->seqs, 2, &empty, 1, MODEL, &writer), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_write(s->cache, s->seqs, 2, many, QSA_SNAPSHOT_MAX_SECTIONS + 1, MODEL, &writer),
                     QSA_E_LIMIT);
    assert_int_equal(qsa_snapshot_write(s->cache, NULL, 2, NULL, 0, MODEL, &writer), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_write(s->cache, s->seqs, 2, NULL, 2, MODEL, &writer), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_write(s->cache, s->seqs, 2, NULL, 0, MODEL, &none), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_write(s->cache, s->seqs, 2, NULL, 0, MODEL, NULL), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_write(NULL, s->seqs, 2, NULL, 0, MODEL, &writer), QSA_E_ARGUMENT);
    assert_int_equal(bytes.size, 0);
    mini_ok(qsa_snapshot_write(s->cache, s->seqs, 2, many, QSA_SNAPSHOT_MAX_SECTIONS, MODEL, &writer));
    mini_free(&bytes);
    mini_ok(qsa_snapshot_write(s->cache, NULL, 0, NULL, 0, MODEL, &writer)); /* no sequence: a snapshot too */
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(&bytes);
    mini_ok(qsa_snapshot_read(s->cache, MODEL, &reader, &snapshot));
    assert_int_equal(snapshot.n_sequences, 0);
    qsa_snapshot_free(&snapshot);
    mini_free(&bytes);
    leave(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail_while_writing),
        cmocka_unit_test(every_allocation_may_fail_while_reading),
        cmocka_unit_test(every_read_may_fail),
        cmocka_unit_test(every_read_may_be_short),
        cmocka_unit_test(every_write_may_fail),
        cmocka_unit_test(the_status_of_a_writer_comes_back),
        cmocka_unit_test(a_poisoned_target_gives_the_same_results),
        cmocka_unit_test(a_cache_without_room_refuses_and_keeps_what_it_has),
        cmocka_unit_test(what_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
