/* SPDX-License-Identifier: Apache-2.0 */
#include "model/grouped.h"

#include "model/elementwise.h"
#include "model/lone_product.h"

#include <assert.h>
#include <stdatomic.h>

/* A piece of a product. Its rows and columns stay in the second-level cache. */
enum { PIECE_ROWS = 256, PIECE_COLUMNS = 128 };

/* ---- order ---- */

/* The i32 tensor begins with this; then come first, pair and place. */
typedef struct groups_head {
    int32_t experts, pairs;
    atomic_uint taken[GROUPED_PRODUCTS]; /* pieces of each product that parts have begun */
} groups_head;

enum { HEAD_WORDS = sizeof(groups_head) / sizeof(int32_t) };

static int32_t *groups_first(const struct ggml_tensor *groups)
{
    return (int32_t *)groups->data + HEAD_WORDS;
}

static atomic_uint *pieces_taken(const struct ggml_tensor *groups, uint32_t product)
{
    return &((groups_head *)groups->data)->taken[product];
}

grouping grouping_of(const struct ggml_tensor *groups)
{
    const groups_head *head = groups->data;
    grouping g = {.first = groups_first(groups)};
    g.pair = g.first + head->experts + 1;
    g.place = g.pair + head->pairs;
    return g;
}

/* A counting sort; pairs of one expert stay in order. */
static void run_group(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)nth;
    if (ith != 0)
        return;
    const int32_t experts = *(const int32_t *)user, *chosen = out->src[0]->data;
    const int32_t pairs = (int32_t)ggml_nelements(out->src[0]);
    int32_t *first = groups_first(out), *pair = first + experts + 1, *place = pair + pairs;
    groups_head *head = out->data;
    head->experts = experts;
    head->pairs = pairs;
    for (int i = 0; i < GROUPED_PRODUCTS; i++)
        atomic_store(&head->taken[i], 0);
    memset(first, 0, ((size_t)experts + 1) * sizeof *first);
    for (int32_t p = 0; p < pairs; p++)
        first[chosen[p] + 1]++;
    for (int32_t e = 0; e < experts; e++)
        first[e + 1] += first[e];
    for (int32_t p = 0; p < pairs; p++) {
        place[p] = first[chosen[p]]++;
        pair[place[p]] = p;
    }
    /* Each first has become the next one's. */
    memmove(first + 1, first, (size_t)experts * sizeof *first);
    first[0] = 0;
}

struct ggml_tensor *group_pairs(graph_builder *b, struct ggml_tensor *chosen, uint32_t experts)
{
    const int32_t count = (int32_t)experts;
    const int64_t size = HEAD_WORDS + experts + 1 + 2 * ggml_nelements(chosen);
    return ggml_custom_4d(b->context, GGML_TYPE_I32, size, 1, 1, 1, &chosen, 1, run_group, 1,
                          keep_params(b, &count, sizeof count));
}

/* ---- columns ---- */

typedef struct columns_params {
    enum ggml_type matrix;
} columns_params;

/* Columns of the pairs and LEAST_COLUMNS - 1 more, which fill up a product with the last ones: zeros. */
static struct ggml_tensor *columns(graph_builder *b, struct ggml_tensor *weights, int64_t pairs,
                                   struct ggml_tensor **sources, int source_count, ggml_custom_op_t run)
{
    const columns_params params = {weights->type};
    return ggml_custom_4d(b->context, column_type(weights->type), weights->ne[0], pairs + LEAST_COLUMNS - 1, 1, 1,
                          sources, source_count, run, GGML_N_TASKS_MAX, keep_params(b, &params, sizeof params));
}

static size_t pairs_of(const struct ggml_tensor *columns)
{
    return (size_t)columns->ne[1] - (LEAST_COLUMNS - 1);
}

static char *column_at(const struct ggml_tensor *columns, size_t i)
{
    return (char *)columns->data + i * columns->nb[1];
}

static void clear_more(struct ggml_tensor *out, int ith)
{
    if (ith == 0)
        memset(column_at(out, pairs_of(out)), 0, (LEAST_COLUMNS - 1) * out->nb[1]);
}

static void run_group_columns(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const enum ggml_type matrix = ((const columns_params *)user)->matrix;
    const struct ggml_tensor *x = out->src[0];
    const size_t pairs = pairs_of(out), used = pairs / (size_t)x->ne[1];
    const int32_t *pair = grouping_of(out->src[1]).pair;
    const share work = share_of(pairs, ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const float *from = (const float *)x->data + (size_t)pair[i] / used * (size_t)x->ne[0];
        convert_column(matrix, from, column_at(out, i), x->ne[0]);
    }
    clear_more(out, ith);
}

struct ggml_tensor *group_columns(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *x,
                                  struct ggml_tensor *groups)
{
    struct ggml_tensor *sources[] = {x, groups};
    return columns(b, weights, x->ne[1] * b->shape->experts_used, sources, 2, run_group_columns);
}

/* Elements that are computed before they are converted: a multiple of every type's block. */
enum { RUN = 1024 };

static void run_swiglu_columns(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const enum ggml_type matrix = ((const columns_params *)user)->matrix;
    const struct ggml_tensor *gate = out->src[0], *up = out->src[1];
    const size_t width = (size_t)out->ne[0], fused = up == NULL ? width : 0;
    const share work = share_of(pairs_of(out), ith, nth);
    up = up == NULL ? gate : up;
    for (size_t i = work.begin; i < work.end; i++) {
        const float *g = (const float *)gate->data + i * (size_t)gate->ne[0];
        const float *u = (const float *)up->data + i * (size_t)up->ne[0] + fused;
        for (size_t begin = 0; begin < width; begin += RUN) {
            const size_t n = width - begin < RUN ? width - begin : RUN;
            float said[RUN];
            for (size_t j = 0; j < n; j++)
                said[j] = g[begin + j] * sigmoid_f32(g[begin + j]) * u[begin + j];
            convert_column(matrix, said, column_at(out, i) + ggml_row_size(out->type, (int64_t)begin), (int64_t)n);
        }
    }
    clear_more(out, ith);
}

struct ggml_tensor *swiglu_columns(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *gate,
                                   struct ggml_tensor *up)
{
    struct ggml_tensor *sources[] = {gate, up};
    return columns(b, weights, gate->ne[1], sources, up == NULL ? 1 : 2, run_swiglu_columns);
}

/* ---- products ---- */

typedef struct product_params {
    lone_products *products;
    size_t least_columns;
    uint32_t number; /* of the product, among those of one grouping */
} product_params;

/* Rows [row, row + rows) of an expert's matrix with the columns at [place, place + n). */
typedef struct piece {
    size_t expert, row, rows, place, n;
} piece;

static void run_piece(struct ggml_tensor *out, int ith, const product_params *run, const piece *p)
{
    const struct ggml_tensor *weights = out->src[0], *columns = out->src[1];
    const size_t stride = (size_t)out->ne[0];
    float *to = (float *)out->data + p->place * stride + p->row, few[LEAST_COLUMNS * PIECE_ROWS];
    /* Too few go with the columns that follow, whose results are thrown away. */
    const bool is_full = p->n >= run->least_columns;
    const lone_product product = {
        .type = weights->type,
        .inner = weights->ne[0],
        .rows = (const char *)weights->data + p->expert * weights->nb[2] + p->row * weights->nb[1],
        .columns = (const char *)columns->data + p->place * columns->nb[1],
        .row_count = (int64_t)p->rows,
        .column_count = is_full ? (int64_t)p->n : LEAST_COLUMNS,
        .out = is_full ? to : few,
        .out_stride = is_full ? stride : p->rows,
    };
    const bool is_computed = lone_product_run(run->products, ith, &product);
    assert(is_computed); /* batch_check tried it */
    (void)is_computed;
    for (size_t i = 0; !is_full && i < p->n; i++)
        memcpy(to + i * stride, few + i * p->rows, p->rows * sizeof *few);
}

static piece piece_at(size_t expert, size_t row, size_t place, size_t all_rows, size_t end)
{
    const size_t rows = all_rows - row, n = end - place;
    return (piece){expert, row, rows < PIECE_ROWS ? rows : PIECE_ROWS, place, n < PIECE_COLUMNS ? n : PIECE_COLUMNS};
}

/* The pieces are numbered in order. A part takes the next number that nobody has, and walks on to it. */
static void run_product(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)nth;
    const product_params *run = user;
    const size_t experts = (size_t)out->src[0]->ne[2], all_rows = (size_t)out->src[0]->ne[1];
    const int32_t *first = grouping_of(out->src[2]).first;
    atomic_uint *taken = pieces_taken(out->src[2], run->number);
    uint32_t next = atomic_fetch_add(taken, 1), at = 0;
    for (size_t e = 0; e < experts; e++) {
        for (size_t place = (size_t)first[e]; place < (size_t)first[e + 1]; place += PIECE_COLUMNS) {
            for (size_t row = 0; row < all_rows; row += PIECE_ROWS) {
                if (at++ == next) {
                    const piece p = piece_at(e, row, place, all_rows, (size_t)first[e + 1]);
                    run_piece(out, ith, run, &p);
                    next = atomic_fetch_add(taken, 1);
                }
            }
        }
    }
}

struct ggml_tensor *grouped_product(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *columns,
                                    struct ggml_tensor *groups, uint32_t number)
{
    struct ggml_tensor *sources[] = {weights, columns, groups};
    const product_params params = {b->products, (size_t)b->weights->least_columns[weights->type], number};
    return custom_node(b, weights->ne[1], (int64_t)pairs_of(columns), 1, sources, 3, run_product,
                       keep_params(b, &params, sizeof params));
}
