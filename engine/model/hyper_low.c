/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hyper_low.h"

#include "model/vec.h"

/* Tokens that are read together. What they have in memory, and the matrices, stay in the second-level cache. */
enum { TILE = 8, LINE_BYTES = 64 };

/* A piece of a node's work: some tokens, and a share of its rows or columns. */
typedef struct piece {
    size_t token, tokens;
    share part;
} piece;

/* With few tokens the threads share the items, otherwise each takes tokens of its own. */
static size_t parts_of(size_t tokens, int nth)
{
    return tokens < (size_t)nth * TILE ? (size_t)nth : 1;
}

static size_t piece_count(size_t tokens, int nth)
{
    return (tokens + TILE - 1) / TILE * parts_of(tokens, nth);
}

static piece piece_at(size_t i, size_t tokens, size_t items, int nth)
{
    const size_t parts = parts_of(tokens, nth), token = i / parts * TILE;
    return (piece){token, tokens - token < TILE ? tokens - token : TILE, share_of(items, (int)(i % parts), (int)parts)};
}

/* The same n elements of the token that is a tile later; it may be none. */
static inline void ask_for_next_tile(const float *elements, size_t wide, size_t n)
{
    const uintptr_t later = (uintptr_t)elements + TILE * wide * sizeof *elements;
    for (size_t byte = 0; byte < n * sizeof *elements; byte += LINE_BYTES)
        __builtin_prefetch((const void *)(later + byte), 0, 2);
}

/* ---- what is seen of a token: silu((D n) / streams) [rank], J n [streams or none], the norm's factors [streams] ----
 */

/* Elements of n that stay in the first-level cache, for all tokens of a tile. */
enum { STRIP = 512 };

/* Rows and columns whose products are in registers together. */
enum { ROWS = 4, COLUMNS = VEC == 16 ? 4 : 1, SUM_VECS = SUM_LANES / VEC };

enum { MOST_GROUPS = (SHORT_RANK + MODEL_MAX_STREAMS + ROWS - 1) / ROWS };

typedef struct see_params {
    const float *norm, *down, *inject; /* [wide], D [rank][wide], J [streams][wide] or NULL */
    size_t rank, rows;                 /* of D; of both */
    float eps;
} see_params;

/* VEC of the SUM_LANES partial sums of each row with each column. */
typedef struct dots {
    vec sums[ROWS][COLUMNS];
} dots;

/* n elements of every row times the same of every column; columns are STRIP apart. */
static inline void add_products(dots *d, const float *const *rows, const float *x, size_t columns, size_t at, size_t n)
{
    for (size_t r = 0; r < ROWS; r++) {
        const vec w = vec_load_some(rows[r] + at, n);
        for (size_t c = 0; c < columns; c++)
            d->sums[r][c] = vec_fma(w, vec_load(x + c * STRIP + at), d->sums[r][c]);
    }
}

typedef float lanes[SUM_LANES];

/* Adds n elements to the partial sums [columns][ROWS]. */
static inline void add_strip(const float *const *rows, const float *x, size_t columns, size_t n, lanes (*sums)[ROWS])
{
    dots d[SUM_VECS];
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t c = 0; c < columns; c++)
            for (size_t v = 0; v < SUM_VECS; v++)
                d[v].sums[r][c] = vec_load(sums[c][r] + v * VEC);
    }
    size_t i = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (size_t v = 0; v < SUM_VECS; v++)
            add_products(&d[v], rows, x, columns, i + v * VEC, VEC);
    for (size_t v = 0; i + v * VEC < n; v++)
        add_products(&d[v], rows, x, columns, i + v * VEC, n - i - v * VEC);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t c = 0; c < columns; c++)
            for (size_t v = 0; v < SUM_VECS; v++)
                vec_store(sums[c][r] + v * VEC, d[v].sums[r][c]);
    }
}

typedef struct tile {
    const float *residual; /* [tokens][wide] */
    size_t tokens, dim, wide;
    float factors[TILE][MODEL_MAX_STREAMS];
    float n[TILE][STRIP];
    lanes sums[MOST_GROUPS][TILE][ROWS]; /* partial ones, so far */
} tile;

static void norm_strip(tile *t, const float *norm, size_t first, size_t n)
{
    for (size_t i = 0; i < t->tokens; i++) {
        const float *from = t->residual + i * t->wide + first;
        const float factor = t->factors[i][first / t->dim];
        ask_for_next_tile(from, t->wide, n);
        for (size_t k = 0; k < n; k++)
            t->n[i][k] = from[k] * factor * norm[first + k];
        for (size_t k = n; k % SUM_LANES != 0; k++)
            t->n[i][k] = 0.0f;
    }
}

static void see_strip(tile *t, const see_params *p, share groups, size_t first, size_t n)
{
    norm_strip(t, p->norm, first, n);
    for (size_t g = groups.begin; g < groups.end; g++) {
        const float *rows[ROWS];
        for (size_t r = 0; r < ROWS; r++) {
            const size_t row = g * ROWS + r < p->rows ? g * ROWS + r : p->rows - 1;
            rows[r] = (row < p->rank ? p->down + row * t->wide : p->inject + (row - p->rank) * t->wide) + first;
        }
        size_t i = 0;
        for (; i + COLUMNS <= t->tokens; i += COLUMNS)
            add_strip(rows, t->n[i], COLUMNS, n, &t->sums[g][i]);
        for (; i < t->tokens; i++)
            add_strip(rows, t->n[i], 1, n, &t->sums[g][i]);
    }
}

static void write_seen(const tile *t, const see_params *p, share groups, float *out)
{
    const size_t streams = t->wide / t->dim;
    const size_t begin = groups.begin * ROWS, end = groups.end * ROWS < p->rows ? groups.end * ROWS : p->rows;
    for (size_t i = 0; i < t->tokens; i++) {
        float *seen = out + i * (p->rows + streams);
        for (size_t row = begin; row < end; row++) {
            const float sum = sum_lanes(t->sums[row / ROWS][i][row % ROWS]), low = sum / (float)streams;
            seen[row] = row < p->rank ? low * sigmoid_f32(low) : sum;
        }
        if (begin == 0)
            memcpy(seen + p->rows, t->factors[i], streams * sizeof *seen);
    }
}

static void see_tile(tile *t, const see_params *p, share groups)
{
    for (size_t i = 0; i < t->tokens; i++)
        for (size_t first = 0; first < t->wide; first += t->dim)
            t->factors[i][first / t->dim] = rms_factor(t->residual + i * t->wide + first, t->dim, p->eps);
    memset(t->sums + groups.begin, 0, (groups.end - groups.begin) * sizeof t->sums[0]);
    for (size_t first = 0; first < t->wide; first += t->dim)
        for (size_t k = 0; k < t->dim; k += STRIP)
            see_strip(t, p, groups, first + k, t->dim - k < STRIP ? t->dim - k : STRIP);
}

static void run_see(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const see_params *p = user;
    const struct ggml_tensor *residual = out->src[0];
    const size_t tokens = (size_t)residual->ne[2];
    tile t; /* large: nothing of it is set that is not used */
    t.dim = (size_t)residual->ne[0];
    t.wide = t.dim * (size_t)residual->ne[1];
    const share work = share_of(piece_count(tokens, nth), ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const piece now = piece_at(i, tokens, (p->rows + ROWS - 1) / ROWS, nth);
        t.residual = (const float *)residual->data + now.token * t.wide;
        t.tokens = now.tokens;
        if (now.part.begin < now.part.end) {
            see_tile(&t, p, now.part);
            write_seen(&t, p, now.part, (float *)out->data + now.token * (size_t)out->ne[0]);
        }
    }
}

/* ---- x = mean over streams of sigmoid(U low) * n ---- */

static size_t blocks_of(size_t dim)
{
    return (dim + TURNED - 1) / TURNED;
}

/* Tokens whose products are in registers together. */
enum { BLOCK_VECS = TURNED / VEC, PAIR = VEC == 16 ? 2 : 1 };

typedef struct mix_params {
    const float *norm, *up; /* [wide], U turned (weights.h) */
    size_t rank, rows;
} mix_params;

/* Tokens of a node, from one on. */
typedef struct mix_tokens {
    const float *residual, *seen;
    size_t dim, wide, seen_floats;
    float *out;
} mix_tokens;

static inline void clear(vec x[PAIR][BLOCK_VECS], size_t n)
{
#pragma GCC unroll 2
    for (size_t i = 0; i < n; i++) {
#pragma GCC unroll 16
        for (size_t v = 0; v < BLOCK_VECS; v++)
            x[i][v] = vec_of(0.0f);
    }
}

/* u = U low of one stream, for a block of columns. */
static inline void up_block(const float *up, const mix_params *p, const mix_tokens *t, size_t n,
                            vec u[PAIR][BLOCK_VECS])
{
    clear(u, n);
    for (size_t k = 0; k < p->rank; k++) {
#pragma GCC unroll 16
        for (size_t v = 0; v < BLOCK_VECS; v++) {
            const vec w = vec_load(up + k * TURNED + v * VEC);
#pragma GCC unroll 2
            for (size_t i = 0; i < n; i++)
                u[i][v] = vec_fma(w, vec_of(t->seen[i * t->seen_floats + k]), u[i][v]);
        }
    }
}

/* Of `columns` columns, those that a vector of the block has from its first on. */
static inline size_t columns_left(size_t columns, size_t vector)
{
    return vector * VEC < columns ? columns - vector * VEC : 0;
}

/* A block of columns of n tokens; first, columns: those of the block. */
static inline void mix_block(const mix_params *p, const mix_tokens *t, size_t n, size_t first, size_t columns)
{
    const size_t blocks = blocks_of(t->dim), streams = t->wide / t->dim;
    vec u[PAIR][BLOCK_VECS], x[PAIR][BLOCK_VECS];
    clear(x, n);
    for (size_t s = 0; s < streams; s++) {
        const size_t at = s * t->dim + first;
        up_block(p->up + (s * blocks + first / TURNED) * p->rank * TURNED, p, t, n, u);
#pragma GCC unroll 2
        for (size_t i = 0; i < n; i++) {
            const float *r = t->residual + i * t->wide + at;
            const float factor = t->seen[i * t->seen_floats + p->rows + s];
            ask_for_next_tile(r, t->wide, TURNED);
#pragma GCC unroll 16
            for (size_t v = 0; v < BLOCK_VECS; v++) {
                const size_t left = columns_left(columns, v);
                const vec scaled = vec_load_some(r + v * VEC, left) * factor;
                const vec mixed = vec_sigmoid(u[i][v]) * (scaled * vec_load_some(p->norm + at + v * VEC, left));
                x[i][v] += mixed;
            }
        }
    }
    const float scale = 1.0f / (float)streams;
#pragma GCC unroll 2
    for (size_t i = 0; i < n; i++) {
#pragma GCC unroll 16
        for (size_t v = 0; v < BLOCK_VECS; v++)
            vec_store_some(t->out + i * t->dim + first + v * VEC, columns_left(columns, v), x[i][v] * scale);
    }
}

static mix_tokens tokens_from(const struct ggml_tensor *out, size_t token)
{
    const struct ggml_tensor *residual = out->src[0], *seen = out->src[1];
    mix_tokens t = {
        .dim = (size_t)out->ne[0],
        .wide = (size_t)(residual->ne[0] * residual->ne[1]),
        .seen_floats = (size_t)seen->ne[0],
    };
    t.residual = (const float *)residual->data + token * t.wide;
    t.seen = (const float *)seen->data + token * t.seen_floats;
    t.out = (float *)out->data + token * t.dim;
    return t;
}

/* The block of columns that begins at `first`, for some tokens. */
static void mix_columns(const mix_params *p, struct ggml_tensor *out, const piece *piece, size_t first)
{
    const size_t columns = (size_t)out->ne[0] - first;
    size_t n;
    for (size_t done = 0; done < piece->tokens; done += n) {
        const mix_tokens t = tokens_from(out, piece->token + done);
        n = columns >= TURNED && piece->tokens - done >= PAIR ? PAIR : 1;
        if (columns < TURNED)
            mix_block(p, &t, 1, first, columns);
        else if (n == PAIR)
            mix_block(p, &t, PAIR, first, TURNED);
        else
            mix_block(p, &t, 1, first, TURNED);
    }
}

static void run_mix(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const size_t tokens = (size_t)out->ne[1], blocks = blocks_of((size_t)out->ne[0]);
    const share work = share_of(piece_count(tokens, nth), ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const piece piece = piece_at(i, tokens, blocks, nth);
        for (size_t block = piece.part.begin; block < piece.part.end; block++)
            mix_columns(user, out, &piece, block * TURNED);
    }
}

/* ---- U turned ---- */

size_t hyper_turned_floats(const model_shape *shape)
{
    return shape->streams * blocks_of(shape->embedding) * shape->low_rank * TURNED;
}

void hyper_turn(const model_shape *shape, const float *up, float *out)
{
    const size_t dim = shape->embedding, rank = shape->low_rank;
    memset(out, 0, hyper_turned_floats(shape) * sizeof *out);
    for (size_t row = 0; row < shape->streams * dim; row++) {
        const size_t block = row / dim * blocks_of(dim) + row % dim / TURNED;
        for (size_t k = 0; k < rank; k++)
            out[(block * rank + k) * TURNED + row % dim % TURNED] = up[row * rank + k];
    }
}

/* ---- reading ---- */

hyper_input hyper_read_low(graph_builder *b, const hyper_weights *weights, struct ggml_tensor *residual)
{
    const int64_t rank = weights->up->ne[0], streams = residual->ne[1], tokens = residual->ne[2];
    const int64_t rows = rank + (weights->inject == NULL ? 0 : streams);
    const see_params see = {
        .norm = weights->norm,
        .down = weights->down->data,
        .inject = weights->inject == NULL ? NULL : weights->inject->data,
        .rank = (size_t)rank,
        .rows = (size_t)rows,
        .eps = b->shape->eps,
    };
    struct ggml_tensor *seen =
        custom_node(b, rows + streams, tokens, 1, &residual, 1, run_see, keep_params(b, &see, sizeof see));
    const mix_params mix = {weights->norm, weights->up_turned, (size_t)rank, (size_t)rows};
    struct ggml_tensor *sources[] = {residual, seen};
    hyper_input input = {
        custom_node(b, residual->ne[0], tokens, 1, sources, 2, run_mix, keep_params(b, &mix, sizeof mix)), NULL};
    if (weights->inject != NULL)
        input.gains = ggml_view_2d(b->context, seen, streams, tokens, seen->nb[1], (size_t)rank * sizeof(float));
    return input;
}
