/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence that was saved and restored beside another one continues with the same bits. Damaged bytes are refused and
 * change nothing. */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/compare.h"
#include "verify/inputs.h"

#include <stdlib.h>
#include <string.h>

enum { SAVED_TOKENS = 200, MODEL_DIGEST = 7, FLIP_STRIDE_BITS = 4099 };

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity, at;
} bytes;

static qsa_status put(void *context, const void *data, size_t size)
{
    bytes *b = context;
    if (b->size + size > b->capacity) {
        uint8_t *more = memory_new(2 * (b->size + size), 1);
        if (b->size > 0)
            memcpy(more, b->data, b->size);
        free(b->data);
        b->data = more;
        b->capacity = 2 * (b->size + size);
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return QSA_OK;
}

static qsa_status take(void *context, void *data, size_t size)
{
    bytes *b = context;
    if (size > b->size - b->at)
        return QSA_E_FORMAT;
    memcpy(data, b->data + b->at, size);
    b->at += size;
    return QSA_OK;
}

static qsa_status save(const feed_run *run, bytes *out)
{
    const qsa_writer writer = {put, out};
    return qsa_snapshot_write(run->cache, &run->seq, 1, NULL, 0, MODEL_DIGEST, &writer);
}

static qsa_status restore(feed_run *run, bytes *from, qsa_snapshot *out)
{
    const qsa_reader reader = {take, from};
    from->at = 0;
    return qsa_snapshot_read(run->cache, MODEL_DIGEST, &reader, out);
}

/* Damaged bytes, read while a sequence is open. */
static void refuse_damage(report *r, feed_run *run, bytes *saved)
{
    const uint64_t before = digest_of(r, run), free_tokens = qsa_cache_free_tokens(run->cache);
    const size_t size = saved->size;
    qsa_snapshot snapshot;
    for (size_t bit = 0; bit < 8 * size; bit += FLIP_STRIDE_BITS) {
        saved->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        report_same(r, restore(run, saved, &snapshot) != QSA_OK, "bit %zu flipped: restored all the same", bit);
        saved->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t part = 0; part < 32; part++) {
        saved->size = size * part / 32;
        report_same(r, restore(run, saved, &snapshot) != QSA_OK, "cut at %zu bytes: restored all the same",
                    saved->size);
    }
    saved->size = size;
    report_same(r, digest_of(r, run) == before && qsa_cache_free_tokens(run->cache) == free_tokens,
                "damaged snapshots changed the cache");
    report_call(r, qsa_cache_check(run->cache), "check after damaged snapshots");
}

/* Restores into a cache that holds another sequence, saves again, continues. */
static void restore_case(report *r, const feed_run *expected, bytes *saved)
{
    const golden_case *c = expected->c;
    const feed_options options = {.chunk = 23, .parts = 3, .sequences = 2};
    feed_run run;
    bytes again = {0};
    qsa_snapshot snapshot;
    if (report_call(r, feed_open(&run, c, &options), "restore") &&
        report_call(r, feed_tokens(&run, 0, 50, &options), "restore")) {
        refuse_damage(r, &run, saved);
        if (report_call(r, restore(&run, saved, &snapshot), "restore")) {
            run.seq = snapshot.sequences[0];
            qsa_snapshot_free(&snapshot);
            if (report_call(r, save(&run, &again), "save"))
                report_same(r, again.size == saved->size && memcmp(again.data, saved->data, again.size) == 0,
                            "saved, restored, saved: other bytes");
            if (report_call(r, feed_tokens(&run, SAVED_TOKENS, c->n, &options), "restored"))
                compare_runs(r, "restored", expected, &run, SAVED_TOKENS);
        }
    }
    free(again.data);
    feed_close(&run);
}

void check_snapshots(report *r, bool quick)
{
    for (int types = 0; types < TYPES_COUNT; types += quick ? 3 : 1) {
        golden_case c = random_case(SHAPE_SMALL, 300, 2, types);
        feed_run expected;
        bytes saved = {0};
        if (report_call(r, feed_open(&expected, &c, &(feed_options){0}), "feed") &&
            report_call(r, feed_tokens(&expected, 0, SAVED_TOKENS, &(feed_options){0}), "feed") &&
            report_call(r, save(&expected, &saved), "save") &&
            report_call(r, feed_tokens(&expected, SAVED_TOKENS, c.n, &(feed_options){0}), "feed"))
            restore_case(r, &expected, &saved);
        free(saved.data);
        feed_close(&expected);
        golden_case_free(&c);
    }
}
