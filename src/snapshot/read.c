/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: checks the file's claims against each other and the cache, reads rows into pages that no sequence refers to,
 * then lets the cache adopt the sequences. */
#include "snapshot/config.h"
#include "snapshot/content.h"
#include "snapshot/source.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

typedef struct restore {
    qsa_source source;
    qsa_cache *cache; /* NULL: inspect */
    qsa_layout layout;
    qsa_content content;
    qsa_bytes sequences, table, extents, pages, rows; /* pages: [n_extents] u32; those taken so far are counted below */
    uint32_t n_pages;
    uint32_t n_sections;
    qsa_section sections[QSA_SNAPSHOT_MAX_SECTIONS];
} restore;

/* ---- the file's claims ---- */

static qsa_status read_head(restore *r)
{
    qsa_file_head head;
    QSA_TRY(qsa_source_take(&r->source, &head, sizeof head));
    qsa_hash_add(&r->source.whole, &head, sizeof head);
    if (memcmp(head.magic, QSA_SNAPSHOT_MAGIC, sizeof head.magic) != 0)
        return qsa_fail(QSA_E_FORMAT, "snapshot: wrong magic: not a qsa snapshot");
    if (head.version != QSA_SNAPSHOT_VERSION)
        return qsa_fail(QSA_E_UNSUPPORTED, "snapshot: version %" PRIu32 " in the file, %d here", head.version,
                        QSA_SNAPSHOT_VERSION);
    if (head.reserved != 0)
        return qsa_fail(QSA_E_FORMAT, "snapshot: head: reserved is %" PRIu32 ", not 0", head.reserved);
    return QSA_OK;
}

/* A section of `rows` items of one size. The file says how many, at most `limit`. */
static qsa_status read_items(restore *r, uint32_t tag, size_t item, uint64_t limit, qsa_bytes *out, uint32_t *out_n)
{
    qsa_source *source = &r->source;
    QSA_TRY(qsa_source_open(source, tag, 0));
    if (source->head.rows > limit || source->head.size_bytes != source->head.rows * item)
        return qsa_source_bad(source, "impossible number of rows or bytes");
    QSA_TRY(qsa_source_take_all(source, source->head.size_bytes, out));
    *out_n = (uint32_t)source->head.rows;
    return qsa_source_close(source);
}

static qsa_status check_extents(restore *r)
{
    qsa_content *c = &r->content;
    const uint64_t bytes = (uint64_t)c->n_extents * sizeof(qsa_file_extent);
    qsa_file_extent *expected = qsa_allocate(r->source.allocator, bytes);
    if (expected == NULL)
        return qsa_fail(QSA_E_MEMORY, "snapshot: no memory for %" PRIu32 " extents", c->n_extents);
    qsa_status status = qsa_content_extents(c, expected);
    for (uint32_t i = 0; status == QSA_OK && i < c->n_extents; i++)
        if (memcmp(&expected[i], &c->extents[i], sizeof *expected) != 0)
            status = qsa_fail(QSA_E_FORMAT,
                              "snapshot: extents: number %" PRIu32 " is [%" PRIu32 ", %" PRIu32
                              "), its sequences use [%" PRIu32 ", %" PRIu32 ")",
                              i, c->extents[i].begin, c->extents[i].end, expected[i].begin, expected[i].end);
    if (status == QSA_OK)
        status = qsa_content_check_distinct(c, (uint32_t *)(void *)expected); /* no longer needed */
    qsa_release(r->source.allocator, expected, bytes);
    return status;
}

static qsa_status read_config(restore *r, uint64_t model_digest)
{
    qsa_content *c = &r->content;
    QSA_TRY(qsa_source_expect(&r->source, QSA_TAG_CONFIG, 0, 1, sizeof c->config));
    QSA_TRY(qsa_source_take(&r->source, &c->config, sizeof c->config));
    QSA_TRY(qsa_source_close(&r->source));
    QSA_TRY(qsa_snapshot_check_shape(&c->config));
    if (r->cache != NULL)
        QSA_TRY(qsa_snapshot_compare(r->cache, model_digest, &c->config));
    qsa_config shape = qsa_snapshot_shape(&c->config);
    return qsa_layout_init(&shape, &r->layout);
}

static qsa_status read_claims(restore *r, uint64_t model_digest)
{
    qsa_content *c = &r->content;
    QSA_TRY(read_head(r));
    QSA_TRY(read_config(r, model_digest));
    QSA_TRY(
        read_items(r, QSA_TAG_SEQUENCES, sizeof(qsa_file_sequence), QSA_MAX_SEQUENCES, &r->sequences, &c->n_sequences));
    c->sequences = (qsa_file_sequence *)(void *)r->sequences.data;
    QSA_TRY(read_items(r, QSA_TAG_TABLES, sizeof(uint32_t), UINT32_MAX, &r->table, &c->n_table));
    c->table = (uint32_t *)(void *)r->table.data;
    QSA_TRY(qsa_content_check_sequences(c));
    QSA_TRY(read_items(r, QSA_TAG_EXTENTS, sizeof(qsa_file_extent), c->n_table, &r->extents, &c->n_extents));
    c->extents = (qsa_file_extent *)(void *)r->extents.data;
    QSA_TRY(check_extents(r));
    qsa_content_count(c);
    return QSA_OK;
}

/* ---- rows ---- */

static qsa_status allocate_bytes(restore *r, uint64_t size, qsa_bytes *out)
{
    out->data = qsa_allocate(r->source.allocator, size);
    out->capacity = size;
    if (out->data == NULL)
        return qsa_fail(QSA_E_MEMORY, "snapshot: no memory for %" PRIu64 " bytes", size);
    return QSA_OK;
}

static qsa_status take_pages(restore *r)
{
    assert(r->n_pages == 0);
    qsa_cache *cache = r->cache;
    QSA_TRY(allocate_bytes(r, qsa_extent_limit(&r->layout), &r->rows));
    if (cache == NULL)
        return QSA_OK;
    QSA_TRY(qsa_sequence_check_vacant(cache, r->content.n_sequences));
    if (r->content.n_extents > cache->n_free)
        return qsa_fail(QSA_E_FULL, "snapshot: %" PRIu32 " pages, %" PRIu32 " are free", r->content.n_extents,
                        cache->n_free);
    QSA_TRY(allocate_bytes(r, (uint64_t)r->content.n_extents * sizeof(uint32_t), &r->pages));
    for (; r->n_pages < r->content.n_extents; r->n_pages++)
        ((uint32_t *)(void *)r->pages.data)[r->n_pages] = qsa_page_take(cache);
    return QSA_OK;
}

static uint32_t page_of(const restore *r, uint32_t extent)
{
    assert(r->cache != NULL && extent < r->content.n_extents);
    return ((const uint32_t *)(const void *)r->pages.data)[extent];
}

static qsa_status read_triples(restore *r)
{
    const qsa_content *c = &r->content;
    QSA_TRY(qsa_source_expect(&r->source, QSA_TAG_TRIPLES, 0, c->rows, c->rows * sizeof(qsa_triple)));
    qsa_triple triples[QSA_PAGE_TOKENS];
    for (uint32_t i = 0; i < c->n_extents; i++) {
        uint32_t n = c->extents[i].end - c->extents[i].begin;
        assert(n > 0 && n <= QSA_PAGE_TOKENS);
        QSA_TRY(qsa_source_take(&r->source, triples, n * sizeof *triples));
        for (uint32_t t = 0; t < 3 * n; t++) {
            int32_t coordinate;
            memcpy(&coordinate, (const uint8_t *)triples + t * sizeof coordinate, sizeof coordinate);
            if (coordinate > QSA_MAX_ROTARY_OFFSET || coordinate < -QSA_MAX_ROTARY_OFFSET)
                return qsa_source_bad(&r->source, "a coordinate is beyond 2^24");
        }
        if (r->cache != NULL)
            memcpy(qsa_triple_at(r->cache, (qsa_place){page_of(r, i), c->extents[i].begin}), triples,
                   n * sizeof *triples);
    }
    return qsa_source_close(&r->source);
}

/* Largest magnitude among f16 values, as an integer: integers order like the numbers, NaN last. Signed, because the
 * baseline's vectors compare only signed integers. */
static int16_t worst_half(const uint8_t *bytes, uint64_t size)
{
    int16_t worst = 0;
    for (uint64_t i = 0; i < size / 2; i++) {
        int16_t x;
        memcpy(&x, bytes + 2 * i, 2);
        x = (int16_t)(x & 0x7fff);
        worst = x > worst ? x : worst;
    }
    return worst;
}

static int16_t worst_scale(const uint8_t *chunks, uint64_t size)
{
    int16_t worst = 0;
    for (uint64_t i = 0; i < size; i += QSA_V_CHUNK_BYTES) {
        int16_t scale = worst_half(chunks + i, sizeof scale);
        worst = scale > worst ? scale : worst;
    }
    return worst;
}

static int32_t worst_float(const uint8_t *bytes, uint64_t size)
{
    int32_t worst = 0;
    for (uint64_t i = 0; i < size / 4; i++) {
        int32_t x;
        memcpy(&x, bytes + 4 * i, 4);
        x &= 0x7fffffff;
        worst = x > worst ? x : worst;
    }
    return worst;
}

/* No stored value exceeds 2^57: inputs are at most 2^56, and norms of them with weights up to 2^40 are less. In f16 and
 * in the scales of q8_0 every finite number is smaller. */
static bool stored_values_possible(const uint8_t *bytes, uint64_t size, enum qsa_element element)
{
    switch (element) {
    case QSA_ELEMENT_F32:
        return worst_float(bytes, size) <= 0x5c000000;
    case QSA_ELEMENT_BF16:
        return worst_half(bytes, size) <= 0x5c00;
    case QSA_ELEMENT_F16:
        return worst_half(bytes, size) < 0x7c00;
    default:
        return worst_scale(bytes, size) < 0x7c00;
    }
}

static qsa_status read_tensor(restore *r, uint32_t layer, qsa_tensor tensor)
{
    const qsa_content *c = &r->content;
    assert(layer < r->layout.config.layers && (unsigned)tensor < QSA_TENSOR_COUNT);
    const uint32_t tag = qsa_tensor_tags[tensor];
    const bool index = tag == QSA_TAG_RAW || tag == QSA_TAG_POOLED;
    uint64_t size = 0;
    for (uint32_t i = 0; i < c->n_extents; i++)
        size += qsa_extent_bytes(&r->layout, tensor, &c->extents[i]);
    QSA_TRY(qsa_source_expect(&r->source, tag, layer, tag == QSA_TAG_POOLED ? c->pooled_rows : c->rows, size));
    for (uint32_t i = 0; i < c->n_extents; i++) {
        uint64_t bytes = qsa_extent_bytes(&r->layout, tensor, &c->extents[i]);
        QSA_TRY(qsa_source_take(&r->source, r->rows.data, (size_t)bytes));
        if (!stored_values_possible(r->rows.data, bytes, index ? r->layout.index_element : r->layout.kv_element))
            return qsa_source_bad(&r->source, "a value is not finite or beyond 2^57");
        if (r->cache != NULL)
            QSA_TRY(qsa_extent_unpack(r->cache, layer, tensor, page_of(r, i), &c->extents[i], r->rows.data));
    }
    return qsa_source_close(&r->source);
}

static qsa_status read_section(restore *r)
{
    assert(r->n_sections < QSA_SNAPSHOT_MAX_SECTIONS);
    qsa_source *source = &r->source;
    qsa_hash_begin(&source->section);
    QSA_TRY(qsa_source_take(source, &source->head, sizeof source->head));
    if (source->head.tag != QSA_TAG_HOST || source->head.rows != 1)
        return qsa_source_bad(source, "expected a host section");
    for (uint32_t i = 0; i < r->n_sections; i++)
        if (r->sections[i].tag == source->head.number)
            return qsa_source_bad(source, "repeated");
    qsa_bytes bytes;
    QSA_TRY(qsa_source_take_all(source, source->head.size_bytes, &bytes));
    r->sections[r->n_sections++] = (qsa_section){source->head.number, bytes.data, bytes.size};
    return qsa_source_close(source);
}

static qsa_status read_end(restore *r)
{
    uint64_t expected = qsa_hash_end(&r->source.whole), found;
    QSA_TRY(qsa_source_expect(&r->source, QSA_TAG_END, 0, 1, sizeof found));
    QSA_TRY(qsa_source_take(&r->source, &found, sizeof found));
    if (found != expected)
        return qsa_source_bad(&r->source, "checksum of the whole does not match");
    return qsa_source_close(&r->source);
}

static qsa_status read_all(restore *r, uint64_t model_digest)
{
    QSA_TRY(read_claims(r, model_digest));
    QSA_TRY(take_pages(r));
    QSA_TRY(read_triples(r));
    for (uint32_t layer = 0; layer < r->content.config.layers; layer++)
        for (int tensor = 0; tensor < QSA_TENSOR_COUNT; tensor++)
            QSA_TRY(read_tensor(r, layer, tensor));
    for (uint32_t i = 0; i < r->content.config.host_sections; i++)
        QSA_TRY(read_section(r));
    return read_end(r);
}

/* ---- the result ---- */

static void free_result(qsa_snapshot *snapshot)
{
    const qsa_allocator *allocator = &snapshot->allocator;
    qsa_release(allocator, snapshot->sections, snapshot->n_sections * sizeof(qsa_section));
    qsa_release(allocator, snapshot->sequences, snapshot->n_sequences * sizeof(qsa_seq));
    qsa_release(allocator, snapshot->infos, snapshot->n_sequences * sizeof(qsa_seq_info));
}

static qsa_status allocate_result(const restore *r, qsa_snapshot *out)
{
    const qsa_allocator *allocator = r->source.allocator;
    out->allocator = *allocator;
    out->n_sequences = r->content.n_sequences;
    out->n_sections = r->n_sections;
    out->sequences = r->cache == NULL ? NULL : qsa_allocate(allocator, out->n_sequences * sizeof(qsa_seq));
    out->infos = qsa_allocate(allocator, out->n_sequences * sizeof(qsa_seq_info));
    out->sections = qsa_allocate(allocator, out->n_sections * sizeof(qsa_section));
    if ((r->cache != NULL && out->sequences == NULL) || out->infos == NULL || out->sections == NULL) {
        free_result(out);
        return qsa_fail(QSA_E_MEMORY, "snapshot: no memory for the result");
    }
    return QSA_OK;
}

/* Opens the sequences, all or none. */
static qsa_status publish(restore *r, qsa_snapshot *out)
{
    assert(r->n_pages == r->content.n_extents);
    static const uint32_t none = 0; /* an empty sequence has no entry of the table to point to */
    qsa_content *c = &r->content;
    uint32_t at = 0;
    for (uint32_t i = 0; i < c->n_table; i++) /* from here on the table holds page numbers */
        c->table[i] = page_of(r, c->table[i]);
    for (uint32_t n = 0; n < c->n_sequences; at += c->sequences[n++].n_pages) {
        const qsa_file_sequence *from = &c->sequences[n];
        const qsa_sequence model = {.anchor = from->anchor,
                                    .frontier = from->frontier,
                                    .frame = from->frame,
                                    .window = from->window,
                                    .first_slot = from->first_slot,
                                    .placed = from->placed};
        const uint32_t *pages = from->n_pages == 0 ? &none : c->table + at;
        qsa_status status = qsa_sequence_adopt(r->cache, &model, pages, &out->sequences[n]);
        if (status != QSA_OK) {
            while (n > 0)
                qsa_sequence_close(r->cache, &r->cache->sequences[out->sequences[--n].slot]);
            return status;
        }
    }
    return QSA_OK;
}

static void describe(const restore *r, qsa_snapshot *out)
{
    for (uint32_t i = 0; i < out->n_sequences; i++) {
        const qsa_file_sequence *s = &r->content.sequences[i];
        uint64_t tokens = (uint64_t)(s->frontier - s->anchor);
        out->infos[i] = (qsa_seq_info){.anchor = s->anchor,
                                       .frontier = s->frontier,
                                       .rotary_frame = s->frame,
                                       .window = s->window,
                                       .tokens = tokens,
                                       .groups = tokens / r->content.config.ratio,
                                       .pages = s->n_pages};
    }
    if (out->n_sections > 0)
        memcpy(out->sections, r->sections, out->n_sections * sizeof(qsa_section));
    out->version = QSA_SNAPSHOT_VERSION;
    out->model_digest = r->content.config.model_digest;
    out->tokens = r->content.rows;
    out->size_bytes = r->source.total;
    out->config = qsa_snapshot_shape(&r->content.config);
    out->config.capacity_tokens = 0;
    out->config.max_sequences = out->config.max_step_tokens = out->config.max_parts = 0;
}

/* Opened sequences have references of their own to the pages. */
static void free_restore(restore *r)
{
    const qsa_allocator *allocator = r->source.allocator;
    while (r->n_pages > 0)
        qsa_page_drop(r->cache, page_of(r, --r->n_pages));
    qsa_bytes_free(allocator, &r->sequences);
    qsa_bytes_free(allocator, &r->table);
    qsa_bytes_free(allocator, &r->extents);
    qsa_bytes_free(allocator, &r->pages);
    qsa_bytes_free(allocator, &r->rows);
}

static void free_sections(const qsa_allocator *allocator, const qsa_section *sections, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        qsa_release(allocator, (void *)(uintptr_t)sections[i].data, sections[i].size_bytes);
}

/* Does everything that can fail first, and publishes last. */
static qsa_status restore_all(restore *r, uint64_t model_digest, qsa_status (*at_end)(void *context), qsa_snapshot *out)
{
    QSA_TRY(read_all(r, model_digest));
    if (at_end != NULL)
        QSA_TRY(at_end(r->source.reader->context));
    QSA_TRY(allocate_result(r, out));
    qsa_status status = r->cache == NULL ? QSA_OK : publish(r, out);
    if (status != QSA_OK)
        free_result(out);
    return status;
}

qsa_status qsa_snapshot_restore(qsa_cache *cache, uint64_t model_digest, const qsa_reader *reader,
                                qsa_status (*at_end)(void *context), qsa_snapshot *out_snapshot)
{
    if (reader == NULL || reader->read == NULL || out_snapshot == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: NULL argument");
    restore r = {.cache = cache};
    r.source.reader = reader;
    r.source.explains = at_end != NULL;
    r.source.allocator = cache == NULL ? &qsa_default_allocator : &cache->allocator;
    qsa_hash_begin(&r.source.whole);
    qsa_hash_begin(&r.source.section);
    qsa_snapshot out = {0};
    if (cache != NULL)
        qsa_cache_hold(cache);
    qsa_status status = restore_all(&r, model_digest, at_end, &out);
    if (status == QSA_OK) {
        describe(&r, &out);
        *out_snapshot = out;
    } else {
        free_sections(r.source.allocator, r.sections, r.n_sections);
    }
    free_restore(&r);
    if (cache == NULL)
        return status;
    qsa_cache_release(cache);
    return qsa_cache_settled(cache, status);
}

qsa_status qsa_snapshot_read(qsa_cache *cache, uint64_t model_digest, const qsa_reader *reader,
                             qsa_snapshot *out_snapshot)
{
    QSA_TRY(qsa_cache_idle(cache));
    return qsa_snapshot_restore(cache, model_digest, reader, NULL, out_snapshot);
}

qsa_status qsa_snapshot_inspect(const qsa_reader *reader, qsa_snapshot *out_snapshot)
{
    return qsa_snapshot_restore(NULL, 0, reader, NULL, out_snapshot);
}

void qsa_snapshot_free(qsa_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    qsa_snapshot old = *snapshot;
    *snapshot = (qsa_snapshot){0}; /* first, for an allocator that comes back with it */
    free_sections(&old.allocator, old.sections, old.n_sections);
    free_result(&old);
}
