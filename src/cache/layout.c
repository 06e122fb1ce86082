/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/layout.h"

#include "base/status.h"

_Static_assert(sizeof(float) == 4 && sizeof(uint16_t) == 2, "element sizes");

static uint32_t element_bytes(enum qsa_element element)
{
    return element == QSA_ELEMENT_F32 ? 4 : 2;
}

qsa_status qsa_layout_init(const qsa_config *config, qsa_layout *out)
{
    qsa_layout layout = {
        .layers = config->layers,
        .kv_heads = config->kv_heads,
        .head_dim = config->head_dim,
        .index_dim = config->index_dim,
        .ratio = config->ratio,
        .page_groups = QSA_PAGE_TOKENS / config->ratio,
        .pages = (config->capacity_tokens + QSA_PAGE_TOKENS - 1) / QSA_PAGE_TOKENS,
        .kv_element = config->kv_type == QSA_KV_F32 ? QSA_ELEMENT_F32 : QSA_ELEMENT_BF16,
        .index_element = config->profile == QSA_PROFILE_F32 ? QSA_ELEMENT_F32 : QSA_ELEMENT_BF16,
    };
    layout.kv_bytes = element_bytes(layout.kv_element);
    layout.index_bytes = element_bytes(layout.index_element);
    uint64_t kv = (uint64_t)QSA_PAGE_TOKENS * layout.kv_heads * layout.head_dim * layout.kv_bytes;
    layout.page_stride[QSA_ARENA_K] = kv;
    layout.page_stride[QSA_ARENA_V] = kv;
    layout.page_stride[QSA_ARENA_RAW] = (uint64_t)QSA_PAGE_TOKENS * layout.index_dim * layout.index_bytes;
    layout.page_stride[QSA_ARENA_POOLED] = (uint64_t)layout.page_groups * layout.index_dim * layout.index_bytes;
    bool fits = qsa_multiply(layout.pages, QSA_PAGE_TOKENS * sizeof(qsa_triple), &layout.triple_bytes);
    uint64_t total = layout.triple_bytes;
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++) {
        fits = fits && qsa_multiply(layout.page_stride[arena], layout.pages, &layout.layer_stride[arena]) &&
               qsa_multiply(layout.layer_stride[arena], layout.layers, &layout.arena_bytes[arena]) &&
               qsa_add(total, layout.arena_bytes[arena], &total);
    }
    if (!fits || total > (uint64_t)INT64_MAX)
        return qsa_fail(QSA_E_LIMIT, "capacity_tokens: the cache would not fit in 2^63 bytes");
    *out = layout;
    return QSA_OK;
}
