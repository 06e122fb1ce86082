/* SPDX-License-Identifier: Apache-2.0 */
/* What each kernel costs on this machine, one thread, at the released shape, beside what the machine can do at best:
 * reading the same bytes, and fused multiply-adds from registers, both measured in the same run.
 *
 * usage: bench_kernels [ISA]      of all tables that run here, or of one */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "kernels/kernels.h"

#include "base/elementary.h"
#include "base/float_env.h"
#include "select/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    Q_HEADS = 24,
    KV_HEADS = 2,
    GROUP_HEADS = Q_HEADS / KV_HEADS,
    DIM = 256,
    PAIRS = 32,
    ROW_TOKENS = 2051,
    ROW_BLOCKS = (ROW_TOKENS + QSA_BLOCK_TOKENS - 1) / QSA_BLOCK_TOKENS,
    ROW_STRIDE = ROW_BLOCKS * QSA_BLOCK_TOKENS,
    CACHE_BLOCKS = 65536, /* 262,144 tokens, of one kv head */
    INDEX_HEADS = 4,
    INDEX_DIM = 128,
    TILE_GROUPS = 16,
    TILES = 4096, /* 65,536 groups */
};

/* Seconds that this thread has run: what others do on the machine disturbs least. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of the fastest of the calls that fit in a fifth of a second. */
static double fastest(void (*work)(void *), void *context)
{
    double best = 1e9;
    const double begin = now();
    for (int runs = 0; runs < 3 || now() - begin < 0.2; runs++) {
        double start = now();
        work(context);
        double seconds = now() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void *allocate(size_t size_bytes)
{
    void *memory = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "bench_kernels: no memory for %zu bytes\n", size_bytes);
        exit(1);
    }
    return memory;
}

static uint32_t random_state = 1;
static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static float next_float(void)
{
    return (float)next_random() * 0x1p-23f - 1.0f; /* [-1, 1) */
}

static float *random_floats(size_t count)
{
    float *x = allocate(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = next_float();
    return x;
}

/* `count` rows of DIM elements, or blocks of four tokens as so many. Two bytes of f16 or q8_0 are 0x2c.. or 0xac..:
 * numbers of magnitude around 1/16, and ordinary scales. */
static void *random_rows(enum qsa_element type, size_t count, uint32_t dim)
{
    if (type == QSA_ELEMENT_F32)
        return random_floats(count * dim);
    const size_t words = count * qsa_row_bytes(type, dim) / sizeof(uint16_t);
    uint16_t *x = allocate(words * sizeof *x);
    for (size_t i = 0; i < words; i++)
        x[i] = type == QSA_ELEMENT_BF16 ? qsa_f32_to_bf16(next_float()) : 0x2c00 | (next_random() & 0x83ff);
    return x;
}

static const char *only; /* the one table to measure, if set */

/* Table number i of those to measure; NULL past the last. */
static const qsa_kernels *table(size_t i)
{
    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++)
        if ((!only || strcmp(only, k->isa) == 0) && i-- == 0)
            return k;
    return NULL;
}

/* The machine at its best. */

static volatile uint64_t sink; /* keeps the probes' work alive */

typedef struct bytes {
    const uint64_t *words;
    size_t count; /* a multiple of 8 */
} bytes;

static void read_bytes(void *context)
{
    const bytes *b = context;
    uint64_t sums[8] = {0};
    for (size_t i = 0; i < b->count; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += b->words[i + k];
    sink = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

static double read_rate(const void *memory, size_t size_bytes)
{
    bytes b = {memory, size_bytes / 64 * 8};
    return (double)size_bytes / fastest(read_bytes, &b);
}

enum { PEAK_STEPS = 1000000 };

#if defined(__x86_64__)
#include <immintrin.h>
/* Ten chains hide the latency of a chain's steps. */
#define FMA_PEAK(name, isa, vector, set, fmadd, add, first)                                                            \
    __attribute__((target(isa))) static void name(void *context)                                                       \
    {                                                                                                                  \
        (void)context;                                                                                                 \
        const vector a = set(0.5f), b = set(1.0f);                                                                     \
        vector s[10];                                                                                                  \
        for (int i = 0; i < 10; i++)                                                                                   \
            s[i] = set((float)i);                                                                                      \
        for (int n = 0; n < PEAK_STEPS; n++)                                                                           \
            for (int i = 0; i < 10; i++)                                                                               \
                s[i] = fmadd(s[i], a, b);                                                                              \
        for (int i = 1; i < 10; i++)                                                                                   \
            s[0] = add(s[0], s[i]);                                                                                    \
        sink = (uint64_t)first(s[0]);                                                                                  \
    }
FMA_PEAK(fma_peak_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_cvtss_f32)
FMA_PEAK(fma_peak_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_cvtss_f32)

/* Multiply-adds per second, with the widest vectors that a table uses; *out_bits of a vector. */
static double fma_rate(int *out_bits)
{
    __builtin_cpu_init();
    *out_bits = 0;
    if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2"))
        return 0;
    const bool wide = __builtin_cpu_supports("avx512f") && (!only || strcmp(only, "avx512") == 0);
    *out_bits = wide ? 512 : 256;
    return 10.0 * *out_bits / 32 * PEAK_STEPS / fastest(wide ? fma_peak_avx512 : fma_peak_avx2, NULL);
}
#else
static double fma_rate(int *out_bits)
{
    *out_bits = 0;
    return 0;
}
#endif

/* A row of attention: 24 query heads over 2,051 tokens. */
typedef struct row {
    const qsa_kernels *kernels;
    enum qsa_element type;
    float *q, *x, *sum, *out;
    const void **blocks[KV_HEADS], **v[KV_HEADS];
} row;

static void row_dots(void *context)
{
    const row *r = context;
    for (int g = 0; g < KV_HEADS; g++)
        r->kernels->dots[r->type](r->q + (size_t)g * GROUP_HEADS * DIM, GROUP_HEADS, DIM, r->blocks[g], ROW_BLOCKS,
                                  r->x + (size_t)g * GROUP_HEADS * ROW_STRIDE, ROW_STRIDE);
}

static void row_weights(void *context)
{
    const row *r = context;
    for (int g = 0; g < KV_HEADS; g++)
        r->kernels->weights(r->x + (size_t)g * GROUP_HEADS * ROW_STRIDE, ROW_STRIDE, GROUP_HEADS, ROW_TOKENS,
                            r->sum + g * GROUP_HEADS);
}

static void row_accumulate(void *context)
{
    const row *r = context;
    for (int g = 0; g < KV_HEADS; g++)
        r->kernels->accumulate[r->type](r->x + (size_t)g * GROUP_HEADS * ROW_STRIDE, ROW_STRIDE, GROUP_HEADS, r->v[g],
                                        ROW_TOKENS, DIM, r->sum + g * GROUP_HEADS,
                                        r->out + (size_t)g * GROUP_HEADS * DIM, DIM);
}

static void row_all(void *context)
{
    row_dots(context);
    row_weights(context);
    row_accumulate(context);
}

/* Points the row at blocks of the cache, in ascending order, beginning at block `first` of each stretch of `spread`. */
static void aim(row *r, const char *const k[KV_HEADS], const char *const v[KV_HEADS], size_t spread, size_t first)
{
    const size_t token_bytes = qsa_row_bytes(r->type, DIM);
    for (int g = 0; g < KV_HEADS; g++)
        for (size_t b = 0; b < ROW_BLOCKS; b++) {
            size_t token = (b * spread + first) % CACHE_BLOCKS * QSA_BLOCK_TOKENS;
            r->blocks[g][b] = k[g] + token * token_bytes;
            for (size_t t = 0; t < QSA_BLOCK_TOKENS; t++)
                r->v[g][b * QSA_BLOCK_TOKENS + t] = v[g] + (token + t) * token_bytes;
        }
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

typedef struct cold_row {
    row *row;
    const char *k[KV_HEADS], *v[KV_HEADS];
    size_t first;
} cold_row;

/* Seconds of a row that shares nothing with those before: the middle one of several. */
static double cold_seconds(cold_row *c)
{
    enum { SPREAD = CACHE_BLOCKS / ROW_BLOCKS, RUNS = 33 };
    double seconds[RUNS];
    for (int i = 0; i < RUNS; i++) {
        aim(c->row, c->k, c->v, SPREAD, c->first++ % SPREAD);
        double start = now();
        row_all(c->row);
        seconds[i] = now() - start;
    }
    qsort(seconds, RUNS, sizeof seconds[0], compare);
    return seconds[RUNS / 2];
}

static const char *name_of(enum qsa_element type)
{
    static const char *const names[QSA_ELEMENT_COUNT] = {"f32", "bf16", "f16", "q8_0"};
    return names[type];
}

/* One line: a time, what of the machine it used, and how many times the best possible it took. */
static void print_line(const char *isa, const char *what, enum qsa_element type, double seconds, double best_seconds)
{
    printf("%-8s %-28s %-5s %10.3f us", isa, what, name_of(type), 1e6 * seconds);
    if (best_seconds > 0)
        printf("   %6.2f x the probe", seconds / best_seconds);
    printf("\n");
}

static void bench_row(enum qsa_element type, double fma_per_second)
{
    const size_t tokens = (size_t)CACHE_BLOCKS * QSA_BLOCK_TOKENS;
    row r = {.type = type, .q = random_floats((size_t)Q_HEADS * DIM)};
    r.x = random_floats((size_t)Q_HEADS * ROW_STRIDE);
    r.sum = random_floats(Q_HEADS);
    r.out = random_floats((size_t)Q_HEADS * DIM);
    cold_row c = {.row = &r};
    for (int g = 0; g < KV_HEADS; g++) {
        c.k[g] = random_rows(type, tokens, DIM);
        c.v[g] = random_rows(type, tokens, DIM);
        r.blocks[g] = allocate(ROW_BLOCKS * sizeof(void *));
        r.v[g] = allocate(ROW_STRIDE * sizeof(void *));
    }
    const double best = fma_per_second > 0 ? (double)ROW_TOKENS * Q_HEADS * DIM / fma_per_second : 0;
    for (size_t i = 0; (r.kernels = table(i)) != NULL; i++) {
        aim(&r, c.k, c.v, 1, 0);
        print_line(r.kernels->isa, "row: dots, hot", type, fastest(row_dots, &r), best);
        print_line(r.kernels->isa, "row: weights, hot", type, fastest(row_weights, &r), 0);
        print_line(r.kernels->isa, "row: accumulate, hot", type, fastest(row_accumulate, &r), best);
        print_line(r.kernels->isa, "row, hot", type, fastest(row_all, &r), 2 * best);
        print_line(r.kernels->isa, "row, cold", type, cold_seconds(&c), 2 * best);
    }
    for (int g = 0; g < KV_HEADS; g++) {
        free((void *)c.k[g]);
        free((void *)c.v[g]);
        free(r.blocks[g]);
        free(r.v[g]);
    }
    free(r.q);
    free(r.x);
    free(r.sum);
    free(r.out);
}

/* The scan of a layer at 262,144 tokens. */
typedef struct scan {
    const qsa_kernels *kernels;
    enum qsa_element type;
    uint32_t queries;
    float *q, *out;
    const void **tiles;
} scan;

static void scan_all(void *context)
{
    const scan *s = context;
    s->kernels->score[s->type](s->q, s->queries, INDEX_HEADS, INDEX_DIM, s->tiles, TILES, TILE_GROUPS, s->out);
}

static void bench_scan(enum qsa_element type, double fma_per_second)
{
    enum { MOST_QUERIES = 8 };
    const size_t groups = (size_t)TILES * TILE_GROUPS, tile_bytes = TILE_GROUPS * qsa_row_bytes(type, INDEX_DIM);
    char *keys = random_rows(type, groups, INDEX_DIM);
    scan s = {.type = type, .q = random_floats((size_t)MOST_QUERIES * INDEX_HEADS * INDEX_DIM)};
    s.out = random_floats(MOST_QUERIES * groups);
    s.tiles = allocate(TILES * sizeof(void *));
    for (size_t t = 0; t < TILES; t++)
        s.tiles[t] = keys + t * tile_bytes;
    const double read_seconds = (double)(TILES * tile_bytes) / read_rate(keys, TILES * tile_bytes);
    const double fma_seconds = fma_per_second > 0 ? (double)groups * INDEX_HEADS * INDEX_DIM / fma_per_second : 0;
    print_line("probe", "reading the keys", type, read_seconds, 0);
    for (size_t i = 0; (s.kernels = table(i)) != NULL; i++) {
        s.queries = 1;
        print_line(s.kernels->isa, "scan, 1 query (by reading)", type, fastest(scan_all, &s), read_seconds);
        s.queries = MOST_QUERIES;
        print_line(s.kernels->isa, "scan, 8 queries (by fma)", type, fastest(scan_all, &s), MOST_QUERIES * fma_seconds);
    }
    free(keys);
    free(s.q);
    free(s.out);
    free(s.tiles);
}

/* A selection of 512 from the scores of a layer at 262,144 tokens. */
typedef struct choice {
    const qsa_kernels *kernels;
    float *scores;
    qsa_candidate *buffer;
} choice;

enum { BUDGET_GROUPS = 512 };

static void choose(void *context)
{
    const choice *c = context;
    qsa_selection selection;
    qsa_selection_begin(&selection, c->kernels, c->buffer, qsa_selection_capacity(BUDGET_GROUPS), BUDGET_GROUPS);
    qsa_selection_offer(&selection, c->scores, 0, TILES * TILE_GROUPS);
    qsa_selection_shrink(&selection);
    sink = selection.count;
}

static void bench_choice(void)
{
    choice c = {.scores = random_floats((size_t)TILES * TILE_GROUPS)};
    for (size_t i = 0; i < (size_t)TILES * TILE_GROUPS; i++)
        c.scores[i] = c.scores[i] < 0 ? 0 : c.scores[i] * 100;
    c.buffer = allocate(qsa_selection_capacity(BUDGET_GROUPS) * sizeof *c.buffer);
    for (size_t i = 0; (c.kernels = table(i)) != NULL; i++)
        print_line(c.kernels->isa, "choosing 512 of 65,536", QSA_ELEMENT_F32, fastest(choose, &c), 0);
    free(c.scores);
    free(c.buffer);
}

typedef struct vectors {
    const qsa_kernels *kernels;
    float *x, *weight, *cos, *sin, *out;
    uint16_t *bf16;
    bool round;
} vectors;

static void norm_rotate_all(void *context)
{
    const vectors *v = context;
    v->kernels->norm_rotate(v->x, DIM, Q_HEADS, DIM, v->weight, 1e-6f, PAIRS, v->cos, v->sin, 0, v->round, v->out);
}

static void check_all(void *context)
{
    const vectors *v = context;
    sink = v->kernels->check(v->x, (size_t)Q_HEADS * DIM, 0x1p56f);
}

static void to_bf16_all(void *context)
{
    const vectors *v = context;
    v->kernels->to_bf16(v->x, (size_t)Q_HEADS * DIM, v->bf16);
}

static void bench_vectors(void)
{
    const size_t count = (size_t)Q_HEADS * DIM;
    vectors v = {.x = random_floats(count), .weight = random_floats(DIM), .cos = random_floats(PAIRS)};
    v.sin = random_floats(PAIRS);
    v.out = random_floats(count);
    v.bf16 = allocate(count * sizeof *v.bf16);
    for (size_t i = 0; (v.kernels = table(i)) != NULL; i++) {
        for (int round = 0; round < 2; round++) {
            v.round = round;
            print_line(v.kernels->isa, "norm and rotate, 24 heads", round ? QSA_ELEMENT_BF16 : QSA_ELEMENT_F32,
                       fastest(norm_rotate_all, &v), 0);
        }
        print_line(v.kernels->isa, "check, 24 heads", QSA_ELEMENT_F32, fastest(check_all, &v), 0);
        print_line(v.kernels->isa, "round, 24 heads", QSA_ELEMENT_BF16, fastest(to_bf16_all, &v), 0);
    }
    free(v.x);
    free(v.weight);
    free(v.cos);
    free(v.sin);
    free(v.out);
    free(v.bf16);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    qsa_float_env saved = qsa_float_env_enter();
    int bits;
    const double fma_per_second = fma_rate(&bits);
    if (fma_per_second > 0)
        printf("probe: %.1f thousand million fused multiply-adds per second, one thread, %d-bit vectors\n",
               1e-9 * fma_per_second, bits);
    for (int type = 0; type < QSA_INDEX_ELEMENT_COUNT; type++)
        bench_scan((enum qsa_element)type, fma_per_second);
    bench_choice();
    for (int type = 0; type < QSA_ELEMENT_COUNT; type++)
        bench_row((enum qsa_element)type, fma_per_second);
    bench_vectors();
    qsa_float_env_leave(saved);
    return 0;
}
