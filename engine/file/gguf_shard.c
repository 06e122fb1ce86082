/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "file/gguf_shard.h"

#include "base/error.h"
#include "base/ggml_log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- mapping ---- */

/* O_NONBLOCK: opening a FIFO must not block before it is refused. */
static qsa_status open_regular(const char *path, int *out_fd, size_t *out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return engine_fail(QSA_E_IO, "%s: %s", path, strerror(errno));
    struct stat about;
    qsa_status status = QSA_OK;
    if (fstat(fd, &about) != 0)
        status = engine_fail(QSA_E_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(about.st_mode))
        status = engine_fail(QSA_E_IO, "%s: is a directory", path);
    else if (!S_ISREG(about.st_mode))
        status = engine_fail(QSA_E_IO, "%s: is not a regular file", path);
    else if (about.st_size == 0)
        status = engine_fail(QSA_E_FORMAT, "%s: is empty", path);
    else if ((uintmax_t)about.st_size > SIZE_MAX)
        status = engine_fail(QSA_E_LIMIT, "%s: is too large to map", path);
    if (status != QSA_OK) {
        close(fd);
        return status;
    }
    assert(about.st_size > 0);
    *out_fd = fd;
    *out_bytes = (size_t)about.st_size;
    return QSA_OK;
}

static qsa_status map_file(gguf_shard *shard, const char *path)
{
    int fd = -1;
    size_t bytes = 0;
    ENGINE_TRY(open_regular(path, &fd, &bytes));
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    int error = errno;
    if (data == MAP_FAILED) {
        close(fd);
        return engine_fail(error == ENOMEM ? QSA_E_MEMORY : QSA_E_IO, "%s: cannot be mapped: %s", path,
                           strerror(error));
    }
    shard->data = data;
    shard->bytes = bytes;
    shard->mapped = true;
    shard->descriptor = fd;
    return QSA_OK;
}

/* ---- open and close ---- */

static qsa_status read_header(gguf_shard *shard)
{
    assert(shard->head.keys == NULL);
    silence_ggml();
    ENGINE_TRY(gguf_head_read(shard->name, shard->data, shard->bytes, &shard->head));
    if (shard->head.alignment < GGUF_FILE_MIN_ALIGNMENT)
        return engine_fail(QSA_E_UNSUPPORTED, "%s: general.alignment is %zu; weights used in place need at least %d",
                           shard->name, shard->head.alignment, GGUF_FILE_MIN_ALIGNMENT);
    return QSA_OK;
}

static qsa_status name_shard(gguf_shard *shard, const char *name)
{
    *shard = (gguf_shard){.name = strdup(name)};
    return shard->name ? QSA_OK : engine_fail(QSA_E_MEMORY, "%s: no memory", name);
}

qsa_status gguf_shard_open(gguf_shard *shard, const char *path)
{
    assert(shard != NULL && path != NULL);
    qsa_status status = name_shard(shard, path);
    if (status == QSA_OK)
        status = map_file(shard, path);
    if (status == QSA_OK)
        status = read_header(shard);
    if (status != QSA_OK)
        gguf_shard_close(shard);
    return status;
}

qsa_status gguf_shard_open_memory(gguf_shard *shard, const char *name, const void *data, size_t size_bytes)
{
    assert(shard != NULL && name != NULL && (uintptr_t)data % GGUF_FILE_MIN_ALIGNMENT == 0);
    qsa_status status = name_shard(shard, name);
    if (status == QSA_OK) {
        shard->data = data;
        shard->bytes = size_bytes;
        status = read_header(shard);
    }
    if (status != QSA_OK)
        gguf_shard_close(shard);
    return status;
}

void gguf_shard_close(gguf_shard *shard)
{
    gguf_head_free(&shard->head);
    if (shard->mapped) {
        munmap((void *)shard->data, shard->bytes);
        close(shard->descriptor);
    }
    free(shard->name);
    *shard = (gguf_shard){0};
}

/* ---- tensors ---- */

size_t gguf_shard_tensor_count(const gguf_shard *shard)
{
    return shard->head.tensor_count;
}

static bool multiply(size_t a, size_t b, size_t *out_product)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out_product = a * b;
    return true;
}

/* Bytes of a tensor whose rows are whole blocks; false on overflow. ggml_nbytes multiplies the first dimension by the
 * block size before it divides: a quantised row of 2^59 elements wraps around and a huge tensor looks small. */
static bool tensor_bytes(const gguf_file_tensor *tensor, size_t *out_bytes)
{
    assert(tensor->dims[0] > 0 && tensor->dims[0] % ggml_blck_size(tensor->type) == 0);
    size_t bytes = ggml_type_size(tensor->type);
    bool fits = multiply(bytes, (size_t)(tensor->dims[0] / ggml_blck_size(tensor->type)), &bytes);
    for (int d = 1; d < GGML_MAX_DIMS && fits; d++)
        fits = multiply(bytes, (size_t)tensor->dims[d], &bytes);
    *out_bytes = bytes;
    return fits;
}

static bool has_f32_form(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != NULL;
}

static qsa_status place_tensor(const gguf_shard *shard, uint64_t offset, gguf_file_tensor *tensor)
{
    const size_t start = shard->head.data_offset;
    if (!tensor_bytes(tensor, &tensor->bytes))
        return engine_fail(QSA_E_FORMAT, "%s: tensor '%s' is larger than any file", shard->name, tensor->name);
    if (start > shard->bytes || offset > shard->bytes - start || tensor->bytes > shard->bytes - start - offset)
        return engine_fail(QSA_E_FORMAT,
                           "%s: truncated: tensor '%s' takes %zu bytes at offset %" PRIu64
                           " of the data, the file has %zu bytes of data",
                           shard->name, tensor->name, tensor->bytes, offset,
                           start > shard->bytes ? (size_t)0 : shard->bytes - start);
    tensor->data = shard->data + start + offset;
    return QSA_OK;
}

static qsa_status check_type(const gguf_shard *shard, const gguf_tensor_info *info)
{
    if (info->type >= GGML_TYPE_COUNT || ggml_blck_size((enum ggml_type)info->type) == 0)
        return engine_fail(QSA_E_FORMAT, "%s: tensor '%s' has invalid ggml type %" PRIu32, shard->name, info->name,
                           info->type);
    const enum ggml_type type = (enum ggml_type)info->type;
    if (!has_f32_form(type))
        return engine_fail(QSA_E_UNSUPPORTED, "%s: tensor '%s' has type %s, which cannot be converted to f32",
                           shard->name, info->name, ggml_type_name(type));
    if (info->dims[0] % ggml_blck_size(type) != 0)
        return engine_fail(QSA_E_FORMAT,
                           "%s: tensor '%s' has rows of %" PRId64 " elements, no multiple of the %" PRId64
                           " in a block of %s",
                           shard->name, info->name, info->dims[0], ggml_blck_size(type), ggml_type_name(type));
    return QSA_OK;
}

qsa_status gguf_shard_tensor(const gguf_shard *shard, size_t i, uint64_t *offset, gguf_file_tensor *out_tensor)
{
    assert(i < gguf_shard_tensor_count(shard) && offset != NULL && out_tensor != NULL);
    const gguf_tensor_info *info = &shard->head.tensors[i];
    ENGINE_TRY(check_type(shard, info));
    if (info->offset != *offset)
        return engine_fail(QSA_E_FORMAT, "%s: tensor '%s' has offset %" PRIu64 ", expected %" PRIu64, shard->name,
                           info->name, info->offset, *offset);
    gguf_file_tensor tensor = {.name = info->name, .type = (enum ggml_type)info->type};
    memcpy(tensor.dims, info->dims, sizeof tensor.dims);
    ENGINE_TRY(place_tensor(shard, info->offset, &tensor));
    const uint64_t alignment = shard->head.alignment;
    *offset += (tensor.bytes + alignment - 1) / alignment * alignment;
    *out_tensor = tensor;
    return QSA_OK;
}
