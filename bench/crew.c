/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/crew.h"

#include "console/memory.h"
#include "console/options.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct member {
    crew *crew;
    uint32_t part;
    pthread_t thread;
} member;

struct crew {
    uint32_t threads;
    pthread_mutex_t mutex; /* of what sleeps: round, is_awake and stop change under it */
    pthread_cond_t changed;
    atomic_uint_fast64_t round; /* counts the works handed out; each member does each once */
    atomic_uint running;
    atomic_bool is_awake, stop;
    crew_work *work;
    void *context;
    member members[]; /* [threads - 1] */
};

/* A busy wait that lets others run where threads outnumber the processors. */
static void wait_a_little(uint32_t *turns)
{
    if (++*turns % 4096 == 0)
        sched_yield();
}

/* The round after `seen`, or `seen` if the crew stops. */
static uint64_t next_round(crew *c, uint64_t seen)
{
    uint32_t turns = 0;
    while (atomic_load(&c->is_awake) && !atomic_load(&c->stop) && atomic_load(&c->round) == seen)
        wait_a_little(&turns);
    pthread_mutex_lock(&c->mutex);
    while (!atomic_load(&c->is_awake) && !atomic_load(&c->stop) && atomic_load(&c->round) == seen)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
    return atomic_load(&c->stop) ? seen : atomic_load(&c->round);
}

static void *member_main(void *argument)
{
    member *m = argument;
    crew *c = m->crew;
    for (uint64_t seen = 0; !atomic_load(&c->stop);) {
        const uint64_t round = next_round(c, seen);
        if (round == seen)
            continue; /* it was told to stay awake, or to stop */
        seen = round;
        c->work(c->context, m->part, c->threads);
        atomic_fetch_sub(&c->running, 1);
    }
    return NULL;
}

static void change(crew *c, atomic_bool *what, bool value)
{
    pthread_mutex_lock(&c->mutex);
    atomic_store(what, value);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

static void stop_members(crew *c, uint32_t started)
{
    change(c, &c->stop, true);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(c->members[i].thread, NULL);
}

static void free_crew(crew *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

crew *crew_new(uint32_t threads)
{
    crew *c = memory_new(1, sizeof *c + (threads - 1) * sizeof(member));
    c->threads = threads;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    for (uint32_t i = 0; i + 1 < threads; i++) {
        c->members[i].crew = c;
        c->members[i].part = i + 1;
        if (pthread_create(&c->members[i].thread, NULL, member_main, &c->members[i]) != 0) {
            options_say("bench", "the system started %u of %u threads", (unsigned)i + 1, (unsigned)threads);
            stop_members(c, i);
            free_crew(c);
            return NULL;
        }
    }
    return c;
}

void crew_free(crew *c)
{
    if (!c)
        return;
    stop_members(c, c->threads - 1);
    free_crew(c);
}

uint32_t crew_threads(const crew *c)
{
    return c->threads;
}

void crew_run(crew *c, crew_work *work, void *context)
{
    uint32_t turns = 0;
    c->work = work;
    c->context = context;
    atomic_store(&c->running, c->threads - 1);
    pthread_mutex_lock(&c->mutex);
    atomic_fetch_add(&c->round, 1);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    work(context, 0, c->threads);
    while (atomic_load(&c->running) > 0)
        wait_a_little(&turns);
}

void crew_stay_awake(crew *c, bool is_awake)
{
    change(c, &c->is_awake, is_awake);
}
