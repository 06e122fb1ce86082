/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/workers.h"

#include "console/clock.h"
#include "console/memory.h"
#include "console/options.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

typedef struct team {
    worker_work *work;
    void *context;
    worker_barrier begin, end;
} team;

typedef struct member {
    team *team;
    uint32_t worker;
    pthread_t thread;
} member;

void worker_barrier_wait(worker_barrier *b)
{
    const unsigned round = atomic_load(&b->round);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == b->workers) {
        atomic_store(&b->arrived, 0);
        atomic_store(&b->round, round + 1);
        return;
    }
    for (uint32_t turn = 1; atomic_load(&b->round) == round; turn++)
        if (turn % 4096 == 0) /* others run where threads outnumber the processors */
            sched_yield();
}

static void *member_main(void *argument)
{
    const member *m = argument;
    team *t = m->team;
    worker_barrier_wait(&t->begin);
    t->work(t->context, m->worker, t->begin.workers);
    worker_barrier_wait(&t->end);
    return NULL;
}

static void start(member *m, team *t, uint32_t worker)
{
    *m = (member){.team = t, .worker = worker};
    if (pthread_create(&m->thread, NULL, member_main, m) == 0)
        return;
    options_say("bench", "the system started %u of %u threads", (unsigned)worker, (unsigned)t->begin.workers);
    exit(EXIT_FAILURE);
}

double workers_run(uint32_t workers, worker_work *work, void *context)
{
    assert(workers > 0);
    team t = {.work = work, .context = context, .begin = {.workers = workers}, .end = {.workers = workers}};
    member *members = memory_new(workers, sizeof *members);
    for (uint32_t w = 1; w < workers; w++)
        start(&members[w], &t, w);
    worker_barrier_wait(&t.begin);
    const double begin = clock_seconds();
    work(context, 0, workers);
    worker_barrier_wait(&t.end);
    const double seconds = clock_seconds() - begin;
    for (uint32_t w = 1; w < workers; w++)
        pthread_join(members[w].thread, NULL);
    free(members);
    return seconds;
}
