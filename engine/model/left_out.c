/* SPDX-License-Identifier: Apache-2.0 */
#include "model/left_out.h"

#include "base/error.h"
#include "model/known_keys.h"

#include <stdlib.h>
#include <string.h>

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool ends(const char *name, const char *with)
{
    const size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

/* ---- tensors ---- */

static bool is_draft(const model_shape *shape, const char *name)
{
    if (begins(name, "mtp.") || begins(name, "nextn."))
        return true;
    if (!begins(name, "blk."))
        return false;
    char *rest;
    const unsigned long layer = strtoul(name + strlen("blk."), &rest, 10);
    return *rest == '.' && layer >= shape->layers && layer - shape->layers < shape->draft_layers;
}

/* NULL: not known. */
static const char *tensor_reason(const model_shape *shape, const char *name)
{
    if (is_draft(shape, name))
        return "a block that drafts tokens (MTP); they are not drafted here";
    if (begins(name, "v.") || begins(name, "mm.") || begins(name, "a."))
        return "images and sound; this is a model of text";
    if (ends(name, ".input_scale"))
        return "scale of quantised activations; activations are not quantised with fixed scales here";
    return NULL;
}

static qsa_status check_tensor(const model_shape *shape, const gguf_file_tensor *t, qsa_left_out *out)
{
    const char *reason = tensor_reason(shape, t->name);
    if (reason == NULL) {
        return engine_fail(QSA_E_UNSUPPORTED,
                           "tensor %.80s is not known: what it is for "
                           "would be missing",
                           t->name);
    }
    *out = (qsa_left_out){.name = t->name, .reason = reason, .is_tensor = true, .bytes = t->bytes};
    return QSA_OK;
}

/* ---- the whole ---- */

static qsa_status collect_keys(const gguf_file *file, left_out *out)
{
    for (size_t i = 0; i < gguf_file_key_count(file); i++) {
        const char *key = gguf_file_key_at(file, i), *reason = NULL;
        if (!gguf_file_has(file, key))
            return engine_fail(QSA_E_UNSUPPORTED, "key %.80s is in a shard behind the first, where none is expected",
                               key);
        ENGINE_TRY(key_check(file, key, &reason));
        if (reason != NULL)
            out->items[out->count++] = (qsa_left_out){.name = key, .reason = reason};
    }
    return QSA_OK;
}

static qsa_status collect(const gguf_file *file, const model_shape *shape, const bool *bound, left_out *out)
{
    for (size_t i = 0; i < gguf_file_tensor_count(file); i++) {
        if (bound[i])
            continue;
        ENGINE_TRY(check_tensor(shape, gguf_file_tensor_at(file, i), &out->items[out->count]));
        out->count++;
    }
    return collect_keys(file, out);
}

qsa_status left_out_collect(const gguf_file *file, const model_shape *shape, const bool *bound, left_out *out)
{
    left_out list = {0};
    list.items = calloc(gguf_file_tensor_count(file) + gguf_file_key_count(file) + 1, sizeof *list.items);
    if (list.items == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a list of tensors");
    const qsa_status status = collect(file, shape, bound, &list);
    if (status != QSA_OK) {
        left_out_free(&list);
        return status;
    }
    *out = list;
    return QSA_OK;
}

void left_out_free(left_out *list)
{
    free(list->items);
    *list = (left_out){0};
}
