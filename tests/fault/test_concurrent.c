/* Several caches in one process, each on a thread of its own with a pool of its own: none disturbs another. */
#include "world.h"

#include <pthread.h>

enum { WORKERS = 8 };

typedef struct worker {
    uint32_t number;
    uint64_t digest;
    world_batch found;
} worker;

static qsa_config worker_config(void)
{
    qsa_config config = world_mini();
    config.layers = 1;
    config.max_step_tokens = 64;
    config.capacity_tokens = 640;
    return config;
}

/* A cache of its own, fed in pieces of 1 to 64, with a pool of two. */
static void *work(void *argument)
{
    worker *me = argument;
    const qsa_config config = worker_config();
    qsa_cache *cache = NULL;
    qsa_threads *threads = NULL;
    uint64_t chance = me->number;
    qsa_seq seq;
    if (qsa_cache_create(&config, &cache) != QSA_OK || qsa_seq_open(cache, &seq) != QSA_OK ||
        qsa_threads_create(2, &threads) != QSA_OK)
        return NULL;
    for (uint32_t at = 0; at < me->found.tokens;) {
        uint32_t n = 1 + world_random(&chance, 64);
        n = n < me->found.tokens - at ? n : me->found.tokens - at;
        qsa_entry entry = {.seq = seq, .position = at, .tokens = n};
        qsa_step *step;
        if (qsa_step_begin(cache, &entry, 1, &step) != QSA_OK ||
            world_layers(step, &me->found, at, n, (world_way){.threads = threads}) != QSA_OK ||
            qsa_step_commit(step, NULL) != QSA_OK)
            break;
        at += n;
    }
    qsa_seq_digest(cache, seq, &me->digest);
    qsa_threads_destroy(threads);
    qsa_cache_destroy(cache);
    return NULL;
}

static void caches_are_independent_of_each_other_s_threads(void **state)
{
    (void)state;
    const qsa_config config = worker_config();
    worker workers[WORKERS];
    pthread_t threads[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i] = (worker){.number = i, .found = world_batch_open(&config, 64 + 70 * i, 1000 * i)};
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        world_batch alone = world_batch_open(&config, 64 + 70 * i, 1000 * i);
        assert_int_equal(world_solo(&config, 0, &alone, 64, (world_way){0}), workers[i].digest);
        world_same("among threads", &alone, 0, &workers[i].found, 0, alone.tokens);
        world_batch_close(&alone);
        world_batch_close(&workers[i].found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(caches_are_independent_of_each_other_s_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
