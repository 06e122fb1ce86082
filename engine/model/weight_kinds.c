/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weight_kinds.h"

#include <products/products.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* A tensor of layer `layer`; name without "blk.N.". */
static qsa_weight_kind kind_in_layer(const model_shape *shape, unsigned long layer, const char *name)
{
    if (layer >= shape->layers)
        return QSA_WEIGHT_UNUSED; /* a draft block */
    if (begins(name, "ffn_"))
        return QSA_WEIGHT_EXPERTS;
    if (begins(name, "hc_"))
        return QSA_WEIGHT_HYPER;
    if (begins(name, "ple_"))
        return shape->has_ngram[layer] ? QSA_WEIGHT_NGRAM : QSA_WEIGHT_UNUSED;
    if (begins(name, "indexer."))
        return shape->kinds[layer] == LAYER_QSA ? QSA_WEIGHT_ATTENTION : QSA_WEIGHT_UNUSED;
    if (begins(name, "attn_"))
        return shape->kinds[layer] == LAYER_QSA ? QSA_WEIGHT_ATTENTION : QSA_WEIGHT_DELTA;
    return begins(name, "ssm_") ? QSA_WEIGHT_DELTA : QSA_WEIGHT_UNUSED;
}

qsa_weight_kind weight_kind_of(const gguf_file *file, const model_shape *shape, const char *name)
{
    if (begins(name, "blk.")) {
        char *rest;
        const unsigned long layer = strtoul(name + strlen("blk."), &rest, 10);
        return kind_in_layer(shape, layer, rest + (*rest == '.'));
    }
    if (begins(name, "token_embd."))
        return gguf_file_find(file, "output.weight") != NULL ? QSA_WEIGHT_EMBEDDING : QSA_WEIGHT_HEAD;
    if (begins(name, "output."))
        return QSA_WEIGHT_HEAD;
    if (begins(name, "output_hc"))
        return QSA_WEIGHT_HYPER;
    return begins(name, "per_layer_token_embd.") ? QSA_WEIGHT_TABLE : QSA_WEIGHT_UNUSED;
}

bool weight_kind_is_resident(qsa_weight_kind kind)
{
    return kind != QSA_WEIGHT_EMBEDDING && kind != QSA_WEIGHT_TABLE && kind != QSA_WEIGHT_UNUSED;
}

bool weight_is_copied(const gguf_file_tensor *t, qsa_weight_storage storage)
{
    return t->type != GGML_TYPE_F32 && (storage == QSA_WEIGHTS_F32 || qsa_format_find((uint32_t)t->type) == NULL);
}

void weight_kinds_count(const gguf_file *file, const model_shape *shape, qsa_weight_storage storage,
                        uint64_t out_bytes[QSA_WEIGHT_KIND_COUNT])
{
    memset(out_bytes, 0, QSA_WEIGHT_KIND_COUNT * sizeof *out_bytes);
    for (size_t i = 0; i < gguf_file_tensor_count(file); i++) {
        const gguf_file_tensor *t = gguf_file_tensor_at(file, i);
        if (!weight_is_copied(t, storage))
            out_bytes[weight_kind_of(file, shape, t->name)] += t->bytes;
    }
}

const char *qsa_weight_kind_name(qsa_weight_kind kind)
{
    static const char *const names[] = {
        [QSA_WEIGHT_EXPERTS] = "experts",           [QSA_WEIGHT_DELTA] = "delta nets",
        [QSA_WEIGHT_ATTENTION] = "QSA layers",      [QSA_WEIGHT_HYPER] = "hyper-connections",
        [QSA_WEIGHT_NGRAM] = "n-gram embedding",    [QSA_WEIGHT_HEAD] = "output head",
        [QSA_WEIGHT_EMBEDDING] = "token embedding", [QSA_WEIGHT_TABLE] = "n-gram table",
        [QSA_WEIGHT_UNUSED] = "left out",
    };
    return (unsigned)kind < QSA_WEIGHT_KIND_COUNT ? names[kind] : "?";
}
