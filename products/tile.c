/* SPDX-License-Identifier: Apache-2.0 */
/* How a product is cut into tiles. */
#include "products/tile.h"

#include "base/float_env.h"

static size_t pieces(size_t n, size_t most)
{
    return (n + most - 1) / most;
}

/* The tiles of a matrix: row tiles of the first columns, then of the next ones. */
typedef struct cut {
    size_t row_tiles, column_tiles;
} cut;

static cut cut_of(const qsa_product *p)
{
    return (cut){pieces(p->weights.rows, QSA_TILE_ROWS), pieces(p->columns->count, QSA_TILE_COLUMNS)};
}

size_t qsa_product_tiles(const qsa_product *product)
{
    cut c = cut_of(product);
    return (product->experts ? product->experts : 1) * c.row_tiles * c.column_tiles;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Pairs begin .. end: those of column tile i of an expert. */
typedef struct pairs {
    size_t begin, end;
} pairs;

static pairs pairs_of(const qsa_product *p, size_t expert, size_t column_tile)
{
    size_t first = p->experts ? p->first[expert] : 0, last = p->experts ? p->first[expert + 1] : p->columns->count;
    size_t begin = least(last, first + column_tile * QSA_TILE_COLUMNS);
    return (pairs){begin, least(last, begin + QSA_TILE_COLUMNS)};
}

/* Tile t. */
static qsa_tile tile_of(const qsa_product *p, size_t t, const uint32_t *identity)
{
    cut c = cut_of(p);
    size_t row = t % c.row_tiles * QSA_TILE_ROWS, expert = t / c.row_tiles / c.column_tiles;
    pairs some = pairs_of(p, expert, t / c.row_tiles % c.column_tiles);
    const qsa_columns *x = p->columns;
    qsa_tile tile = {
        .row_format = qsa_format_row_of(p->weights.format),
        .format = p->weights.format,
        .weights = (const uint8_t *)p->weights.data + expert * p->expert_bytes + row * p->weights.row_bytes,
        .row_bytes = p->weights.row_bytes,
        .rows = least(QSA_TILE_ROWS, p->weights.rows - row),
        .inner = p->weights.inner,
        .block = x->blocks,
        .block_count = x->count,
        .values = x->values,
        .stride = x->stride,
        .column = identity,
        .columns = some.end - some.begin,
        .y = p->y + some.begin * p->y_stride + row,
        .y_stride = p->y_stride,
    };
    if (p->column) {
        tile.column = p->column + some.begin;
    } else { /* pair i is column i */
        tile.block += x->blocks ? some.begin : 0;
        tile.values += some.begin * x->stride;
    }
    return tile;
}

static const uint8_t *end_of_rows(const qsa_tile *tile)
{
    return tile->weights + tile->rows * tile->row_bytes;
}

void qsa_for_tiles(const qsa_product *product, size_t begin, size_t end, qsa_tile_fn *multiply)
{
    uint32_t identity[QSA_TILE_COLUMNS];
    for (uint32_t i = 0; i < QSA_TILE_COLUMNS; i++)
        identity[i] = i;
    qsa_float_env saved = qsa_float_env_enter();
    qsa_tile tile, next = begin < end ? tile_of(product, begin, identity) : (qsa_tile){.columns = 0};
    for (size_t t = begin; t < end; t++) {
        tile = next;
        next = t + 1 < end ? tile_of(product, t + 1, identity) : (qsa_tile){.columns = 0};
        if (tile.columns == 0)
            continue;
        tile.end = end_of_rows(&tile);
        if (next.columns > 0 && next.weights == tile.end)
            tile.end = end_of_rows(&next);
        multiply(&tile);
    }
    qsa_float_env_leave(saved);
}

void qsa_for_columns(const qsa_columns *columns, size_t begin, size_t end, qsa_quantise_fn *quantise)
{
    qsa_float_env saved = qsa_float_env_enter();
    for (size_t c = begin; c < end; c++)
        quantise(columns, c);
    qsa_float_env_leave(saved);
}

size_t qsa_columns_bytes(size_t inner, size_t count)
{
    return inner / QSA_RUN * count * sizeof(qsa_column_block);
}
