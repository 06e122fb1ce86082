/* SPDX-License-Identifier: Apache-2.0 */
#include "make/quoter_metadata.h"
#include "make/quoter_plan.h"

#include "base/error.h"
#include "make/checkpoint.h"

#include <assert.h>
#include <stdlib.h>

/* Memory holds one tensor at a time. */
static qsa_status write_tensor(const quoter_plan *plan, const quoter_tensor *tensor, checkpoint *file)
{
    const int64_t rows = checkpoint_rows_of(&tensor->shape);
    assert(tensor->shape.dims[0] > 0 && rows > 0);
    float *elements = calloc((size_t)(tensor->shape.dims[0] * rows), sizeof *elements);
    if (!elements)
        return engine_fail(QSA_E_MEMORY, "quoter: no memory for %s", tensor->shape.name);
    if (tensor->fill)
        tensor->fill(plan, tensor->layer, elements);
    qsa_status status = checkpoint_rows(file, &tensor->shape, elements, rows);
    if (status == QSA_OK)
        status = checkpoint_end_tensor(file);
    free(elements);
    return status;
}

static qsa_status write_all(const quoter_plan *plan, const quoter_tensor *tensors, size_t count, checkpoint *file)
{
    quoter_set_keys(plan, file->head);
    for (size_t i = 0; i < count; i++)
        checkpoint_list(file, &tensors[i].shape);
    ENGINE_TRY(checkpoint_begin(file));
    for (size_t i = 0; i < count; i++)
        ENGINE_TRY(write_tensor(plan, &tensors[i], file));
    return QSA_OK;
}

static qsa_status write_plan(const char *path, const quoter_plan *plan)
{
    quoter_tensor *tensors = malloc(QUOTER_MAX_TENSORS * sizeof *tensors);
    if (!tensors)
        return engine_fail(QSA_E_MEMORY, "quoter: no memory for the tensor list");
    const size_t count = quoter_list_tensors(plan, tensors);
    assert(count <= QUOTER_MAX_TENSORS);
    checkpoint file;
    qsa_status status = checkpoint_open(&file, path, count);
    if (status == QSA_OK)
        status = write_all(plan, tensors, count, &file);
    status = checkpoint_close(&file, status);
    free(tensors);
    return status;
}

qsa_status quoter_write(const char *path, const quoter_options *options)
{
    quoter_plan plan;
    qsa_status status = quoter_plan_init(&plan, options);
    if (status == QSA_OK)
        status = write_plan(path, &plan);
    quoter_plan_release(&plan);
    return status;
}
