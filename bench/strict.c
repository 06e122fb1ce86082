/* SPDX-License-Identifier: Apache-2.0 */
/* What strict bits cost: each kernel at the released shape, bf16, one thread, beside the fastest of the ways that are
 * free of them (strict_free.h), all in turn in one run. A way whose results are far from the strict ones is no
 * competitor.
 *
 * usage: bench_strict [ISA]      of every vector table that runs here, or of one
 *
 * One JSON object per line: name, isa, kernel, value (the strict kernel's median), unit, ratio (to the fastest way,
 * median of the rounds'), probe (value / ratio), probe_unit, best (that way's name). The kernel "all" is what a layer
 * of a decode step at 262,144 tokens consists of: the scan, two kv heads of row attention, norm and rotation of 24
 * heads. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "base/elementary.h"
#include "base/float_env.h"
#include "strict_free.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    KV_HEADS = 2,
    PAIRS = 32,
    ROW_TOKENS = 2051,
    ROW_BLOCKS = (ROW_TOKENS + QSA_BLOCK_TOKENS - 1) / QSA_BLOCK_TOKENS,
    ROW_STRIDE = ROW_BLOCKS * QSA_BLOCK_TOKENS,
    TILES = 4096,     /* 65,536 groups */
    SOME_TILES = 512, /* for several queries */
    QUERIES = 8,
    GROUPS = TILES * FREE_TILE_GROUPS,
    Q_FLOATS = KV_HEADS * FREE_HEADS * FREE_DIM,
    ROUNDS = 41,
    MOST_WAYS = 5
};

/* ---- data, the same for every way ---- */

static void *allocate(size_t size_bytes)
{
    void *memory = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "bench_strict: no memory for %zu bytes\n", size_bytes);
        exit(1);
    }
    memset(memory, 0, size_bytes);
    return memory;
}

static float next_float(void)
{
    static uint32_t x = 1;
    x = x * 1664525u + 1013904223u;
    return (float)(x >> 8) * 0x1p-23f - 1.0f; /* [-1, 1) */
}

static float *random_floats(size_t count)
{
    float *x = allocate(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = next_float();
    return x;
}

static uint16_t *random_bf16(size_t count)
{
    uint16_t *x = allocate(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = qsa_f32_to_bf16(next_float());
    return x;
}

static struct data {
    float *q, *index_q, *weight, *cos, *sin;
    const void *tiles[TILES];
    const void *blocks[KV_HEADS][ROW_BLOCKS], *v[KV_HEADS][ROW_STRIDE];
    float *x, sum[FREE_HEADS];
} data;

static void make_data(void)
{
    data.q = random_floats(Q_FLOATS);
    data.index_q = random_floats((size_t)QUERIES * FREE_INDEX_HEADS * FREE_INDEX_DIM);
    data.weight = random_floats(FREE_DIM);
    data.cos = random_floats(PAIRS);
    data.sin = random_floats(PAIRS);
    data.x = random_floats((size_t)FREE_HEADS * ROW_STRIDE);
    const size_t tile = (size_t)FREE_TILE_GROUPS * FREE_INDEX_DIM;
    const uint16_t *keys = random_bf16(TILES * tile);
    for (size_t t = 0; t < TILES; t++)
        data.tiles[t] = keys + t * tile;
    for (int g = 0; g < KV_HEADS; g++) {
        const uint16_t *k = random_bf16((size_t)ROW_STRIDE * FREE_DIM), *v = random_bf16((size_t)ROW_STRIDE * FREE_DIM);
        for (size_t b = 0; b < ROW_BLOCKS; b++)
            data.blocks[g][b] = k + b * QSA_BLOCK_TOKENS * FREE_DIM;
        for (size_t j = 0; j < ROW_STRIDE; j++)
            data.v[g][j] = v + j * FREE_DIM;
    }
}

/* ---- ways ---- */

/* A way to do what a kernel does, over `data`; out has room for the largest result. */
typedef struct way {
    const char *name;
    void (*run)(const struct way *way, float *out);
    const qsa_kernels *kernels;
    qsa_weights_fn *weights;
    const free_ways *free;
} way;

static void scan_one(const way *w, float *out)
{
    w->kernels->score[QSA_ELEMENT_BF16](data.index_q, 1, FREE_INDEX_HEADS, FREE_INDEX_DIM, data.tiles, TILES,
                                        FREE_TILE_GROUPS, out);
}

static void scan_one_in_two_sums(const way *w, float *out)
{
    w->free->score(data.index_q, data.tiles, TILES, out);
}

static void scan_several(const way *w, float *out)
{
    w->kernels->score[QSA_ELEMENT_BF16](data.index_q, QUERIES, FREE_INDEX_HEADS, FREE_INDEX_DIM, data.tiles, SOME_TILES,
                                        FREE_TILE_GROUPS, out);
}

static void row(const way *w, float *out)
{
    for (int g = 0; g < KV_HEADS; g++) {
        w->kernels->dots[QSA_ELEMENT_BF16](data.q + g * FREE_HEADS * FREE_DIM, FREE_HEADS, FREE_DIM, data.blocks[g],
                                           ROW_BLOCKS, data.x, ROW_STRIDE);
        w->weights(data.x, ROW_STRIDE, FREE_HEADS, ROW_TOKENS, data.sum);
        w->kernels->accumulate[QSA_ELEMENT_BF16](data.x, ROW_STRIDE, FREE_HEADS, data.v[g], ROW_TOKENS, FREE_DIM,
                                                 data.sum, out + g * FREE_HEADS * FREE_DIM, FREE_DIM);
    }
}

static void row_in_tiles(const way *w, float *out)
{
    for (int g = 0; g < KV_HEADS; g++)
        w->free->row(data.q + g * FREE_HEADS * FREE_DIM, data.blocks[g], data.v[g], ROW_TOKENS,
                     out + g * FREE_HEADS * FREE_DIM);
}

static void norm_rotate(const way *w, float *out)
{
    w->kernels->norm_rotate(data.q, FREE_DIM, KV_HEADS * FREE_HEADS, FREE_DIM, data.weight, 1e-6f, PAIRS, data.cos,
                            data.sin, 0, false, out);
}

static void norm_rotate_key(const way *w, float *out)
{
    w->kernels->norm_rotate(data.index_q, FREE_INDEX_DIM, 1, FREE_INDEX_DIM, data.weight, 1e-6f, PAIRS, data.cos,
                            data.sin, 0, true, out);
}

/* ---- measuring ---- */

/* Seconds that this thread has run. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

/* Whether two results are the same but for rounding. */
static bool alike(const float *a, const float *b, size_t count)
{
    float most = 0, apart = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmaxf(most, fabsf(a[i]));
        apart = fabsf(a[i] - b[i]) <= apart ? apart : fabsf(a[i] - b[i]);
    }
    return apart <= 1e-3f * most;
}

typedef struct operation {
    const char *name;
    size_t results;
    int repeats; /* within one measurement */
} operation;

static double median(const double *values)
{
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof(double), compare);
    return sorted[ROUNDS / 2];
}

/* Seconds of every way in every round. */
static void measure(const operation *o, const way *ways, int n, float *out, double seconds[MOST_WAYS][ROUNDS])
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            const int w = (i + round) % n;
            const double begin = now();
            for (int repeat = 0; repeat < o->repeats; repeat++)
                ways[w].run(&ways[w], out);
            seconds[w][round] = (now() - begin) / o->repeats;
        }
}

/* How many times longer the strict way takes: of neighbours in time, so that a machine that slows down does no harm. */
static double ratio_to(const double *strict, const double *other)
{
    double ratios[ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        ratios[round] = strict[round] / other[round];
    return median(ratios);
}

static void print_line(const char *isa, const char *kernel, double strict, double best, const char *best_name)
{
    printf("{\"name\": \"strict_over_best\", \"isa\": \"%s\", \"kernel\": \"%s\", \"value\": %.6g, \"unit\": \"us\", "
           "\"ratio\": %.4f, \"probe\": %.6g, \"probe_unit\": \"us\", \"best\": \"%s\"}\n",
           isa, kernel, 1e6 * strict, strict / best, 1e6 * best, best_name);
}

typedef struct sums {
    double strict, best;
} sums;

/* ways[0] is the strict one. */
static sums race(const operation *o, way *ways, int n)
{
    float *expected = allocate(o->results * sizeof(float)), *out = allocate(o->results * sizeof(float));
    ways[0].run(&ways[0], expected);
    int kept = 1;
    for (int i = 1; i < n; i++) {
        memset(out, 0, o->results * sizeof(float));
        ways[i].run(&ways[i], out);
        if (alike(expected, out, o->results))
            ways[kept++] = ways[i];
        else
            fprintf(stderr, "bench_strict: %s, %s: '%s' computes something else and is left out\n",
                    ways[0].kernels->isa, o->name, ways[i].name);
    }
    if (kept == 1) {
        fprintf(stderr, "bench_strict: %s: nothing to compare with\n", o->name);
        exit(1);
    }
    static double seconds[MOST_WAYS][ROUNDS];
    measure(o, ways, kept, out, seconds);
    int best = 1;
    for (int i = 2; i < kept; i++)
        best = ratio_to(seconds[0], seconds[i]) > ratio_to(seconds[0], seconds[best]) ? i : best;
    const double strict = median(seconds[0]), least = strict / ratio_to(seconds[0], seconds[best]);
    print_line(ways[0].kernels->isa, o->name, strict, least, ways[best].name);
    free(expected);
    free(out);
    return (sums){strict, least};
}

/* A kernel that has no other way than its own source in the free build. */
static sums race_sources(const operation *o, void (*run)(const way *, float *), const qsa_kernels *strict,
                         const qsa_kernels *loose)
{
    way ways[] = {{"strict", run, strict, strict->weights, NULL}, {"fast-math", run, loose, loose->weights, NULL}};
    return race(o, ways, 2);
}

static void race_all(const qsa_kernels *strict, const qsa_kernels *loose, const free_ways *others)
{
    way scans[] = {{"strict", scan_one, strict, NULL, NULL},
                   {"fast-math", scan_one, loose, NULL, NULL},
                   {"two sums per dot", scan_one_in_two_sums, loose, NULL, others}};
    way rows[] = {{"strict", row, strict, strict->weights, NULL},
                  {"fast-math", row, loose, loose->weights, NULL},
                  {"fast-math, sums by lanes", row, loose, others->weights, NULL},
                  {"strict but sums by lanes", row, strict, others->weights, NULL},
                  {"online softmax", row_in_tiles, loose, NULL, others}};
    const operation scan = {"scan", GROUPS, 1}, of_row = {"row", Q_FLOATS, 1};
    const operation norms = {"norm_rotate_heads", Q_FLOATS, 50}, pooled = {"norm_rotate_key", FREE_INDEX_DIM, 2000};
    const operation several = {"scan_8_queries", (size_t)QUERIES * SOME_TILES * FREE_TILE_GROUPS, 1};
    const sums parts[] = {race(&scan, scans, 3), race(&of_row, rows, MOST_WAYS),
                          race_sources(&norms, norm_rotate, strict, loose)};
    race_sources(&several, scan_several, strict, loose);
    race_sources(&pooled, norm_rotate_key, strict, loose);
    sums all = {0, 0};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        all.strict += parts[i].strict;
        all.best += parts[i].best;
    }
    print_line(strict->isa, "all", all.strict, all.best, "each kernel's best");
}

int main(int argc, char **argv)
{
    const qsa_float_env saved = qsa_float_env_enter();
    const qsa_kernels *strict;
    int raced = 0;
    make_data();
    for (size_t i = 1; (strict = qsa_kernels_available(i)) != NULL; i++) {
        if (argc > 1 && strcmp(argv[1], strict->isa) != 0)
            continue;
        race_all(strict, free_kernels_available(i),
                 strcmp(strict->isa, "avx512") == 0 ? free_ways_avx512() : free_ways_avx2());
        raced++;
    }
    qsa_float_env_leave(saved);
    if (raced == 0)
        fprintf(stderr, "bench_strict: no such vector table runs here\n");
    return raced == 0;
}
