/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sizes of caches from sysconf, madvise */
#include "bench/probes.h"

#include "console/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink; /* keeps the work alive */

enum { PASSES = 3 }; /* the best one counts: a single pass is easily disturbed */

/* ---- reading ---- */

enum {
    STREAMS = 8,         /* that each thread reads side by side: one does not saturate the memory */
    LINE_WORDS = 8,      /* of a cache line */
    PREFETCH_LINES = 12, /* ahead, in each stream */
};
#define LEAST_BYTES ((size_t)256 << 20)
#define MOST_BYTES ((size_t)1 << 30)

typedef struct piece {
    const uint64_t *words;
    size_t count;
} piece;

static void read_lines(void *context, uint32_t worker, uint32_t workers)
{
    const piece *p = context;
    const size_t lines = p->count / LINE_WORDS / workers / STREAMS;
    const uint64_t *words = p->words + worker * lines * STREAMS * LINE_WORDS;
    uint64_t sums[LINE_WORDS] = {0}, all = 0;
    for (size_t i = 0; i < lines; i++)
        for (size_t s = 0; s < STREAMS; s++) {
            const uint64_t *line = words + (s * lines + i) * LINE_WORDS;
            __builtin_prefetch(line + PREFETCH_LINES * LINE_WORDS);
            for (int k = 0; k < LINE_WORDS; k++)
                sums[k] += line[k];
        }
    for (int k = 0; k < LINE_WORDS; k++)
        all += sums[k];
    sink = all;
}

/* Twice the last-level cache, within reason. */
static size_t bytes_to_read(void)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
    const long cache = 0;
#endif
    const size_t wanted = cache > 0 ? 2 * (size_t)cache : 0;
    return wanted < LEAST_BYTES ? LEAST_BYTES : wanted > MOST_BYTES ? MOST_BYTES : wanted;
}

/* ---- multiply-adds ---- */

enum { FMA_STEPS = 4000000, FMA_CHAINS = 10 }; /* independent chains hide the latency of a multiply-add */

#if defined(__x86_64__)
#include <immintrin.h>

#define FMA_PEAK(name, isa, vector, set, fmadd, add, first)                                                            \
    __attribute__((target(isa))) static void name(void *context, uint32_t worker, uint32_t workers)                    \
    {                                                                                                                  \
        (void)context, (void)worker, (void)workers;                                                                    \
        const vector a = set(0.5f), b = set(1.0f);                                                                     \
        vector s[FMA_CHAINS];                                                                                          \
        for (int i = 0; i < FMA_CHAINS; i++)                                                                           \
            s[i] = set((float)i);                                                                                      \
        for (int n = 0; n < FMA_STEPS; n++)                                                                            \
            for (int i = 0; i < FMA_CHAINS; i++)                                                                       \
                s[i] = fmadd(s[i], a, b);                                                                              \
        for (int i = 1; i < FMA_CHAINS; i++)                                                                           \
            s[0] = add(s[0], s[i]);                                                                                    \
        sink = (uint64_t)first(s[0]);                                                                                  \
    }
FMA_PEAK(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_cvtss_f32)
FMA_PEAK(fma_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_cvtss_f32)

static void choose_fma(probe *p, const char *isa)
{
    if (strcmp(isa, "avx512") == 0) {
        p->fma = fma_avx512;
        p->lanes = 16;
    } else if (strcmp(isa, "avx2") == 0) {
        p->fma = fma_avx2;
        p->lanes = 8;
    }
}
#elif defined(__aarch64__)
#include <arm_neon.h>

enum { NEON_CHAINS = 20 }; /* four units of four cycles, and some to spare */

static void fma_neon(void *context, uint32_t worker, uint32_t workers)
{
    (void)context, (void)worker, (void)workers;
    const float32x4_t a = vdupq_n_f32(0.5f), b = vdupq_n_f32(1.0f);
    float32x4_t s[NEON_CHAINS];
    for (int i = 0; i < NEON_CHAINS; i++)
        s[i] = vdupq_n_f32((float)i);
    for (int n = 0; n < FMA_STEPS / (NEON_CHAINS / FMA_CHAINS); n++)
        for (int i = 0; i < NEON_CHAINS; i++)
            s[i] = vfmaq_f32(b, s[i], a);
    for (int i = 1; i < NEON_CHAINS; i++)
        s[0] = vaddq_f32(s[0], s[i]);
    sink = (uint64_t)vgetq_lane_f32(s[0], 0);
}

static void choose_fma(probe *p, const char *isa)
{
    if (strcmp(isa, "neon") == 0) {
        p->fma = fma_neon;
        p->lanes = 4;
    }
}
#else
static void choose_fma(probe *p, const char *isa)
{
    (void)p, (void)isa;
}
#endif

/* ---- both ---- */

/* In huge pages where the system has them, like the cache of libqsa. */
static void *large_memory(size_t size_bytes)
{
    const size_t page = (size_t)2 << 20, rounded = (size_bytes + page - 1) / page * page;
    void *memory = aligned_alloc(page, rounded);
    if (!memory)
        return memory_new(size_bytes, 1);
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    return memory;
}

void probe_open(probe *p, const char *isa)
{
    *p = (probe){.count = bytes_to_read() / sizeof(uint64_t)};
    p->words = large_memory(p->count * sizeof *p->words);
    memset(p->words, 1, p->count * sizeof *p->words); /* touches every page */
    choose_fma(p, isa);
}

void probe_choose_isa(probe *p, const char *isa)
{
    p->fma = NULL;
    p->lanes = 0;
    choose_fma(p, isa);
}

void probe_close(probe *p)
{
    free(p->words);
    *p = (probe){0};
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(uint32_t threads, qsa_thread_work *work, void *context)
{
    if (threads != PROBE_THIS_THREAD)
        return workers_run(threads, work, context);
    const double begin = thread_seconds();
    work(context, 0, 1);
    return thread_seconds() - begin;
}

static double read_rate(const probe *p, uint32_t threads)
{
    double best = 0;
    const size_t count = p->count / PASSES / LINE_WORDS * LINE_WORDS;
    for (size_t i = 0; i < PASSES; i++) {
        piece third = {p->words + i * count, count};
        best = fmax(best, (double)count * sizeof *p->words / seconds_of(threads, read_lines, &third));
    }
    return best;
}

static double fma_rate(const probe *p, uint32_t threads)
{
    double best = 0;
    const double operations = 2.0 * FMA_STEPS * FMA_CHAINS * p->lanes * (threads ? threads : 1);
    for (int i = 0; p->fma && i < PASSES; i++)
        best = fmax(best, operations / seconds_of(threads, p->fma, NULL));
    return best;
}

double probe_rate(const probe *p, probe_kind kind, uint32_t threads)
{
    return kind == PROBE_READ ? read_rate(p, threads) : fma_rate(p, threads);
}

const char *probe_unit(probe_kind kind)
{
    return kind == PROBE_READ ? "GB/s" : "GFLOP/s";
}
