/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/random.h"
#include "make/released_metadata.h"

#include <assert.h>
#include <stdlib.h>

enum { BLOCK_ELEMENTS = 1 << 18 };

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

static qsa_status write_tensor(writing *w, size_t tensor)
{
    const checkpoint_tensor *shape = &w->plan->tensors[tensor].shape;
    const int64_t columns = shape->dims[0], rows = checkpoint_rows_of(shape), most = BLOCK_ELEMENTS / columns;
    assert(columns % 4 == 0 && most > 0);
    for (int64_t row = 0; row < rows; row += most) {
        const int64_t n = rows - row < most ? rows - row : most;
        fill(w, tensor, (uint64_t)(row * columns), (uint64_t)(n * columns));
        ENGINE_TRY(checkpoint_rows(&w->file, shape, w->block, n));
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
    if (!w->block)
        return engine_fail(QSA_E_MEMORY, "no memory for a block of rows");
    qsa_status status = checkpoint_open(&w->file, path, w->plan->tensor_count);
    if (status == QSA_OK)
        status = write_all(w);
    free(w->block);
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
