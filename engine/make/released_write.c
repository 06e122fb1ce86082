/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/random.h"
#include "make/block_pool.h"
#include "make/recipe.h"
#include "make/released_metadata.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ELEMENTS = 1 << 18, BLOCK_PIECES = BLOCK_ELEMENTS / POOL_PIECE, PATH_BYTES = 4096 };

void qsa_random_model_init(qsa_random_model *options)
{
    *options = (qsa_random_model){
        .size_bytes = sizeof *options,
        .layers = 4,
        .experts = 16,
        .vocabulary = 8192,
        .type = QSA_RANDOM_Q8_0,
        .shards = 1,
        .seed = 1,
    };
}

/* The files being written, and the caller's progress callback. */
typedef struct writing {
    const released_plan *plan;
    checkpoint *files; /* [count]; open ones must be closed */
    char (*paths)[PATH_BYTES];
    size_t count;
    uint64_t done, bytes; /* of files that are written; of all */
    float *block;         /* [BLOCK_ELEMENTS] */
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

static qsa_status ask(const writing *w, const checkpoint *file)
{
    if (w->go_on && !w->go_on(w->user, w->done + file->written, w->bytes))
        return engine_fail(QSA_E_CANCELLED, "%s: interrupted; nothing was written", file->path);
    return QSA_OK;
}

/* ---- tensors ---- */

static qsa_status write_each(writing *w, checkpoint *file, size_t tensor)
{
    const checkpoint_tensor *shape = &w->plan->tensors[tensor].shape;
    const int64_t columns = shape->dims[0], rows = checkpoint_rows_of(shape), most = BLOCK_ELEMENTS / columns;
    assert(columns % 4 == 0 && most > 0);
    for (int64_t row = 0; row < rows; row += most) {
        const int64_t n = rows - row < most ? rows - row : most;
        fill(w, tensor, (uint64_t)(row * columns), (uint64_t)(n * columns));
        ENGINE_TRY(checkpoint_rows(file, shape, w->block, n));
        ENGINE_TRY(ask(w, file));
    }
    return QSA_OK;
}

/* The block becomes the pool; then it holds the pieces on their way to the file. */
static qsa_status write_picks(writing *w, checkpoint *file, size_t tensor, const block_pool *pool)
{
    const checkpoint_tensor *shape = &w->plan->tensors[tensor].shape;
    const uint64_t weights = (uint64_t)(shape->dims[0] * checkpoint_rows_of(shape));
    const uint64_t pieces = (weights + POOL_PIECE - 1) / POOL_PIECE;
    for (uint64_t first = 0; first < pieces; first += BLOCK_PIECES) {
        const uint64_t n = pieces - first < BLOCK_PIECES ? pieces - first : BLOCK_PIECES;
        const uint64_t left = weights - first * POOL_PIECE;
        const int64_t part = left < n * POOL_PIECE ? (int64_t)left : (int64_t)(n * POOL_PIECE);
        block_pool_pick(pool, w->plan->options.seed ^ POOL_PIECE, tensor, first, (size_t)n, w->block);
        ENGINE_TRY(checkpoint_blocks(file, w->block, ggml_row_size(shape->type, part)));
        ENGINE_TRY(ask(w, file));
    }
    return QSA_OK;
}

static qsa_status write_pooled(writing *w, checkpoint *file, size_t tensor)
{
    block_pool pool = {0};
    fill(w, tensor, 0, POOL_WEIGHTS);
    qsa_status status = block_pool_fill(&pool, w->plan->tensors[tensor].shape.type, w->block);
    if (status == QSA_OK)
        status = write_picks(w, file, tensor, &pool);
    block_pool_release(&pool);
    return status;
}

static qsa_status write_tensor(writing *w, checkpoint *file, size_t tensor)
{
    const bool is_pooled = recipe_is_slow(w->plan->tensors[tensor].shape.type);
    ENGINE_TRY(is_pooled ? write_pooled(w, file, tensor) : write_each(w, file, tensor));
    return checkpoint_end_tensor(file);
}

/* ---- files ---- */

/* The tensors of a file: all of one, or of several none in the first and equal parts of the bytes in the others. */
typedef struct span {
    size_t begin, end;
} span;

static uint64_t bytes_of(const checkpoint_tensor *t)
{
    return ggml_row_size(t->type, t->dims[0]) * (uint64_t)checkpoint_rows_of(t);
}

/* The first tensor before which `share` of the bytes lie. */
static size_t tensor_at(const released_plan *plan, uint64_t share)
{
    uint64_t before = 0;
    size_t i = 0;
    while (i < plan->tensor_count && before < share)
        before += bytes_of(&plan->tensors[i++].shape);
    return i;
}

static span tensors_of(const writing *w, size_t file)
{
    const released_plan *plan = w->plan;
    if (w->count == 1)
        return (span){0, plan->tensor_count};
    if (file == 0)
        return (span){0, 0};
    uint64_t all = 0;
    for (size_t i = 0; i < plan->tensor_count; i++)
        all += bytes_of(&plan->tensors[i].shape);
    const uint64_t part = all / (w->count - 1);
    const size_t end = file + 1 == w->count ? plan->tensor_count : tensor_at(plan, file * part);
    return (span){tensor_at(plan, (file - 1) * part), end};
}

static qsa_status name_files(writing *w, const char *path)
{
    const char *suffix = ".gguf";
    size_t stem = strlen(path);
    if (stem + 32 > PATH_BYTES)
        return engine_fail(QSA_E_IO, "the path has %zu bytes, at most %d are possible", stem, PATH_BYTES - 32);
    if (stem > strlen(suffix) && strcmp(path + stem - strlen(suffix), suffix) == 0)
        stem -= strlen(suffix);
    if (w->count == 1)
        snprintf(w->paths[0], PATH_BYTES, "%s", path);
    for (size_t i = 0; w->count > 1 && i < w->count; i++)
        snprintf(w->paths[i], PATH_BYTES, "%.*s-%05zu-of-%05zu.gguf", (int)stem, path, i + 1, w->count);
    return QSA_OK;
}

static qsa_status list_file(writing *w, size_t i)
{
    checkpoint *file = &w->files[i];
    const span tensors = tensors_of(w, i);
    ENGINE_TRY(checkpoint_open(file, w->paths[i], tensors.end - tensors.begin));
    if (i == 0)
        ENGINE_TRY(released_set_keys(w->plan, file->head));
    if (w->count > 1) {
        gguf_set_val_u16(file->head, "split.no", (uint16_t)i);
        gguf_set_val_u16(file->head, "split.count", (uint16_t)w->count);
        gguf_set_val_i32(file->head, "split.tensors.count", (int32_t)w->plan->tensor_count);
    }
    for (size_t k = tensors.begin; k < tensors.end; k++)
        checkpoint_list(file, &w->plan->tensors[k].shape);
    w->bytes += gguf_get_meta_size(file->head) + file->tensor_bytes;
    return QSA_OK;
}

static qsa_status write_all(writing *w)
{
    for (size_t i = 0; i < w->count; i++)
        ENGINE_TRY(list_file(w, i));
    for (size_t i = 0; i < w->count; i++) {
        checkpoint *file = &w->files[i];
        const span tensors = tensors_of(w, i);
        file->beside = w->bytes - w->done - gguf_get_meta_size(file->head) - file->tensor_bytes;
        ENGINE_TRY(checkpoint_begin(file));
        for (size_t k = tensors.begin; k < tensors.end; k++)
            ENGINE_TRY(write_tensor(w, file, k));
        w->done += file->bytes;
    }
    return QSA_OK;
}

/* The first file, which names the others, gets its name last. */
static qsa_status close_all(writing *w, qsa_status status)
{
    for (size_t i = w->count; i-- > 0;)
        status = checkpoint_close(&w->files[i], status);
    return status;
}

static qsa_status write_plan(const char *path, writing *w)
{
    w->count = w->plan->options.shards;
    w->block = malloc(BLOCK_ELEMENTS * sizeof *w->block);
    w->files = calloc(w->count, sizeof *w->files);
    w->paths = calloc(w->count, sizeof *w->paths);
    qsa_status status = QSA_OK;
    if (!w->block || !w->files || !w->paths)
        status = engine_fail(QSA_E_MEMORY, "no memory for a block of rows");
    if (status == QSA_OK)
        status = name_files(w, path);
    if (status == QSA_OK)
        status = close_all(w, write_all(w));
    free(w->block);
    free(w->files);
    free(w->paths);
    return status;
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
