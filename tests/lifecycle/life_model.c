#include "life_model.h"

#define XXH_INLINE_ALL
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void walker_forget(walker *one)
{
    for (int layer = 0; layer < LIFE_LAYERS && one->modelled; layer++)
        oracle_close(&one->layer[layer]);
    one->modelled = one->digested = false;
}

void walker_cut(walker *one, uint32_t n)
{
    one->n = n;
    one->digested = false;
    for (int layer = 0; layer < LIFE_LAYERS && one->modelled; layer++)
        if (one->layer[layer].n > 0) /* a layer that the cache does not have is empty */
            oracle_truncate(&one->layer[layer], (int)n);
}

void walker_drop_front(walker *one, uint32_t n)
{
    if (n == 0)
        return;
    walker_forget(one);
    one->anchor += n;
    one->n -= n;
    memmove(one->ids, one->ids + n, one->n * sizeof *one->ids);
    memmove(one->relative, one->relative + n, one->n * sizeof *one->relative);
}

void walker_slide(const life *l, walker *one)
{
    uint64_t ratio = l->rules.config.ratio;
    if (one->window != 0 && one->n + UINT64_C(1) > one->window)
        walker_drop_front(one, (uint32_t)((one->n + 1 - one->window + ratio - 1) / ratio * ratio));
}

void walker_shift(walker *one, int64_t by)
{
    one->frame += by;
    one->anchor += one->placed ? by : 0;
    one->digested = false;
    for (int layer = 0; layer < LIFE_LAYERS && one->modelled; layer++) {
        one->layer[layer].frame = one->frame;
        one->layer[layer].anchor = one->anchor;
    }
}

void walker_window(walker *one, uint64_t window)
{
    one->window = window;
    one->digested = false;
    for (int layer = 0; layer < LIFE_LAYERS && one->modelled; layer++)
        one->layer[layer].window = (int)window;
}

void walker_clone(const walker *from, uint32_t n, qsa_seq seq, walker *to)
{
    to->open = true;
    to->placed = from->placed;
    to->images = from->images;
    to->seq = seq;
    to->anchor = from->anchor;
    to->frame = from->frame;
    to->window = from->window;
    to->n = n;
    to->modelled = to->digested = false;
    memcpy(to->ids, from->ids, n * sizeof *to->ids);
    memcpy(to->relative, from->relative, n * sizeof *to->relative);
}

void walker_append(walker *one, const life *l, const world_batch *batch, uint32_t first, uint32_t n)
{
    const uint32_t at = (uint32_t)one->layer[0].n;
    const int32_t frame = (int32_t)one->frame;
    qsa_triple *absolute = test_alloc(n, sizeof *absolute);
    for (uint32_t t = 0; t < n; t++) {
        const qsa_triple *r = &one->relative[at + t];
        absolute[t] = (qsa_triple){r->t + frame, r->h + frame, r->w + frame};
    }
    for (uint32_t layer = 0; layer < l->rules.config.layers; layer++)
        world_oracle_append(&one->layer[layer], batch, layer, first, n, absolute);
    one->digested = false;
    free(absolute);
}

void walker_need_model(const life *l, walker *one)
{
    if (one->modelled)
        return;
    for (int layer = 0; layer < LIFE_LAYERS; layer++)
        oracle_open(&one->layer[layer], &l->shape, one->anchor, one->frame, (int)one->window);
    one->modelled = true;
    if (one->n == 0)
        return;
    world_batch batch = world_batch_open(&l->rules.config, one->n, 0);
    for (uint32_t t = 0; t < one->n; t++)
        world_batch_set(&batch, t, one->ids[t]);
    walker_append(one, l, &batch, 0, one->n);
    world_batch_close(&batch);
}

uint64_t walker_digest(const life *l, walker *one)
{
    if (one->digested)
        return one->digest;
    walker_need_model(l, one);
    const qsa_config *config = &l->rules.config;
    const size_t kv = (size_t)config->kv_heads * config->head_dim, groups = one->n / config->ratio;
    const int64_t head[4] = {one->anchor, one->anchor + one->n, one->frame, (int64_t)one->window};
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    XXH3_64bits_update(&hash, head, sizeof head);
    XXH3_64bits_update(&hash, one->relative, one->n * sizeof *one->relative);
    for (uint32_t i = 0; i < 4 * config->layers && one->n > 0; i++) {
        const oracle_run *run = &one->layer[i % config->layers];
        const float *const arrays[4] = {run->k_stored, run->v_stored, run->raw_key, run->pooled};
        const size_t floats[4] = {one->n * kv, one->n * kv, (size_t)one->n * config->index_dim,
                                  groups * config->index_dim};
        uint32_t tensor = i / config->layers;
        XXH3_64bits_update(&hash, arrays[tensor], floats[tensor] * sizeof(float));
    }
    one->digest = XXH3_64bits_digest(&hash);
    one->digested = true;
    return one->digest;
}

static void compare_one(life *l, walker *one)
{
    qsa_seq_info info;
    life_expect(l, "query", qsa_seq_query(l->cache, one->seq, &info) == QSA_OK);
    life_expect(l, "the length", info.tokens == one->n && info.groups == one->n / l->rules.config.ratio);
    life_expect(l, "the anchor", info.anchor == one->anchor);
    life_expect(l, "the frontier", info.frontier == one->anchor + one->n);
    life_expect(l, "the frame and the window", info.rotary_frame == one->frame && info.window == one->window);
    uint64_t digest = 0;
    life_expect(l, "digest", qsa_seq_digest(l->cache, one->seq, &digest) == QSA_OK);
    life_expect(l, "the digest is not the oracle's", digest == walker_digest(l, one));
}

void life_compare(life *l)
{
    life_expect(l, "the invariants", qsa_cache_check(l->cache) == QSA_OK);
    for (uint32_t i = 0; i < l->rules.sequences; i++)
        if (l->walkers[i].open)
            compare_one(l, &l->walkers[i]);
}
