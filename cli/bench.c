/* SPDX-License-Identifier: Apache-2.0 */
/* qsa bench: what one QSA layer of the released shape costs on this machine, beside what the machine can do at best,
 * measured in the same run. */
#include "clock.h"
#include "commands.h"
#include "lane_case.h"
#include "memory.h"
#include "options.h"
#include "probe.h"

#include <inttypes.h>
#include <jansson.h>
#include <qsa/qsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 2048,                    /* tokens of a step that stores */
    INPUT_TOKENS = 2 * CHUNK,        /* inputs that are fed over and over, from changing places */
    PROBE_BYTES = 512 * 1024 * 1024, /* read before each decode step: what it reads then comes from memory */
    SAMPLES = 41,
    QUICK_SAMPLES = 11,
    WARM_STEPS = 8,
    SHALLOW = 32768,
    DEEP = 262144
};

/* ---- the command line ---- */

typedef struct request {
    bool json, quick, help;
    uint32_t threads;
} request;

static const char USAGE[] =
    "usage: qsa bench [--json] [--quick] [-t N]\n"
    "\n"
    "Measures one QSA layer of the shape of Qwen3.8-Flash-Next: a decode step at 262,144 tokens beside reading its\n"
    "bytes, prompts beside the multiply-adds they need, allocations of warm steps, working memory.\n"
    "\n"
    "  --json             one JSON object per line\n"
    "  --quick            at 32,768 tokens, fewer samples\n"
    "  -t, --threads N    1 to 1024; default 2\n"
    "  -h, --help         this text\n";

static bool parse(int argc, char **argv, request *r)
{
    static const struct option longs[] = {{"json", no_argument, NULL, 256},
                                          {"quick", no_argument, NULL, 257},
                                          {"threads", required_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const options o = {"bench", argc, argv, "t:h", longs, NULL};
    *r = (request){.threads = 2};
    for (int option; (option = options_next(&o)) != -1;) {
        if (option == '?' || (option == 't' && !options_count(&o, option, 1, QSA_MAX_PARTS, &r->threads)))
            return false;
        r->json |= option == 256;
        r->quick |= option == 257;
        r->help |= option == 'h';
    }
    return true;
}

/* ---- figures ---- */

typedef struct figure {
    const char *name, *unit, *meaning;
    double value;
    double ratio; /* to the best the machine can do; 0: none */
    double limit; /* of the ratio, or of the value where there is no ratio; negative: none */
} figure;

static void print_json(const figure *f)
{
    json_t *object =
        json_pack("{s:s, s:f, s:s, s:s}", "name", f->name, "value", f->value, "unit", f->unit, "meaning", f->meaning);
    if (f->ratio > 0)
        json_object_set_new(object, "ratio", json_real(f->ratio));
    if (f->limit >= 0)
        json_object_set_new(object, "limit", json_real(f->limit));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
}

static void print_row(const figure *f)
{
    char value[32], ratio[32] = "", limit[64] = "";
    const double judged = f->ratio > 0 ? f->ratio : f->value;
    if (f->ratio > 0)
        snprintf(ratio, sizeof ratio, "%.2f x", f->ratio);
    if (f->limit >= 0)
        snprintf(limit, sizeof limit, "at most %g: %s", f->limit, judged <= f->limit ? "met" : "NOT MET");
    snprintf(value, sizeof value, f->value < 1000 ? "%.4g" : "%.0f", f->value);
    printf("%-22s %10s %-10s %9s  %-22s %s\n", f->name, value, f->unit, ratio, limit, f->meaning);
}

static void print_figure(const request *r, figure f)
{
    if (r->json)
        print_json(&f);
    else
        print_row(&f);
    fflush(stdout);
}

/* ---- a layer with a history ---- */

typedef struct bench {
    const request *r;
    qsa_config config;
    qsa_cache *cache;
    qsa_threads *threads;
    qsa_seq seq;
    uint32_t tokens;      /* stored */
    uint64_t allocations; /* calls of the cache's allocator */
    float *inputs[5], *output;
    probe probe;
    double read_rate; /* bytes per second */
    double fma_rate;  /* multiply-adds per second */
} bench;

/* ---- an allocator that counts ---- */

static void *counting_allocate(void *context, size_t size_bytes, size_t alignment)
{
    uint64_t *calls = context;
    ++*calls;
    return aligned_alloc(alignment, (size_bytes + alignment - 1) / alignment * alignment);
}

static void counting_release(void *context, void *memory, size_t size_bytes)
{
    (void)context, (void)size_bytes;
    free(memory);
}

static bool good(qsa_status status)
{
    if (status != QSA_OK)
        options_say("bench", "%s: %s", qsa_status_name(status), qsa_error_detail());
    return status == QSA_OK;
}

static float *random_inputs(uint64_t stream, size_t per_token)
{
    float *numbers = memory_new(INPUT_TOKENS * per_token, sizeof *numbers);
    for (size_t i = 0; i < INPUT_TOKENS * per_token; i++)
        numbers[i] = lane_value(stream, i);
    return numbers;
}

static bool open_bench(bench *b, const request *r, uint32_t depth)
{
    *b = (bench){.r = r};
    qsa_config *c = &b->config;
    qsa_config_init(c);
    c->layers = 1;
    c->capacity_tokens = depth;
    c->max_step_tokens = CHUNK;
    c->max_parts = r->threads;
    const qsa_allocator counting = {counting_allocate, counting_release, &b->allocations};
    c->allocator = &counting;
    const size_t sizes[5] = {(size_t)c->q_heads * c->head_dim, (size_t)c->kv_heads * c->head_dim,
                             (size_t)c->kv_heads * c->head_dim, (size_t)c->index_heads * c->index_dim, c->index_dim};
    for (int i = 0; i < 5; i++)
        b->inputs[i] = random_inputs(200 + (uint64_t)i, sizes[i]);
    b->output = memory_new(CHUNK * sizes[0], sizeof *b->output);
    probe_open(&b->probe, r->threads, r->quick ? PROBE_BYTES / 4 : PROBE_BYTES);
    return good(qsa_cache_create(c, &b->cache)) && good(qsa_seq_open(b->cache, &b->seq)) &&
           good(qsa_threads_create(r->threads, &b->threads));
}

static void close_bench(bench *b)
{
    for (int i = 0; i < 5; i++)
        free(b->inputs[i]);
    free(b->output);
    probe_close(&b->probe);
    qsa_threads_destroy(b->threads);
    qsa_cache_destroy(b->cache);
}

/* The next n tokens, with or without output; *out_seconds of the whole step. */
static bool feed(bench *b, uint32_t n, bool wants_output, double *out_seconds)
{
    const qsa_config *c = &b->config;
    const size_t place = b->tokens / CHUNK * 37 % CHUNK; /* so that not every chunk is the same */
    const size_t q = (size_t)c->q_heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
    const size_t index_q = (size_t)c->index_heads * c->index_dim;
    const qsa_tensors tensors = {.q = {b->inputs[0] + place * q, q, c->head_dim},
                                 .k = {b->inputs[1] + place * kv, kv, c->head_dim},
                                 .v = {b->inputs[2] + place * kv, kv, c->head_dim},
                                 .index_q = {b->inputs[3] + place * index_q, index_q, c->index_dim},
                                 .raw_key = {b->inputs[4] + place * c->index_dim, c->index_dim, 0}};
    const qsa_output out = {wants_output ? b->output : NULL, q, c->head_dim};
    const qsa_entry entry = {.seq = b->seq, .position = b->tokens, .tokens = n};
    qsa_step *step;
    const double begin = clock_seconds();
    if (!good(qsa_step_begin(b->cache, &entry, 1, &step)))
        return false;
    if (!good(qsa_threads_layer(b->threads, step, 0, &tensors, &out))) {
        qsa_step_abort(step);
        return false;
    }
    b->tokens += n;
    const bool is_committed = good(qsa_step_commit(step, NULL));
    *out_seconds = clock_seconds() - begin;
    return is_committed;
}

static bool store_up_to(bench *b, uint32_t tokens)
{
    double ignored;
    while (b->tokens < tokens) {
        const uint32_t n = tokens - b->tokens < CHUNK ? tokens - b->tokens : CHUNK;
        if (!feed(b, n, false, &ignored))
            return false;
    }
    return true;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[n / 2];
}

/* ---- the figures ---- */

/* Bytes that a decode step of the layer has to read: every pooled key, and K and V of its row. */
static double decode_bytes(const qsa_config *c, uint32_t tokens)
{
    const uint32_t groups = tokens / c->ratio;
    const double pooled = (double)groups * c->index_dim * 2;
    const double row = (double)(c->budget + tokens % c->ratio) * c->kv_heads * c->head_dim * 2 * 2;
    return pooled + row;
}

/* Decode steps, each after a pass of the probe, whose median gives the rate of reading. */
static bool bench_decode(bench *b)
{
    const int samples = b->r->quick ? QUICK_SAMPLES : SAMPLES;
    double steps[SAMPLES], passes[SAMPLES];
    for (int i = 0; i < samples; i++) {
        passes[i] = probe_read(&b->probe);
        if (!feed(b, 1, true, &steps[i]))
            return false;
    }
    b->read_rate = (double)b->probe.count * 8 / median(passes, samples);
    const double seconds = median(steps, samples), bytes = decode_bytes(&b->config, b->tokens);
    print_figure(b->r, (figure){"read_rate", "GB/s", "reading memory, all threads", b->read_rate / 1e9, 0, -1});
    print_figure(b->r, (figure){"decode_step", "ms", "one token of one layer, from cold memory, to reading its bytes",
                                seconds * 1e3, seconds * b->read_rate / bytes, 3});
    print_figure(b->r, (figure){"decode_depth", "tokens", "stored when it was measured", b->tokens, 0, -1});
    print_figure(b->r, (figure){"decode_bytes", "MB", "that it has to read", bytes / 1e6, 0, -1});
    return true;
}

/* Multiply-adds of n queries that end at `tokens`: scores, then q.k and p.v over a row that is full. */
static double prefill_fmas(const qsa_config *c, uint32_t tokens, uint32_t n)
{
    const uint32_t middle = tokens - n / 2;
    const double groups = (double)middle / c->ratio;
    const double scan = n * groups * c->index_heads * c->index_dim;
    return scan + (double)n * c->budget * c->q_heads * c->head_dim * 2;
}

static bool rewind_to(bench *b, uint32_t tokens)
{
    b->tokens = tokens;
    return good(qsa_seq_rewind(b->cache, b->seq, tokens));
}

static bool bench_prefill(bench *b, uint32_t tokens, const char *name)
{
    enum { QUERIES = 512, RUNS = 3 };
    double seconds[RUNS];
    if (!store_up_to(b, tokens - QUERIES))
        return false;
    for (int i = 0; i < RUNS; i++)
        if (!feed(b, QUERIES, true, &seconds[i]) || !rewind_to(b, tokens - QUERIES))
            return false;
    const double time = median(seconds, RUNS);
    print_figure(
        b->r, (figure){name, "us/token", "one layer, 512 tokens at a time, to its multiply-adds", time / QUERIES * 1e6,
                       b->fma_rate > 0 ? time * b->fma_rate / prefill_fmas(&b->config, tokens, QUERIES) : 0, -1});
    return true;
}

static bool bench_store(bench *b, uint32_t tokens)
{
    const uint32_t from = b->tokens;
    const double begin = clock_seconds();
    if (!store_up_to(b, tokens))
        return false;
    if (tokens > from)
        print_figure(b->r, (figure){"store", "us/token", "one layer, stored and pooled without output",
                                    (clock_seconds() - begin) / (tokens - from) * 1e6, 0, -1});
    return true;
}

static bool bench_allocations(bench *b)
{
    const uint64_t before = b->allocations;
    double ignored;
    for (int i = 0; i < WARM_STEPS; i++)
        if (!feed(b, 1, true, &ignored))
            return false;
    print_figure(b->r, (figure){"warm_allocations", "calls", "of the allocator in eight warm steps",
                                (double)(b->allocations - before), 0, 0});
    return true;
}

static bool bench_memory(const bench *b)
{
    qsa_config config = b->config;
    qsa_memory_plan plan;
    config.layers = 12;
    config.capacity_tokens = DEEP;
    if (!good(qsa_plan_memory(&config, &plan)))
        return false;
    print_figure(b->r, (figure){"scratch", "MiB", "working memory at 262,144 tokens and 2,048 queries",
                                (double)plan.scratch_bytes / 1048576, 0, 64});
    print_figure(b->r, (figure){"bytes_per_token", "bytes", "K/V and index of 12 layers in bf16",
                                (double)plan.bytes_per_token, 0, -1});
    return true;
}

static bool run_bench(bench *b, uint32_t depth)
{
    b->fma_rate = probe_fma_rate(b->r->threads);
    if (b->fma_rate > 0)
        print_figure(b->r, (figure){"fma_rate", "GFMA/s", "multiply-adds from registers, all threads",
                                    b->fma_rate / 1e9, 0, -1});
    const uint32_t steps = SAMPLES + WARM_STEPS; /* after which the depth is reached */
    return bench_memory(b) && bench_prefill(b, SHALLOW, "prefill_32768") && bench_store(b, depth - steps) &&
           bench_allocations(b) && bench_decode(b) &&
           (b->r->quick || (rewind_to(b, depth - CHUNK) && bench_prefill(b, depth, "prefill_262144")));
}

int cmd_bench(int argc, char **argv)
{
    request r;
    if (!parse(argc, argv, &r))
        return EXIT_USAGE;
    if (r.help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    bench b;
    const uint32_t depth = r.quick ? SHALLOW : DEEP;
    if (!r.json)
        printf("%-22s %10s %-10s %9s  %-22s %s\n", "figure", "value", "unit", "ratio", "", "");
    const bool is_good = open_bench(&b, &r, depth) && run_bench(&b, depth);
    close_bench(&b);
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
