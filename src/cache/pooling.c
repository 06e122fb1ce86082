/* SPDX-License-Identifier: Apache-2.0 */
/* Pooled keys from the raw keys of pages; the same function when a group is completed and when it is verified. */
#include "cache/cache.h"
#include "index/rotary.h"

void qsa_pool_group(const qsa_cache *cache, uint32_t layer, qsa_place first, float *raw, float *out)
{
    const qsa_layout *layout = &cache->layout;
    for (uint32_t t = 0; t < layout->ratio; t++)
        qsa_load_raw(cache, layer, (qsa_place){first.page, first.slot + t}, raw + (size_t)t * layout->index_dim);
    float cos_sin[QSA_MAX_DIM];
    qsa_rotary_fill(&cache->rotary, *qsa_triple_at(cache, first), cos_sin);
    const qsa_pool_rule rule = {.dim = layout->index_dim,
                                .ratio = layout->ratio,
                                .pairs = cache->rotary.pairs,
                                .eps = cache->config.eps,
                                .bf16 = cache->config.profile == QSA_PROFILE_BF16,
                                .weight = qsa_cache_weights(cache, layer).index_k};
    qsa_pool_one(cache->kernels, &rule, raw, cos_sin, out);
}
