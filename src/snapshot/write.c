/* SPDX-License-Identifier: Apache-2.0 */
/* Writing: plans which pages go into a snapshot, then streams its sections to the host's writer. */
#include "base/carve.h"
#include "snapshot/content.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { LEAST_BUFFER_BYTES = 1 << 20 };

/* A section being written: its hash, and a buffer before the host's writer. The checksum of the file is computed over
 * the checksums of the sections, which cover everything. */
typedef struct stream {
    const qsa_writer *writer;
    bool explains;   /* the writer is the library's own: its failures set the detail */
    uint8_t *buffer; /* [capacity], at least the largest extent of any tensor */
    size_t capacity, filled;
    qsa_hash section, whole;
} stream;

static qsa_status call_writer(stream *s, const void *bytes, size_t size)
{
    const qsa_status status = s->writer->write(s->writer->context, bytes, size);
    if (status != QSA_OK && !s->explains)
        return qsa_fail(status, "snapshot: the host's writer returned %s", qsa_status_name(status));
    return status;
}

static qsa_status flush(stream *s)
{
    if (s->filled == 0)
        return QSA_OK;
    const size_t size = s->filled;
    s->filled = 0;
    return call_writer(s, s->buffer, size);
}

/* Room in the buffer for `size` bytes, at most its capacity. */
static qsa_status make_room(stream *s, size_t size, uint8_t **out)
{
    assert(size <= s->capacity && s->filled <= s->capacity);
    if (size > s->capacity - s->filled)
        QSA_TRY(flush(s));
    *out = s->buffer + s->filled;
    return QSA_OK;
}

static qsa_status put(stream *s, const void *bytes, size_t size)
{
    assert(s->filled <= s->capacity);
    if (size > s->capacity - s->filled)
        QSA_TRY(flush(s));
    if (size > s->capacity)
        return call_writer(s, bytes, size);
    if (size > 0)
        memcpy(s->buffer + s->filled, bytes, size);
    s->filled += size;
    return QSA_OK;
}

static qsa_status section_put(stream *s, const void *bytes, size_t size)
{
    qsa_hash_add(&s->section, bytes, size);
    return put(s, bytes, size);
}

static qsa_status section_begin(stream *s, uint32_t tag, uint32_t number, uint64_t rows, uint64_t size)
{
    const qsa_section_head head = {tag, number, rows, size};
    qsa_hash_begin(&s->section);
    return section_put(s, &head, sizeof head);
}

static qsa_status section_end(stream *s)
{
    uint64_t hash = qsa_hash_end(&s->section);
    qsa_hash_add(&s->whole, &hash, sizeof hash);
    return put(s, &hash, sizeof hash);
}

static qsa_status whole_section(stream *s, uint32_t tag, uint32_t number, uint64_t rows, const void *bytes,
                                uint64_t size)
{
    QSA_TRY(section_begin(s, tag, number, rows, size));
    QSA_TRY(section_put(s, bytes, (size_t)size));
    return section_end(s);
}

/* ---- what is written ---- */

typedef struct plan {
    const qsa_cache *cache;
    qsa_content content;
    uint32_t *pages;     /* [n_extents] the page of each extent */
    uint32_t *extent_of; /* [pages of the cache] UINT32_MAX: not seen yet */
    bool *named;         /* [max_sequences] sequences already written */
    void *memory;
    uint64_t memory_bytes;
} plan;

static void carve_plan(qsa_carve *carve, plan *p, uint32_t table)
{
    p->content.sequences = qsa_carve_bytes(carve, p->content.n_sequences, sizeof(qsa_file_sequence));
    p->content.table = qsa_carve_bytes(carve, table, sizeof(uint32_t));
    p->content.extents = qsa_carve_bytes(carve, table, sizeof(qsa_file_extent));
    p->pages = qsa_carve_bytes(carve, table, sizeof(uint32_t));
    p->extent_of = qsa_carve_bytes(carve, p->cache->layout.pages, sizeof(uint32_t));
    p->named = qsa_carve_bytes(carve, p->cache->layout.config.max_sequences, sizeof(bool));
}

static void plan_sequence(plan *p, uint32_t number, const qsa_sequence *sequence)
{
    assert(sequence->n_pages == qsa_sequence_pages(sequence));
    qsa_content *content = &p->content;
    assert(number < content->n_sequences);
    content->sequences[number] = (qsa_file_sequence){.anchor = sequence->anchor,
                                                     .frontier = sequence->frontier,
                                                     .frame = sequence->frame,
                                                     .window = sequence->window,
                                                     .first_slot = sequence->first_slot,
                                                     .n_pages = sequence->n_pages,
                                                     .placed = sequence->placed};
    for (uint32_t i = 0; i < sequence->n_pages; i++) {
        uint32_t page = *qsa_sequence_page(sequence, i);
        if (p->extent_of[page] == UINT32_MAX) {
            p->extent_of[page] = content->n_extents;
            p->pages[content->n_extents++] = page;
        }
        content->table[content->n_table++] = p->extent_of[page];
    }
}

static qsa_status make_plan(plan *p, const qsa_seq *sequences, size_t n)
{
    qsa_sequence *sequence;
    uint64_t table = 0;
    for (size_t i = 0; i < n; i++) {
        QSA_TRY(qsa_sequence_find(p->cache, sequences[i], &sequence));
        table += sequence->n_pages;
    }
    if (table > UINT32_MAX)
        return qsa_fail(QSA_E_LIMIT, "snapshot: %" PRIu64 " page table entries", table);
    p->content.n_sequences = (uint32_t)n;
    qsa_carve carve = {0};
    carve_plan(&carve, p, (uint32_t)table);
    p->memory_bytes = carve.used;
    p->memory = qsa_allocate(&p->cache->allocator, carve.used);
    if (p->memory == NULL)
        return qsa_fail(QSA_E_MEMORY, "snapshot: no memory for %" PRIu64 " bytes", p->memory_bytes);
    carve = (qsa_carve){.base = p->memory};
    carve_plan(&carve, p, (uint32_t)table);
    memset(p->extent_of, 0xff, p->cache->layout.pages * sizeof(uint32_t));
    memset(p->named, 0, p->cache->layout.config.max_sequences * sizeof(bool));
    for (size_t i = 0; i < n; i++) {
        QSA_TRY(qsa_sequence_find(p->cache, sequences[i], &sequence));
        if (p->named[sequences[i].slot])
            return qsa_fail(QSA_E_SEQUENCE, "snapshot: sequence %" PRIu32 " is named twice", sequences[i].slot);
        p->named[sequences[i].slot] = true;
        plan_sequence(p, (uint32_t)i, sequence);
    }
    assert(p->content.n_table == table);
    QSA_TRY(qsa_content_extents(&p->content, p->content.extents));
    qsa_content_count(&p->content);
    return QSA_OK;
}

static qsa_status write_triples(stream *s, const plan *p)
{
    const qsa_content *content = &p->content;
    QSA_TRY(section_begin(s, QSA_TAG_TRIPLES, 0, content->rows, content->rows * sizeof(qsa_triple)));
    for (uint32_t i = 0; i < content->n_extents; i++) {
        const qsa_file_extent *extent = &content->extents[i];
        QSA_TRY(section_put(s, qsa_triple_at(p->cache, (qsa_place){p->pages[i], extent->begin}),
                            (extent->end - extent->begin) * sizeof(qsa_triple)));
    }
    return section_end(s);
}

static qsa_status write_tensor(stream *s, const plan *p, uint32_t layer, qsa_tensor tensor)
{
    const qsa_content *content = &p->content;
    const uint32_t tag = qsa_tensor_tags[tensor];
    uint64_t size = 0;
    for (uint32_t i = 0; i < content->n_extents; i++)
        size += qsa_extent_bytes(&p->cache->layout, tensor, &content->extents[i]);
    QSA_TRY(section_begin(s, tag, layer, tag == QSA_TAG_POOLED ? content->pooled_rows : content->rows, size));
    for (uint32_t i = 0; i < content->n_extents; i++) { /* packed where it is written from */
        const size_t bytes = (size_t)qsa_extent_bytes(&p->cache->layout, tensor, &content->extents[i]);
        uint8_t *rows;
        QSA_TRY(make_room(s, bytes, &rows));
        QSA_TRY(qsa_extent_pack(p->cache, layer, tensor, p->pages[i], &content->extents[i], rows));
        qsa_hash_add(&s->section, rows, bytes);
        s->filled += bytes;
    }
    return section_end(s);
}

static qsa_status write_all(stream *s, const plan *p, const qsa_section *sections)
{
    const qsa_content *c = &p->content;
    const qsa_file_head head = {.magic = QSA_SNAPSHOT_MAGIC, .version = QSA_SNAPSHOT_VERSION};
    qsa_hash_add(&s->whole, &head, sizeof head);
    QSA_TRY(put(s, &head, sizeof head));
    QSA_TRY(whole_section(s, QSA_TAG_CONFIG, 0, 1, &c->config, sizeof c->config));
    QSA_TRY(whole_section(s, QSA_TAG_SEQUENCES, 0, c->n_sequences, c->sequences,
                          c->n_sequences * sizeof(qsa_file_sequence)));
    QSA_TRY(whole_section(s, QSA_TAG_TABLES, 0, c->n_table, c->table, (uint64_t)c->n_table * sizeof(uint32_t)));
    QSA_TRY(whole_section(s, QSA_TAG_EXTENTS, 0, c->n_extents, c->extents,
                          (uint64_t)c->n_extents * sizeof(qsa_file_extent)));
    QSA_TRY(write_triples(s, p));
    for (uint32_t layer = 0; layer < c->config.layers; layer++)
        for (int tensor = 0; tensor < QSA_TENSOR_COUNT; tensor++)
            QSA_TRY(write_tensor(s, p, layer, tensor));
    for (uint32_t i = 0; i < c->config.host_sections; i++)
        QSA_TRY(whole_section(s, QSA_TAG_HOST, sections[i].tag, 1, sections[i].data, sections[i].size_bytes));
    uint64_t whole = qsa_hash_end(&s->whole);
    QSA_TRY(whole_section(s, QSA_TAG_END, 0, 1, &whole, sizeof whole));
    return flush(s);
}

static qsa_status check_sections(const qsa_section *sections, size_t n)
{
    if (n > QSA_SNAPSHOT_MAX_SECTIONS)
        return qsa_fail(QSA_E_LIMIT, "snapshot: %zu host sections, at most %d", n, QSA_SNAPSHOT_MAX_SECTIONS);
    for (size_t i = 0; i < n; i++) {
        if (sections[i].data == NULL && sections[i].size_bytes > 0)
            return qsa_fail(QSA_E_ARGUMENT, "snapshot: host section %zu has no data", i);
        for (size_t j = 0; j < i; j++)
            if (sections[j].tag == sections[i].tag)
                return qsa_fail(QSA_E_ARGUMENT, "snapshot: host sections %zu and %zu have one tag", j, i);
    }
    return QSA_OK;
}

qsa_status qsa_snapshot_stream(const qsa_cache *cache, const qsa_seq *sequences, size_t n, const qsa_section *sections,
                               size_t n_sections, uint64_t model_digest, const qsa_writer *writer, bool explains)
{
    QSA_TRY(qsa_cache_idle(cache));
    if ((n > 0 && sequences == NULL) || (n_sections > 0 && sections == NULL) || writer == NULL ||
        writer->write == NULL || n > cache->layout.config.max_sequences)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: NULL argument or too many sequences");
    QSA_TRY(check_sections(sections, n_sections));
    plan p = {.cache = cache};
    p.content.config = qsa_snapshot_config(cache, model_digest, (uint32_t)n_sections);
    qsa_cache_hold(cache);
    qsa_status status = make_plan(&p, sequences, n);
    const uint64_t limit = qsa_extent_limit(&cache->layout);
    stream s = {.writer = writer,
                .explains = explains,
                .capacity = limit > LEAST_BUFFER_BYTES ? (size_t)limit : LEAST_BUFFER_BYTES};
    if (status == QSA_OK) {
        s.buffer = qsa_allocate(&cache->allocator, s.capacity);
        if (s.buffer == NULL)
            status = qsa_fail(QSA_E_MEMORY, "snapshot: no memory for a buffer");
    }
    if (status == QSA_OK) {
        qsa_hash_begin(&s.whole);
        status = write_all(&s, &p, sections);
    }
    qsa_release(&cache->allocator, s.buffer, s.capacity);
    qsa_release(&cache->allocator, p.memory, p.memory_bytes);
    qsa_cache_release(cache);
    return status;
}

qsa_status qsa_snapshot_write(const qsa_cache *cache, const qsa_seq *sequences, size_t n, const qsa_section *sections,
                              size_t n_sections, uint64_t model_digest, const qsa_writer *writer)
{
    return qsa_snapshot_stream(cache, sequences, n, sections, n_sections, model_digest, writer, false);
}
