/* SPDX-License-Identifier: Apache-2.0 */
/* What each kernel costs on this machine at Qwen3.8-Flash-Next's shape, one thread, for every instruction set that runs
 * here, beside the machine's peak.
 *
 * usage: bench_kernels [--json] [ISA]      all instruction sets, or one */
#include "kernels/kernels.h"

#include "base/elementary.h"
#include "base/float_env.h"
#include "bench/cases.h"
#include "select/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    TILES = 4096, /* 65,536 groups: 262,144 tokens */
    LAYERS = 12,  /* whose index keys are scanned in turn, so that they come from memory */
    BUDGET_GROUPS = 512,
    PREFILL_QUERIES = 8
};

static const char *const TYPES[QSA_ELEMENT_COUNT] = {"f32", "bf16", "f16", "q8_0"};

/* ---- memory ---- */

static void *allocate(size_t size_bytes)
{
    void *memory = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "bench_kernels: no memory for %zu bytes\n", size_bytes);
        exit(1);
    }
    return memory;
}

static uint32_t next_random(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
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

/* `count` rows of `dim` elements, or blocks of four tokens as so many. Two bytes of f16 or q8_0 are 0x2c.. or 0xac..:
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

/* ---- instruction sets ---- */

static const char *only; /* the one to measure; NULL: all */

/* Table number i of those to measure; NULL past the last. */
static const qsa_kernels *table(size_t i)
{
    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++)
        if ((!only || strcmp(only, k->isa) == 0) && i-- == 0)
            return k;
    return NULL;
}

static void run_all(bench_cases *cases, bench_case *table, size_t n, const char *type, const char *isa)
{
    for (size_t i = 0; i < n; i++) {
        table[i].type = type;
        table[i].isa = isa;
        bench_cases_run(cases, &table[i]);
    }
}

/* ---- attention of one query: 24 heads, 2,051 tokens ---- */

typedef struct row {
    const qsa_kernels *kernels;
    enum qsa_element type;
    float *q, *x, *sum, *out;
    char *k[KV_HEADS], *v[KV_HEADS]; /* of the whole cache */
    const void **blocks[KV_HEADS], **rows[KV_HEADS];
    size_t first; /* block of the next cold row */
} row;

static void row_qk(void *context)
{
    const row *r = context;
    for (int g = 0; g < KV_HEADS; g++)
        r->kernels->qk(&(qsa_qk_call){r->q + (size_t)g * GROUP_HEADS * DIM, GROUP_HEADS, DIM, r->blocks[g], ROW_BLOCKS,
                                      r->x + (size_t)g * GROUP_HEADS * ROW_STRIDE, ROW_STRIDE},
                       r->type);
}

static void row_softmax(void *context)
{
    const row *r = context;
    for (int g = 0; g < KV_HEADS; g++)
        r->kernels->softmax(&(qsa_softmax_call){r->x + (size_t)g * GROUP_HEADS * ROW_STRIDE, ROW_STRIDE, GROUP_HEADS,
                                                ROW_TOKENS, r->sum + g * GROUP_HEADS});
}

static void row_pv(void *context)
{
    const row *r = context;
    for (int g = 0; g < KV_HEADS; g++)
        r->kernels->pv(&(qsa_pv_call){.p = r->x + (size_t)g * GROUP_HEADS * ROW_STRIDE,
                                      .stride = ROW_STRIDE,
                                      .sum = r->sum + g * GROUP_HEADS,
                                      .heads = GROUP_HEADS,
                                      .dim = DIM,
                                      .n = ROW_TOKENS,
                                      .v = r->rows[g],
                                      .out = r->out + (size_t)g * GROUP_HEADS * DIM,
                                      .out_stride = DIM},
                       r->type);
}

static void row_all(void *context)
{
    row_qk(context);
    row_softmax(context);
    row_pv(context);
}

/* Points the row at every spread-th block of the cache, from block `first` on. */
static void aim(row *r, size_t spread, size_t first)
{
    const size_t token_bytes = qsa_row_bytes(r->type, DIM);
    for (int g = 0; g < KV_HEADS; g++)
        for (size_t b = 0; b < ROW_BLOCKS; b++) {
            const size_t token = (b * spread + first) % CACHE_BLOCKS * QSA_BLOCK_TOKENS;
            r->blocks[g][b] = r->k[g] + token * token_bytes;
            for (size_t t = 0; t < QSA_BLOCK_TOKENS; t++)
                r->rows[g][b * QSA_BLOCK_TOKENS + t] = r->v[g] + (token + t) * token_bytes;
        }
}

/* A row that shares no block with those before. */
static void aim_cold(void *context)
{
    enum { SPREAD = CACHE_BLOCKS / ROW_BLOCKS };
    row *r = context;
    aim(r, SPREAD, r->first++ % SPREAD);
}

static row open_row(enum qsa_element type)
{
    const size_t tokens = (size_t)CACHE_BLOCKS * QSA_BLOCK_TOKENS;
    row r = {.type = type, .q = random_floats((size_t)Q_HEADS * DIM)};
    r.x = random_floats((size_t)Q_HEADS * ROW_STRIDE);
    r.sum = random_floats(Q_HEADS);
    r.out = random_floats((size_t)Q_HEADS * DIM);
    for (int g = 0; g < KV_HEADS; g++) {
        r.k[g] = random_rows(type, tokens, DIM);
        r.v[g] = random_rows(type, tokens, DIM);
        r.blocks[g] = allocate(ROW_BLOCKS * sizeof(void *));
        r.rows[g] = allocate(ROW_STRIDE * sizeof(void *));
    }
    return r;
}

static void close_row(row *r)
{
    for (int g = 0; g < KV_HEADS; g++) {
        free(r->k[g]);
        free(r->v[g]);
        free(r->blocks[g]);
        free(r->rows[g]);
    }
    free(r->q);
    free(r->x);
    free(r->sum);
    free(r->out);
}

static void bench_row(bench_cases *cases, enum qsa_element type)
{
    row r = open_row(type);
    const double operations = 2.0 * ROW_TOKENS * Q_HEADS * DIM; /* of QK^T, and of PV */
    const double bytes = 2.0 * ROW_TOKENS * KV_HEADS * (double)qsa_row_bytes(type, DIM);
    bench_case hot[] = {{.name = "qk_hot", .operations = operations, .run = row_qk, .context = &r},
                        {.name = "softmax_hot", .run = row_softmax, .context = &r},
                        {.name = "pv_hot", .operations = operations, .run = row_pv, .context = &r},
                        {.name = "row_hot", .operations = 2 * operations, .run = row_all, .context = &r}};
    bench_case cold = {.name = "row_cold",
                       .bytes = bytes,
                       .operations = 2 * operations,
                       .run = row_all,
                       .before = aim_cold,
                       .context = &r};
    for (size_t i = 0; (r.kernels = table(i)) != NULL; i++) {
        aim(&r, 1, 0);
        run_all(cases, hot, sizeof hot / sizeof *hot, TYPES[type], r.kernels->isa);
        run_all(cases, &cold, 1, TYPES[type], r.kernels->isa);
    }
    close_row(&r);
}

/* ---- indexer scores of one layer at 262,144 tokens ---- */

typedef struct scan {
    const qsa_kernels *kernels;
    enum qsa_element type;
    char *keys; /* [LAYERS][TILES] tiles */
    float *q, *out;
    const void **tiles;
    size_t layer;
} scan;

static void score(const scan *s, uint32_t queries)
{
    const qsa_score_call call = {s->q, queries, INDEX_HEADS, INDEX_DIM, s->tiles, TILES, TILE_GROUPS, s->out};
    s->kernels->score(&call, s->type);
}

static void score_one(void *context)
{
    score(context, 1);
}

static void score_several(void *context)
{
    score(context, PREFILL_QUERIES);
}

/* To another layer's keys. */
static void aim_scan(void *context)
{
    scan *s = context;
    const size_t tile_bytes = TILE_GROUPS * qsa_row_bytes(s->type, INDEX_DIM);
    s->layer = (s->layer + 1) % LAYERS;
    for (size_t t = 0; t < TILES; t++)
        s->tiles[t] = s->keys + (s->layer * TILES + t) * tile_bytes;
}

static void bench_scan(bench_cases *cases, enum qsa_element type)
{
    const size_t groups = (size_t)TILES * TILE_GROUPS;
    const double operations = 2.0 * (double)groups * INDEX_HEADS * INDEX_DIM;
    const double bytes = (double)groups * (double)qsa_row_bytes(type, INDEX_DIM);
    scan s = {.type = type, .q = random_floats((size_t)PREFILL_QUERIES * INDEX_HEADS * INDEX_DIM)};
    s.keys = random_rows(type, LAYERS * groups, INDEX_DIM);
    s.out = random_floats(PREFILL_QUERIES * groups);
    s.tiles = allocate(TILES * sizeof(void *));
    bench_case scans[] = {
        {.name = "scan_1_query", .bytes = bytes, .operations = operations, .run = score_one},
        {.name = "scan_8_queries", .bytes = bytes, .operations = PREFILL_QUERIES * operations, .run = score_several}};
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
        scans[i].before = aim_scan;
        scans[i].context = &s;
    }
    for (size_t i = 0; (s.kernels = table(i)) != NULL; i++)
        run_all(cases, scans, sizeof scans / sizeof *scans, TYPES[type], s.kernels->isa);
    free(s.keys);
    free(s.q);
    free(s.out);
    free(s.tiles);
}

/* ---- selection of 512 groups from the scores of 65,536 ---- */

typedef struct choice {
    const qsa_kernels *kernels;
    float *scores;
    qsa_candidate *buffer;
} choice;

static void choose(void *context)
{
    const choice *c = context;
    qsa_selection selection;
    qsa_selection_begin(&selection, c->kernels, c->buffer, qsa_selection_capacity(BUDGET_GROUPS), BUDGET_GROUPS);
    qsa_selection_offer(&selection, c->scores, 0, TILES * TILE_GROUPS);
    qsa_selection_shrink(&selection);
}

static void bench_choice(bench_cases *cases)
{
    choice c = {.scores = random_floats((size_t)TILES * TILE_GROUPS)};
    bench_case select = {.name = "select_512_of_65536", .run = choose, .context = &c};
    for (size_t i = 0; i < (size_t)TILES * TILE_GROUPS; i++)
        c.scores[i] = c.scores[i] < 0 ? 0 : c.scores[i] * 100;
    c.buffer = allocate(qsa_selection_capacity(BUDGET_GROUPS) * sizeof *c.buffer);
    for (size_t i = 0; (c.kernels = table(i)) != NULL; i++)
        run_all(cases, &select, 1, TYPES[QSA_ELEMENT_F32], c.kernels->isa);
    free(c.scores);
    free(c.buffer);
}

/* ---- a token's vectors: 24 heads ---- */

typedef struct vectors {
    const qsa_kernels *kernels;
    float *x, *weight, *cos, *sin, *out;
    uint16_t *bf16;
    size_t first_bad; /* keeps the check's result alive */
} vectors;

static void norm_rotate(const vectors *v, bool is_bf16)
{
    const qsa_norm_rotate_call call = {.x = v->x,
                                       .stride = DIM,
                                       .heads = Q_HEADS,
                                       .dim = DIM,
                                       .weight = v->weight,
                                       .eps = 1e-6f,
                                       .bf16 = is_bf16,
                                       .pairs = PAIRS,
                                       .cos = v->cos,
                                       .sin = v->sin,
                                       .out = v->out};
    v->kernels->norm_rotate(&call);
}

static void norm_rotate_f32(void *context)
{
    norm_rotate(context, false);
}

static void norm_rotate_bf16(void *context)
{
    norm_rotate(context, true);
}

static void check_finite(void *context)
{
    vectors *v = context;
    v->first_bad = v->kernels->check(v->x, (size_t)Q_HEADS * DIM, 0x1p56f);
}

static void round_to_bf16(void *context)
{
    const vectors *v = context;
    v->kernels->to_bf16(v->x, (size_t)Q_HEADS * DIM, v->bf16);
}

static void bench_vectors(bench_cases *cases)
{
    const size_t count = (size_t)Q_HEADS * DIM;
    vectors v = {.x = random_floats(count), .weight = random_floats(DIM), .cos = random_floats(PAIRS)};
    v.sin = random_floats(PAIRS);
    v.out = random_floats(count);
    v.bf16 = allocate(count * sizeof *v.bf16);
    bench_case f32[] = {{.name = "norm_rotate", .run = norm_rotate_f32, .context = &v},
                        {.name = "check_finite", .run = check_finite, .context = &v}};
    bench_case bf16[] = {{.name = "norm_rotate", .run = norm_rotate_bf16, .context = &v},
                         {.name = "round", .run = round_to_bf16, .context = &v}};
    for (size_t i = 0; (v.kernels = table(i)) != NULL; i++) {
        run_all(cases, f32, sizeof f32 / sizeof *f32, TYPES[QSA_ELEMENT_F32], v.kernels->isa);
        run_all(cases, bf16, sizeof bf16 / sizeof *bf16, TYPES[QSA_ELEMENT_BF16], v.kernels->isa);
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
    const bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    only = argc > 1 + is_json ? argv[1 + is_json] : NULL;
    if (!table(0)) {
        fprintf(stderr, "bench_kernels: no kernels '%s' here\n", only);
        return 2;
    }
    const qsa_float_env saved = qsa_float_env_enter();
    bench_cases cases;
    bench_cases_open(&cases, is_json, "kernels at Qwen3.8-Flash-Next's shape, one thread");
    for (int type = 0; type < QSA_INDEX_ELEMENT_COUNT; type++)
        bench_scan(&cases, (enum qsa_element)type);
    bench_choice(&cases);
    for (int type = 0; type < QSA_ELEMENT_COUNT; type++)
        bench_row(&cases, (enum qsa_element)type);
    bench_vectors(&cases);
    bench_cases_close(&cases);
    qsa_float_env_leave(saved);
    return 0;
}
