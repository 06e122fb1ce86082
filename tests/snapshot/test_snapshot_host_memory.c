/* What takes memory from the C library (inspecting without a cache, names of files) finds none, at every call. */
#define _XOPEN_SOURCE 700
#include "mini.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODEL = 42 };

static uint64_t calls, fail_at; /* number of the call that finds no memory, from 1; 0: none */
static int64_t live;            /* allocations of the library that are not released */

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_free(void *memory);
void __wrap_free(void *memory);

static bool finds_none(void)
{
    return ++calls == fail_at;
}

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return finds_none() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void *__wrap_malloc(size_t size)
{
    return finds_none() ? NULL : counted(__real_malloc(size));
}

char *__wrap_strdup(const char *text)
{
    return finds_none() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

typedef struct scene {
    char path[64];
    qsa_cache *cache;
    qsa_seq seq;
} scene;

static qsa_status save(scene *s)
{
    const qsa_section section = {1, "state", 5};
    return qsa_snapshot_save(s->cache, &s->seq, 1, &section, 1, MODEL, s->path);
}

static qsa_status load(scene *s)
{
    qsa_snapshot snapshot;
    qsa_status status = qsa_snapshot_load(s->cache, MODEL, s->path, &snapshot);
    if (status == QSA_OK) {
        mini_ok(qsa_seq_close(s->cache, snapshot.sequences[0]));
        qsa_snapshot_free(&snapshot);
    }
    return status;
}

static qsa_status inspect(scene *s)
{
    qsa_snapshot snapshot;
    qsa_status status = qsa_snapshot_inspect_file(s->path, &snapshot);
    if (status == QSA_OK)
        qsa_snapshot_free(&snapshot);
    return status;
}

static void without_memory_nothing_happens(scene *s, qsa_status (*call)(scene *s))
{
    const uint64_t state = mini_state(s->cache, &s->seq, 1);
    for (uint64_t n = 1;; n++) {
        const int64_t before = live;
        calls = 0;
        fail_at = n;
        qsa_status status = call(s);
        fail_at = 0;
        assert_int_equal(live, before);
        assert_true(mini_state(s->cache, &s->seq, 1) == state);
        mini_ok(inspect(s)); /* the file is whole */
        if (status == QSA_OK) {
            assert_true(n > 3);
            return;
        }
        assert_int_equal(status, QSA_E_MEMORY);
    }
}

static void every_call_for_memory_may_fail(void **state)
{
    (void)state;
    scene s = {.path = "/tmp/qsa-host-memory-XXXXXX"};
    int descriptor = mkstemp(s.path);
    assert_true(descriptor >= 0);
    close(descriptor);
    const qsa_config config = mini_config();
    s.cache = mini_create(&config);
    mini_ok(qsa_seq_open(s.cache, &s.seq));
    mini_feed(s.cache, s.seq, 0, 70, 1, NULL);
    mini_ok(save(&s));
    without_memory_nothing_happens(&s, inspect);
    without_memory_nothing_happens(&s, load);
    without_memory_nothing_happens(&s, save);
    qsa_cache_destroy(s.cache);
    unlink(s.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_for_memory_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
