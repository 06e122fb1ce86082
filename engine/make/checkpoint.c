/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "make/checkpoint.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/statvfs.h>

enum { BLOCK_BYTES = 1 << 20 };

static qsa_status no_memory(const char *what)
{
    return engine_fail(QSA_E_MEMORY, "no memory for %s of a checkpoint", what);
}

int64_t checkpoint_rows_of(const checkpoint_tensor *tensor)
{
    assert(tensor->dims[1] > 0 || tensor->dims[2] == 0);
    int64_t rows = tensor->dims[1] ? tensor->dims[1] : 1;
    return tensor->dims[2] ? rows * tensor->dims[2] : rows;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + GGUF_DEFAULT_ALIGNMENT - 1) / GGUF_DEFAULT_ALIGNMENT * GGUF_DEFAULT_ALIGNMENT;
}

/* ---- open ---- */

qsa_status checkpoint_open(checkpoint *file, const char *path, size_t tensors)
{
    assert(path != NULL);
    const struct ggml_init_params room = {.mem_size = (tensors + 1) * ggml_tensor_overhead(), .no_alloc = true};
    *file = (checkpoint){.path = path, .block_bytes = BLOCK_BYTES};
    file->head = gguf_init_empty();
    file->shapes = ggml_init(room);
    if (!file->head || !file->shapes)
        return no_memory("the tensor list");
    ENGINE_TRY_LIBRARY(qsa_new_file_open(path, 0666, &file->output));
    file->is_open = true;
    return QSA_OK;
}

/* ---- keys and tensor infos ---- */

void checkpoint_list(checkpoint *file, const checkpoint_tensor *tensor)
{
    assert(tensor->dims[0] > 0 && file->written == 0);
    const int n_dims = tensor->dims[2] ? 3 : tensor->dims[1] ? 2 : 1;
    const size_t row = ggml_row_size(tensor->type, tensor->dims[0]);
    struct ggml_tensor *shape = ggml_new_tensor(file->shapes, tensor->type, n_dims, tensor->dims);
    ggml_set_name(shape, tensor->name);
    gguf_add_tensor(file->head, shape);
    file->block_bytes = row > file->block_bytes ? row : file->block_bytes;
    file->tensor_bytes += padded(row * (uint64_t)checkpoint_rows_of(tensor));
}

static qsa_status write_bytes(checkpoint *file, const void *bytes, size_t size)
{
    ENGINE_TRY_LIBRARY(qsa_new_file_write(&file->output, bytes, size));
    file->written += size;
    return QSA_OK;
}

/* Fails before minutes of work, not after. If the free space is unknown, writing is tried. */
static qsa_status check_room(const checkpoint *file)
{
    struct statvfs disk;
    if (fstatvfs(file->output.descriptor, &disk) != 0)
        return QSA_OK;
    const double there = (double)disk.f_bavail * (double)disk.f_frsize;
    const double needed = (double)(file->bytes + file->beside);
    if (there < needed)
        return engine_fail(QSA_E_IO, "%s: cannot write: it takes %.1f GB, %.1f GB are free", file->path, needed / 1e9,
                           there / 1e9);
    return QSA_OK;
}

qsa_status checkpoint_begin(checkpoint *file)
{
    assert(file->is_open && file->written == 0);
    const size_t size = gguf_get_meta_size(file->head);
    file->bytes = size + file->tensor_bytes;
    ENGINE_TRY(check_room(file));
    file->block = malloc(file->block_bytes);
    void *head = malloc(size);
    if (!file->block || !head) {
        free(head);
        return no_memory("the keys");
    }
    gguf_get_meta_data(file->head, head);
    const qsa_status status = write_bytes(file, head, size);
    free(head);
    return status;
}

/* ---- tensors ---- */

qsa_status checkpoint_rows(checkpoint *file, const checkpoint_tensor *tensor, const float *elements, int64_t n)
{
    assert(file->block != NULL && n >= 0);
    const int64_t columns = tensor->dims[0];
    const size_t row = ggml_row_size(tensor->type, columns);
    const int64_t most = (int64_t)(file->block_bytes / row);
    for (int64_t first = 0; first < n; first += most) {
        const int64_t rows = n - first < most ? n - first : most;
        ggml_quantize_chunk(tensor->type, elements + first * columns, file->block, 0, rows, columns, NULL);
        ENGINE_TRY(write_bytes(file, file->block, row * (size_t)rows));
    }
    return QSA_OK;
}

qsa_status checkpoint_blocks(checkpoint *file, const void *blocks, size_t size_bytes)
{
    return write_bytes(file, blocks, size_bytes);
}

qsa_status checkpoint_end_tensor(checkpoint *file)
{
    assert(file->written <= file->bytes);
    static const char zeros[GGUF_DEFAULT_ALIGNMENT];
    return write_bytes(file, zeros, (size_t)(padded(file->written) - file->written));
}

/* ---- close ---- */

qsa_status checkpoint_close(checkpoint *file, qsa_status status)
{
    if (file->is_open) {
        const qsa_status closed = qsa_new_file_close(&file->output, status);
        if (status == QSA_OK && closed != QSA_OK)
            status = engine_fail_as_library(closed);
    }
    free(file->block);
    gguf_free(file->head);
    ggml_free(file->shapes);
    *file = (checkpoint){0};
    return status;
}
