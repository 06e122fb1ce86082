/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sizes of caches from sysconf, madvise */
#include "bench/probe.h"

#include "console/clock.h"
#include "console/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile uint64_t sink; /* keeps the work alive */

enum { PASSES = 3 }; /* the best of them counts: one is easily disturbed for a moment */

/* ---- reading ---- */

enum {
    STREAMS = 8,      /* read by each thread side by side: one alone does not saturate the memory */
    LINE_WORDS = 8,   /* of 64 bytes */
    AHEAD_LINES = 12, /* that each stream asks for */
};
#define LEAST_BYTES ((size_t)256 << 20)
#define MOST_BYTES ((size_t)1 << 30)

typedef struct piece {
    const uint64_t *words;
    size_t count;
} piece;

static void read_part(void *context, uint32_t part, uint32_t parts)
{
    const piece *p = context;
    const size_t lines = p->count / LINE_WORDS / parts / STREAMS;
    const uint64_t *words = p->words + part * lines * STREAMS * LINE_WORDS;
    uint64_t sums[LINE_WORDS] = {0}, all = 0;
    for (size_t i = 0; i < lines; i++)
        for (size_t s = 0; s < STREAMS; s++) {
            const uint64_t *line = words + (s * lines + i) * LINE_WORDS;
            __builtin_prefetch(line + AHEAD_LINES * LINE_WORDS);
            for (int k = 0; k < LINE_WORDS; k++)
                sums[k] += line[k];
        }
    for (int k = 0; k < LINE_WORDS; k++)
        all += sums[k];
    sink = all;
}

/* Twice the last cache, within reason. */
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

static void fma_neon(void *context, uint32_t part, uint32_t parts)
{
    (void)context, (void)part, (void)parts;
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

/* In large pages where the system has them, as the library's own. */
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
    memset(p->words, 1, p->count * sizeof *p->words); /* every page is there */
    choose_fma(p, isa);
}

void probe_close(probe *p)
{
    free(p->words);
    *p = (probe){0};
}

static double seconds_of(crew *threads, crew_work *work, void *context)
{
    const double begin = clock_seconds();
    crew_run(threads, work, context);
    return clock_seconds() - begin;
}

static double read_rate(const probe *p, crew *threads)
{
    double best = 0;
    const size_t count = p->count / PASSES / LINE_WORDS * LINE_WORDS;
    for (size_t i = 0; i < PASSES; i++) {
        piece third = {p->words + i * count, count};
        best = fmax(best, (double)count * sizeof *p->words / seconds_of(threads, read_part, &third));
    }
    return best;
}

static double fma_rate(const probe *p, crew *threads)
{
    double best = 0;
    const double operations = 2.0 * FMA_STEPS * FMA_CHAINS * p->lanes * crew_threads(threads);
    for (int i = 0; p->fma && i < PASSES; i++)
        best = fmax(best, operations / seconds_of(threads, p->fma, NULL));
    return best;
}

double probe_rate(const probe *p, probe_kind kind, crew *threads)
{
    return kind == PROBE_READ ? read_rate(p, threads) : fma_rate(p, threads);
}
