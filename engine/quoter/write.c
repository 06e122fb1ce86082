/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the file: keys and tensor list first, then one tensor after the other, so that memory holds one at a time. */
#define _POSIX_C_SOURCE 200809L

#include "quoter/metadata.h"
#include "quoter/plan.h"

#include "base/error.h"

#include <errno.h>
#include <gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static qsa_status no_memory(const char *what)
{
    return engine_fail(QSA_E_MEMORY, "quoter: no memory for %s", what);
}

/* The file under work. */
typedef struct output_file {
    const char *path;
    char *temporary; /* beside it */
    FILE *stream;
} output_file;

static qsa_status io_error(const output_file *out, const char *what)
{
    return engine_fail(QSA_E_IO, "quoter: %s %s: %s", what, out->path, strerror(errno));
}

static qsa_status write_bytes(output_file *out, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, out->stream) == size ? QSA_OK : io_error(out, "cannot write");
}

static int64_t count_rows(const quoter_tensor *tensor)
{
    int64_t rows = tensor->dims[1] ? tensor->dims[1] : 1;
    return tensor->dims[2] ? rows * tensor->dims[2] : rows;
}

static size_t count_elements(const quoter_tensor *tensor)
{
    return (size_t)(tensor->dims[0] * count_rows(tensor));
}

/* Elements in the tensor's type. out_bytes holds ggml_row_size(type, columns) * rows bytes. */
static qsa_status make_tensor(const quoter_plan *plan, const quoter_tensor *tensor, void *out_bytes)
{
    float *elements = calloc(count_elements(tensor), sizeof *elements);
    if (!elements)
        return no_memory(tensor->name);
    if (tensor->fill)
        tensor->fill(plan, tensor->layer, elements);
    ggml_quantize_chunk(tensor->type, elements, out_bytes, 0, count_rows(tensor), tensor->dims[0], NULL);
    free(elements);
    return QSA_OK;
}

static qsa_status write_tensor(const quoter_plan *plan, const quoter_tensor *tensor, size_t alignment, output_file *out)
{
    size_t bytes = ggml_row_size(tensor->type, tensor->dims[0]) * (size_t)count_rows(tensor);
    size_t padded = (bytes + alignment - 1) / alignment * alignment;
    char *data = calloc(1, padded);
    if (!data)
        return no_memory(tensor->name);
    qsa_status status = make_tensor(plan, tensor, data);
    if (status == QSA_OK)
        status = write_bytes(out, data, padded);
    free(data);
    return status;
}

static void describe_tensor(struct gguf_context *file, struct ggml_context *shapes, const quoter_tensor *tensor)
{
    int n_dims = tensor->dims[2] ? 3 : tensor->dims[1] ? 2 : 1;
    struct ggml_tensor *shape = ggml_new_tensor(shapes, tensor->type, n_dims, tensor->dims);
    ggml_set_name(shape, tensor->name);
    gguf_add_tensor(file, shape);
}

/* Keys and tensor list, padded to the alignment of the tensors. */
static qsa_status write_keys(const struct gguf_context *file, output_file *out)
{
    size_t size = gguf_get_meta_size(file);
    void *bytes = malloc(size);
    if (!bytes)
        return no_memory("the keys");
    gguf_get_meta_data(file, bytes);
    qsa_status status = write_bytes(out, bytes, size);
    free(bytes);
    return status;
}

static qsa_status write_head(const quoter_plan *plan, const quoter_tensor *tensors, size_t count, output_file *out)
{
    struct ggml_init_params parameters = {.mem_size = (count + 1) * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *shapes = ggml_init(parameters);
    struct gguf_context *file = gguf_init_empty();
    qsa_status status = QSA_OK;
    if (!shapes || !file) {
        status = no_memory("the tensor list");
    } else {
        quoter_set_keys(plan, file);
        for (size_t i = 0; i < count; i++)
            describe_tensor(file, shapes, &tensors[i]);
        status = write_keys(file, out);
    }
    gguf_free(file);
    ggml_free(shapes);
    return status;
}

static qsa_status write_all(const quoter_plan *plan, output_file *out)
{
    quoter_tensor *tensors = malloc(QUOTER_MAX_TENSORS * sizeof *tensors);
    if (!tensors)
        return no_memory("the tensor list");
    size_t count = quoter_list_tensors(plan, tensors);
    qsa_status status = write_head(plan, tensors, count, out);
    for (size_t i = 0; i < count && status == QSA_OK; i++)
        status = write_tensor(plan, &tensors[i], GGUF_DEFAULT_ALIGNMENT, out);
    free(tensors);
    return status;
}

/* Opens a file of an unused name beside the path. */
static qsa_status open_output(output_file *out)
{
    static const char suffix[] = ".XXXXXX";
    size_t length = strlen(out->path);
    out->temporary = malloc(length + sizeof suffix);
    if (!out->temporary)
        return no_memory("a path");
    memcpy(out->temporary, out->path, length);
    memcpy(out->temporary + length, suffix, sizeof suffix);
    int descriptor = mkstemp(out->temporary);
    if (descriptor < 0)
        return io_error(out, "cannot create");
    out->stream = fdopen(descriptor, "wb");
    if (out->stream && fchmod(descriptor, 0644) == 0)
        return QSA_OK;
    qsa_status status = io_error(out, "cannot create");
    if (out->stream)
        fclose(out->stream);
    else
        close(descriptor);
    unlink(out->temporary);
    return status;
}

/* Gives the complete file its name, or takes it away if status says that it is none. */
static qsa_status close_output(output_file *out, qsa_status status)
{
    if (status == QSA_OK && (fflush(out->stream) != 0 || fsync(fileno(out->stream)) != 0))
        status = io_error(out, "cannot write");
    if (fclose(out->stream) != 0 && status == QSA_OK)
        status = io_error(out, "cannot write");
    if (status == QSA_OK && rename(out->temporary, out->path) != 0)
        status = io_error(out, "cannot create");
    if (status != QSA_OK)
        unlink(out->temporary);
    return status;
}

qsa_status quoter_write(const char *path, const quoter_options *options)
{
    quoter_plan plan;
    output_file out = {.path = path};
    qsa_status status = quoter_plan_init(&plan, options);
    if (status == QSA_OK)
        status = open_output(&out);
    if (status == QSA_OK)
        status = close_output(&out, write_all(&plan, &out));
    free(out.temporary);
    quoter_plan_release(&plan);
    return status;
}
