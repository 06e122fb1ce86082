/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/random.h"
#include "make/recipe.h"
#include "make/released_metadata.h"

#include <assert.h>
#include <stdlib.h>

/* A tensor is written in blocks of whole rows. Types that take long to quantise repeat the first POOL_BLOCKS. */
enum { BLOCK_ELEMENTS = 1 << 18, POOL_BLOCKS = 16 };

void qsa_random_model_init(qsa_random_model *options)
{
    *options = (qsa_random_model){
        .size_bytes = sizeof *options,
        .layers = 4,
        .experts = 16,
        .vocabulary = 8192,
        .type = QSA_RANDOM_Q8_0,
        .seed = 1,
    };
}

/* The file being written, and the caller's progress callback. */
typedef struct writing {
    const released_plan *plan;
    checkpoint file;
    float *block; /* [BLOCK_ELEMENTS] */
    char *pool;   /* [POOL_BLOCKS] blocks of the tensor being written, quantised */
    bool (*go_on)(void *user, uint64_t written, uint64_t bytes);
    void *user;
} writing;

/* Fills the block with elements [first, first + n) of a tensor. Both are multiples of 4: one 64-bit random number gives
 * four elements of 16 bits. */
static void fill(const writing *w, size_t tensor, uint64_t first, uint64_t n)
{
    assert(first % 4 == 0 && n % 4 == 0 && n <= BLOCK_ELEMENTS);
    const released_tensor *t = &w->plan->tensors[tensor];
    const uint64_t seed = w->plan->options.seed;
    const float unit = t->spread / 32768.0f;
    for (uint64_t i = 0; i < n; i += 4) {
        const uint64_t bits = random_value(seed, tensor, (first + i) / 4);
        for (unsigned k = 0; k < 4; k++)
            w->block[i + k] = t->centre + unit * ((float)(uint16_t)(bits >> 16 * k) - 32767.5f);
    }
}

static qsa_status ask(const writing *w)
{
    if (w->go_on && !w->go_on(w->user, w->file.written, w->file.bytes))
        return engine_fail(QSA_E_CANCELLED, "%s: interrupted; nothing was written", w->file.path);
    return QSA_OK;
}

static qsa_status write_block(writing *w, size_t tensor, int64_t row, int64_t n)
{
    const checkpoint_tensor *shape = &w->plan->tensors[tensor].shape;
    const int64_t columns = shape->dims[0];
    fill(w, tensor, (uint64_t)(row * columns), (uint64_t)(n * columns));
    return checkpoint_rows(&w->file, shape, w->block, n);
}

/* Block b of a tensor whose type takes long to quantise: block b of the pool, which is made now, or any block of a
 * complete pool. */
static qsa_status write_pooled(writing *w, size_t tensor, int64_t b, int64_t block_rows, int64_t n)
{
    const checkpoint_tensor *shape = &w->plan->tensors[tensor].shape;
    const int64_t columns = shape->dims[0];
    const size_t block_bytes = ggml_row_size(shape->type, columns) * (size_t)block_rows;
    const uint64_t stream = w->plan->tensor_count + tensor; /* apart from those of the elements */
    const uint64_t from =
        b < POOL_BLOCKS ? (uint64_t)b : random_below(w->plan->options.seed, stream, (uint64_t)b, POOL_BLOCKS);
    char *block = w->pool + from * block_bytes;
    if (b < POOL_BLOCKS) {
        fill(w, tensor, (uint64_t)(b * block_rows * columns), (uint64_t)(n * columns));
        ggml_quantize_chunk(shape->type, w->block, block, 0, n, columns, NULL);
    }
    return checkpoint_converted_rows(&w->file, shape, block, n);
}

static qsa_status write_tensor(writing *w, size_t tensor)
{
    const checkpoint_tensor *shape = &w->plan->tensors[tensor].shape;
    const int64_t columns = shape->dims[0], rows = checkpoint_rows_of(shape), most = BLOCK_ELEMENTS / columns;
    const bool is_slow = recipe_is_slow(shape->type);
    assert(columns % 4 == 0 && most > 0);
    for (int64_t row = 0; row < rows; row += most) {
        const int64_t n = rows - row < most ? rows - row : most;
        ENGINE_TRY(is_slow ? write_pooled(w, tensor, row / most, most, n) : write_block(w, tensor, row, n));
        ENGINE_TRY(ask(w));
    }
    return checkpoint_end_tensor(&w->file);
}

static qsa_status write_all(writing *w)
{
    const released_plan *plan = w->plan;
    ENGINE_TRY(released_set_keys(plan, w->file.head));
    for (size_t i = 0; i < plan->tensor_count; i++)
        checkpoint_list(&w->file, &plan->tensors[i].shape);
    ENGINE_TRY(checkpoint_begin(&w->file));
    for (size_t i = 0; i < plan->tensor_count; i++)
        ENGINE_TRY(write_tensor(w, i));
    return QSA_OK;
}

static qsa_status write_plan(const char *path, writing *w)
{
    w->block = malloc(BLOCK_ELEMENTS * sizeof *w->block);
    w->pool = malloc((size_t)POOL_BLOCKS * BLOCK_ELEMENTS); /* a slow type takes less than a byte an element */
    qsa_status status = w->block && w->pool ? checkpoint_open(&w->file, path, w->plan->tensor_count)
                                            : engine_fail(QSA_E_MEMORY, "no memory for blocks of rows");
    if (status == QSA_OK)
        status = write_all(w);
    free(w->block);
    free(w->pool);
    return checkpoint_close(&w->file, status);
}

qsa_status qsa_random_model_write(const char *path, const qsa_random_model *options,
                                  bool (*go_on)(void *user, uint64_t written, uint64_t bytes), void *user)
{
    qsa_random_model defaults;
    qsa_random_model_init(&defaults);
    released_plan plan;
    writing w = {.plan = &plan, .go_on = go_on, .user = user};
    qsa_status status = released_plan_init(&plan, options == NULL ? &defaults : options);
    if (status == QSA_OK)
        status = write_plan(path, &w);
    released_plan_release(&plan);
    return status;
}
