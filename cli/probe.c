/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include "clock.h"
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same work on several threads ---- */

typedef void probe_work(void *context, uint32_t part, uint32_t parts);

typedef struct task {
    probe_work *work;
    void *context;
    uint32_t part, parts;
    pthread_t thread;
} task;

static void *run_task(void *argument)
{
    task *t = argument;
    t->work(t->context, t->part, t->parts);
    return NULL;
}

/* Seconds until all parts are done. A part that gets no thread of its own runs here. */
static double run_parallel(probe_work *work, void *context, uint32_t parts)
{
    task *tasks = memory_new(parts, sizeof *tasks);
    const double begin = clock_seconds();
    for (uint32_t i = 1; i < parts; i++) {
        tasks[i] = (task){.work = work, .context = context, .part = i, .parts = parts};
        if (pthread_create(&tasks[i].thread, NULL, run_task, &tasks[i]) != 0) {
            run_task(&tasks[i]);
            tasks[i].work = NULL;
        }
    }
    work(context, 0, parts);
    for (uint32_t i = 1; i < parts; i++)
        if (tasks[i].work)
            pthread_join(tasks[i].thread, NULL);
    const double seconds = clock_seconds() - begin;
    free(tasks);
    return seconds;
}

/* ---- reading ---- */

static volatile uint64_t sink; /* keeps the work alive */

static void read_part(void *context, uint32_t part, uint32_t parts)
{
    const probe *p = context;
    const size_t lines = p->count / 8, begin = lines * part / parts * 8, end = lines * (part + 1) / parts * 8;
    uint64_t sums[8] = {0}, all = 0;
    for (size_t i = begin; i < end; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += p->words[i + (size_t)k];
    for (int k = 0; k < 8; k++)
        all += sums[k];
    sink = all;
}

void probe_open(probe *p, uint32_t threads, size_t size_bytes)
{
    *p = (probe){.threads = threads, .count = size_bytes / 64 * 8};
    p->words = memory_new(p->count, sizeof *p->words);
    memset(p->words, 1, p->count * sizeof *p->words); /* every page is there */
}

void probe_close(probe *p)
{
    free(p->words);
    *p = (probe){0};
}

double probe_read(const probe *p)
{
    return run_parallel(read_part, (void *)p, p->threads);
}

/* ---- multiply-adds ---- */

enum { FMA_STEPS = 4000000, FMA_CHAINS = 10 }; /* ten chains hide the latency of a chain's steps */

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2,fma"))) static void fma_avx2(void *context, uint32_t part, uint32_t parts)
{
    (void)context, (void)part, (void)parts;
    const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(1.0f);
    __m256 s[FMA_CHAINS];
    for (int i = 0; i < FMA_CHAINS; i++)
        s[i] = _mm256_set1_ps((float)i);
    for (int n = 0; n < FMA_STEPS; n++)
        for (int i = 0; i < FMA_CHAINS; i++)
            s[i] = _mm256_fmadd_ps(s[i], a, b);
    for (int i = 1; i < FMA_CHAINS; i++)
        s[0] = _mm256_add_ps(s[0], s[i]);
    sink = (uint64_t)_mm256_cvtss_f32(s[0]);
}

__attribute__((target("avx512f"))) static void fma_avx512(void *context, uint32_t part, uint32_t parts)
{
    (void)context, (void)part, (void)parts;
    const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(1.0f);
    __m512 s[FMA_CHAINS];
    for (int i = 0; i < FMA_CHAINS; i++)
        s[i] = _mm512_set1_ps((float)i);
    for (int n = 0; n < FMA_STEPS; n++)
        for (int i = 0; i < FMA_CHAINS; i++)
            s[i] = _mm512_fmadd_ps(s[i], a, b);
    for (int i = 1; i < FMA_CHAINS; i++)
        s[0] = _mm512_add_ps(s[0], s[i]);
    sink = (uint64_t)_mm512_cvtss_f32(s[0]);
}

static probe_work *widest_fma(uint32_t *out_lanes)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) {
        *out_lanes = 16;
        return fma_avx512;
    }
    *out_lanes = 8;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? fma_avx2 : NULL;
}
#else
static probe_work *widest_fma(uint32_t *out_lanes)
{
    *out_lanes = 0;
    return NULL;
}
#endif

double probe_fma_rate(uint32_t threads)
{
    uint32_t lanes;
    probe_work *work = widest_fma(&lanes);
    if (!work)
        return 0;
    double best = run_parallel(work, NULL, threads);
    for (int i = 0; i < 4; i++) {
        const double seconds = run_parallel(work, NULL, threads);
        best = seconds < best ? seconds : best;
    }
    return (double)FMA_STEPS * FMA_CHAINS * lanes * threads / best;
}
