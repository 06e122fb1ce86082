/* SPDX-License-Identifier: Apache-2.0 */
/* What products cost on this machine beside ggml's, and beside what the machine can do at best: byte dot products from
 * registers and reading the same bytes, all measured in the same run.
 *
 * usage: bench_products [dense|experts|one|columns] [FORMAT ...]      all parts, the formats of the released recipes
 *
 * GGML_CPU_TILED_MM=0 switches ggml's tiled kernels off. QSA_ISA chooses ours. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "products/products.h"

#include <ggml-cpu.h>
#include <ggml.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const qsa_products *ours;

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

typedef void work_fn(void *context);

/* Of one thread the seconds it has run, which others on the machine disturb least; of several the time that passed. */
static double timed(work_fn *work, void *context, size_t threads)
{
    clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double begin = seconds_of(clock);
    work(context);
    return seconds_of(clock) - begin;
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "bench_products: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static float random_number(void)
{
    return (float)(int64_t)(random_next() >> 40) * 0x1p-23f - 1.0f;
}

/* ---- Two threads ---- */

enum { THREADS = 2 };

typedef struct share {
    work_fn *work;
    void *context;
} share;

static void *run_share(void *argument)
{
    share *s = argument;
    s->work(s->context);
    return NULL;
}

/* `work` on `threads` threads at once. */
static void on_threads(size_t threads, work_fn *work, void *context)
{
    share s = {work, context};
    pthread_t thread[THREADS];
    for (size_t i = 1; i < threads; i++)
        pthread_create(&thread[i], NULL, run_share, &s);
    work(context);
    for (size_t i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
}

/* ---- What the machine can do ---- */

enum { PROBE_STEPS = 4000000 };

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) static void dot_products(void *context)
{
    __m512i acc[12];
    for (int i = 0; i < 12; i++)
        acc[i] = _mm512_set1_epi32(i);
    __m512i a = _mm512_set1_epi32(*(int *)context), b = a;
    for (int step = 0; step < PROBE_STEPS; step++)
        for (int i = 0; i < 12; i++) {
            acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
            __asm__ volatile("" : "+v"(acc[i]));
        }
    for (int i = 1; i < 12; i++)
        acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    *(int *)context = _mm512_reduce_add_epi32(acc[0]);
}

/* Operations per second of byte dot products from registers; 0: not with AVX-512 here. */
static double byte_peak(void)
{
    if (!__builtin_cpu_supports("avx512vnni"))
        return 0.0;
    int seed = 1;
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        double seconds = timed(dot_products, &seed, 1);
        best = seconds < best ? seconds : best;
    }
    return 12.0 * 128.0 * PROBE_STEPS / best;
}
#else
static double byte_peak(void)
{
    return 0.0;
}
#endif

/* Bytes that are read by pieces, each by whichever thread comes first. */
typedef struct reading {
    const uint64_t *words;
    size_t count;
    atomic_size_t next;
    atomic_uint_fast64_t sum;
} reading;

static void read_pieces(void *context)
{
    enum { PIECE = 1 << 17 };
    reading *r = context;
    uint64_t sum[8] = {0};
    size_t begin;
    while ((begin = atomic_fetch_add(&r->next, PIECE)) < r->count)
        for (size_t i = begin; i < begin + PIECE; i += 8) {
            __builtin_prefetch(&r->words[i + 512]);
            for (size_t j = 0; j < 8; j++)
                sum[j] += r->words[i + j];
        }
    atomic_fetch_add(&r->sum, sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7]);
}

/* ---- A product, by us and by ggml ---- */

/* A matrix, or experts' matrices, and columns; how ours is called, and ggml's graph. */
typedef struct bench_case {
    qsa_format format;
    size_t rows, inner, columns, experts, chosen, threads;
    uint8_t *weights;
    float *x, *y, *ggml_y;
    qsa_columns prepared;
    uint32_t *first, *column;
    qsa_product product;
    atomic_size_t next, next_column;
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    struct ggml_cplan plan;
} bench_case;

/* Random weights of sane size, quantised by ggml. */
static void fill_weights(bench_case *c)
{
    size_t matrices = c->experts ? c->experts : 1, row_bytes = qsa_format_row_bytes(c->format, c->inner);
    size_t rows = matrices * c->rows;
    c->weights = allocate(rows * row_bytes);
    float *row = allocate(64 * c->inner * sizeof *row);
    for (size_t i = 0; i < 64 * c->inner; i++)
        row[i] = random_number() * 0.05f;
    float *importance = allocate(c->inner * sizeof *importance);
    for (size_t i = 0; i < c->inner; i++)
        importance[i] = 1.0f;
    size_t made = rows < 64 ? rows : 64;
    if (c->format == QSA_FORMAT_F32)
        memcpy(c->weights, row, made * row_bytes);
    else
        ggml_quantize_chunk((enum ggml_type)c->format, row, c->weights, 0, (int64_t)made, (int64_t)c->inner,
                            importance);
    for (size_t r = made; r < rows; r++)
        memcpy(c->weights + r * row_bytes, c->weights + r % made * row_bytes, row_bytes);
    free(row);
    free(importance);
}

/* Each column chooses `chosen` experts at random; pairs sorted by expert. ids [columns][chosen]. */
static void choose_experts(bench_case *c, int32_t *ids)
{
    size_t pairs = c->columns * c->chosen;
    c->first = calloc(c->experts + 1, sizeof *c->first);
    c->column = allocate(pairs * sizeof *c->column);
    for (size_t t = 0; t < c->columns; t++)
        for (size_t s = 0; s < c->chosen; s++) {
            int32_t id;
            bool taken;
            do {
                id = (int32_t)(random_next() % c->experts);
                taken = false;
                for (size_t o = 0; o < s; o++)
                    taken |= ids[t * c->chosen + o] == id;
            } while (taken);
            ids[t * c->chosen + s] = id;
        }
    size_t n = 0;
    for (size_t e = 0; e < c->experts; e++) {
        for (size_t i = 0; i < pairs; i++)
            if (ids[i] == (int32_t)e)
                c->column[n++] = (uint32_t)(i / c->chosen);
        c->first[e + 1] = (uint32_t)n;
    }
}

static void ggml_side(bench_case *c, int32_t *ids)
{
    c->context = ggml_init((struct ggml_init_params){1 << 20, NULL, true});
    int64_t inner = (int64_t)c->inner, rows = (int64_t)c->rows, columns = (int64_t)c->columns;
    struct ggml_tensor *w, *x, *y;
    if (c->experts) {
        w = ggml_new_tensor_3d(c->context, (enum ggml_type)c->format, inner, rows, (int64_t)c->experts);
        x = ggml_new_tensor_3d(c->context, GGML_TYPE_F32, inner, 1, columns);
        struct ggml_tensor *i = ggml_new_tensor_2d(c->context, GGML_TYPE_I32, (int64_t)c->chosen, columns);
        i->data = ids;
        y = ggml_mul_mat_id(c->context, w, x, i);
    } else {
        w = ggml_new_tensor_2d(c->context, (enum ggml_type)c->format, inner, rows);
        x = ggml_new_tensor_2d(c->context, GGML_TYPE_F32, inner, columns);
        y = ggml_mul_mat(c->context, w, x);
    }
    w->data = c->weights;
    x->data = c->x;
    y->data = c->ggml_y;
    c->graph = ggml_new_graph_custom(c->context, 8, false);
    ggml_build_forward_expand(c->graph, y);
    c->plan = ggml_graph_plan(c->graph, (int)c->threads, NULL);
    c->plan.work_data = allocate(c->plan.work_size + 64);
}

static bench_case *make_case(qsa_format format, size_t rows, size_t inner, size_t columns, size_t experts,
                             size_t threads)
{
    bench_case *c = calloc(1, sizeof *c);
    c->format = format, c->rows = rows, c->inner = inner, c->columns = columns, c->experts = experts;
    c->chosen = experts ? 10 : 1, c->threads = threads;
    fill_weights(c);
    c->x = allocate(columns * inner * sizeof *c->x);
    for (size_t i = 0; i < columns * inner; i++)
        c->x[i] = random_number();
    size_t results = columns * c->chosen * rows;
    c->y = allocate(results * sizeof *c->y);
    c->ggml_y = allocate(results * sizeof *c->ggml_y);
    int32_t *ids = allocate(columns * c->chosen * sizeof *ids);
    if (experts)
        choose_experts(c, ids);
    c->prepared = (qsa_columns){inner, columns, c->x, inner, allocate(qsa_columns_bytes(inner, columns))};
    c->product = (qsa_product){
        .weights = {format, rows, inner, c->weights, qsa_format_row_bytes(format, inner)},
        .columns = &c->prepared,
        .experts = experts,
        .expert_bytes = rows * qsa_format_row_bytes(format, inner),
        .first = c->first,
        .column = c->column,
        .y = c->y,
        .y_stride = rows,
    };
    ggml_side(c, ids);
    return c;
}

static void free_case(bench_case *c)
{
    free(c->weights), free(c->x), free(c->y), free(c->ggml_y), free(c->prepared.blocks), free(c->first),
        free(c->column);
    free(c->plan.work_data);
    ggml_free(c->context);
    free(c);
}

static void quantise_share(void *context)
{
    bench_case *c = context;
    size_t begin;
    while ((begin = atomic_fetch_add(&c->next_column, 8)) < c->columns)
        ours->quantise(&c->prepared, begin, begin + 8 < c->columns ? begin + 8 : c->columns);
}

static void multiply_share(void *context)
{
    bench_case *c = context;
    size_t tiles = qsa_product_tiles(&c->product), begin;
    size_t piece = tiles < 64 ? 1 : tiles / 64;
    while ((begin = atomic_fetch_add(&c->next, piece)) < tiles)
        ours->multiply(&c->product, begin, begin + piece < tiles ? begin + piece : tiles);
}

static void by_us(void *context)
{
    bench_case *c = context;
    c->next = c->next_column = 0;
    if (qsa_format_find(c->format)->quantises_columns)
        on_threads(c->threads, quantise_share, c);
    on_threads(c->threads, multiply_share, c);
}

static void by_ggml(void *context)
{
    bench_case *c = context;
    ggml_graph_compute(c->graph, &c->plan);
}

/* Seconds of the fastest of some runs, ours and ggml's in turn. */
static void race(bench_case *c, double *us, double *ggml)
{
    *us = *ggml = 1e9;
    double begin = now();
    for (int i = 0; i < 3 || now() - begin < 0.8; i++) {
        double a = timed(by_us, c, c->threads), b = timed(by_ggml, c, c->threads);
        *us = a < *us ? a : *us;
        *ggml = b < *ggml ? b : *ggml;
    }
}

/* ---- The parts ---- */

static double giga(const bench_case *c, double seconds)
{
    return 2e-9 * (double)(c->rows * c->inner) * (double)(c->columns * c->chosen) / seconds;
}

static void dense(qsa_format format)
{
    bench_case *c = make_case(format, 4096, 2560, 512, 0, 1);
    double us, ggml;
    race(c, &us, &ggml);
    printf("  %-8s %7.1f %7.1f  %5.2f\n", qsa_format_find(format)->name, giga(c, us), giga(c, ggml), ggml / us);
    free_case(c);
}

static void few_columns(qsa_format format)
{
    printf("  %-8s", qsa_format_find(format)->name);
    static const size_t counts[] = {2, 4, 8, 16, 32, 64, 128};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        bench_case *c = make_case(format, 1024, 2560, counts[i], 0, 1);
        double us, ggml;
        race(c, &us, &ggml);
        printf("  %5.1f (%4.2f)", giga(c, us), ggml / us);
        free_case(c);
    }
    printf("\n");
}

static void experts(qsa_format format)
{
    printf("  %-8s", qsa_format_find(format)->name);
    for (int down = 0; down < 2; down++) {
        size_t inner = down ? 640 : 2560;
        if (inner % qsa_format_find(format)->block_weights != 0)
            continue;
        bench_case *c = make_case(format, down ? 2560 : 640, inner, 512, 512, 1);
        double us, ggml;
        race(c, &us, &ggml);
        printf("  %7.1f %7.1f  %5.2f", giga(c, us), giga(c, ggml), ggml / us);
        free_case(c);
    }
    printf("\n");
}

/* One column with a matrix that no cache holds. */
static void one_column(qsa_format format)
{
    enum { BYTES = 512 << 20 };
    size_t inner = 2560, row_bytes = qsa_format_row_bytes(format, inner), rows = BYTES / row_bytes / 64 * 64;
    bench_case *c = make_case(format, rows, inner, 1, 0, THREADS);
    reading r = {.words = (const uint64_t *)(const void *)c->weights, .count = (rows * row_bytes >> 20 << 20) / 8};
    double us = 1e9, ggml = 1e9, bytes = 1e9;
    for (int i = 0; i < 5; i++) {
        double a = timed(by_us, c, c->threads), b = timed(by_ggml, c, c->threads);
        atomic_store(&r.next, 0);
        double begin = now();
        on_threads(THREADS, read_pieces, &r);
        double d = (now() - begin) * (double)(rows * row_bytes) / (8.0 * (double)r.count);
        us = a < us ? a : us, ggml = b < ggml ? b : ggml, bytes = d < bytes ? d : bytes;
    }
    double size = 1e-9 * (double)(rows * row_bytes);
    printf("  %-8s %6.1f %6.1f %6.1f  %5.2f  %5.2f\n", qsa_format_find(format)->name, size / us, size / ggml,
           size / bytes, bytes / us, ggml / us);
    free_case(c);
}

typedef struct part {
    const char *name, *title;
    void (*run)(qsa_format format);
} part;

static const part parts[] = {
    {"dense", "4096 x 2560, 512 columns, one thread: GFLOP/s ours, ggml; ggml's time / ours", dense},
    {"columns", "1024 x 2560, 2 4 8 16 32 64 128 columns, one thread: GFLOP/s ours (ggml's time / ours)", few_columns},
    {"experts",
     "512 experts of 640 x 2560, then of 2560 x 640, ten chosen, 512 tokens, one thread: GFLOP/s ours, mul_mat_id; "
     "its time / ours",
     experts},
    {"one", "one column, 512 MiB, two threads: GB/s ours, ggml, reading; reading's time / ours, ggml's / ours",
     one_column},
};

static bool wanted_format(int argc, char **argv, int first, const char *name)
{
    static const char *const usual[] = {"q8_0", "q4_0", "iq4_nl", "q5_1", "q4_K", "q6_K"};
    for (int i = first; i < argc; i++)
        if (strcmp(argv[i], name) == 0 || strcmp(argv[i], "all") == 0)
            return true;
    for (size_t i = 0; first >= argc && i < sizeof usual / sizeof usual[0]; i++)
        if (strcmp(usual[i], name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const char *wanted_isa;
    ours = qsa_products_choose(&wanted_isa);
    if (!ours) {
        fprintf(stderr, "bench_products: QSA_ISA=%s cannot run here\n", wanted_isa);
        return 1;
    }
    const char *only = NULL;
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
        if (argc > 1 && strcmp(argv[1], parts[p].name) == 0)
            only = parts[p].name;
    ggml_cpu_init();
    printf("%s; byte dot products from registers: %.0f GOP/s a core\n", ours->variant, 1e-9 * byte_peak());
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        if (only && strcmp(only, parts[p].name) != 0)
            continue;
        printf("%s\n", parts[p].title);
        for (uint32_t type = 0; type < QSA_FORMAT_END; type++) {
            const qsa_format_facts *facts = qsa_format_find(type);
            if (facts && wanted_format(argc, argv, only ? 2 : 1, facts->name)) {
                parts[p].run((qsa_format)type);
                fflush(stdout);
            }
        }
    }
    return 0;
}
