/* SPDX-License-Identifier: Apache-2.0 */
/* Reads sections: heads, checksums, and arrays whose length the file claims. */
#include "snapshot/source.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 16 };

/* A section as messages name it: "K of layer 3". */
typedef struct label {
    char text[48];
} label;

static label label_of(uint32_t tag, uint32_t number)
{
    static const struct {
        uint32_t tag;
        const char *format;
    } names[] = {{QSA_TAG_CONFIG, "configuration"},
                 {QSA_TAG_SEQUENCES, "sequences"},
                 {QSA_TAG_TABLES, "page tables"},
                 {QSA_TAG_EXTENTS, "extents"},
                 {QSA_TAG_TRIPLES, "rotary triples"},
                 {QSA_TAG_K, "K of layer %" PRIu32},
                 {QSA_TAG_V, "V of layer %" PRIu32},
                 {QSA_TAG_RAW, "raw index keys of layer %" PRIu32},
                 {QSA_TAG_POOLED, "pooled index keys of layer %" PRIu32},
                 {QSA_TAG_HOST, "host section %" PRIu32},
                 {QSA_TAG_END, "end"}};
    label out;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].tag == tag) {
            snprintf(out.text, sizeof out.text, names[i].format, number);
            return out;
        }
    snprintf(out.text, sizeof out.text, "unknown section (tag %08" PRIx32 ")", tag);
    return out;
}

qsa_status qsa_source_bad(const qsa_source *source, const char *what)
{
    return qsa_fail(QSA_E_FORMAT, "snapshot: %s: %s", label_of(source->head.tag, source->head.number).text, what);
}

static qsa_status call_reader(qsa_source *source, void *bytes, size_t size)
{
    const qsa_status status = source->reader->read(source->reader->context, bytes, size);
    if (status != QSA_OK && !source->explains)
        return qsa_fail(status, "snapshot: the host's reader returned %s", qsa_status_name(status));
    source->total += size;
    return status;
}

qsa_status qsa_source_take(qsa_source *source, void *bytes, size_t size)
{
    if (size == 0)
        return QSA_OK;
    QSA_TRY(call_reader(source, bytes, size));
    qsa_hash_add(&source->section, bytes, size);
    return QSA_OK;
}

qsa_status qsa_source_open(qsa_source *source, uint32_t tag, uint32_t number)
{
    qsa_hash_begin(&source->section);
    QSA_TRY(qsa_source_take(source, &source->head, sizeof source->head));
    if (source->head.tag != tag || source->head.number != number)
        return qsa_fail(QSA_E_FORMAT, "snapshot: expected %s, found %s", label_of(tag, number).text,
                        label_of(source->head.tag, source->head.number).text);
    return QSA_OK;
}

qsa_status qsa_source_expect(qsa_source *source, uint32_t tag, uint32_t number, uint64_t rows, uint64_t size)
{
    QSA_TRY(qsa_source_open(source, tag, number));
    if (source->head.rows != rows || source->head.size_bytes != size)
        return qsa_fail(QSA_E_FORMAT,
                        "snapshot: %s has %" PRIu64 " rows in %" PRIu64 " bytes, expected %" PRIu64 " in %" PRIu64,
                        label_of(tag, number).text, source->head.rows, source->head.size_bytes, rows, size);
    return QSA_OK;
}

qsa_status qsa_source_close(qsa_source *source)
{
    uint64_t expected = qsa_hash_end(&source->section), found;
    QSA_TRY(call_reader(source, &found, sizeof found));
    qsa_hash_add(&source->whole, &expected, sizeof expected);
    if (found != expected)
        return qsa_source_bad(source, "checksum does not match");
    return QSA_OK;
}

static qsa_status grow(const qsa_allocator *allocator, qsa_bytes *bytes, uint64_t wanted)
{
    assert(bytes->size == bytes->capacity && wanted > bytes->capacity);
    uint64_t capacity = bytes->capacity == 0 ? FIRST_BYTES : 2 * bytes->capacity;
    if (capacity > wanted)
        capacity = wanted;
    uint8_t *data = qsa_allocate(allocator, capacity);
    if (data == NULL)
        return qsa_fail(QSA_E_MEMORY, "snapshot: no memory for %" PRIu64 " bytes", capacity);
    if (bytes->size > 0)
        memcpy(data, bytes->data, bytes->size);
    qsa_release(allocator, bytes->data, bytes->capacity);
    bytes->data = data;
    bytes->capacity = capacity;
    return QSA_OK;
}

qsa_status qsa_source_take_all(qsa_source *source, uint64_t size, qsa_bytes *out)
{
    *out = (qsa_bytes){0};
    while (out->size < size) {
        qsa_status status = out->size == out->capacity ? grow(source->allocator, out, size) : QSA_OK;
        if (status == QSA_OK)
            status = qsa_source_take(source, out->data + out->size, (size_t)(out->capacity - out->size));
        if (status != QSA_OK) {
            qsa_bytes_free(source->allocator, out);
            return status;
        }
        out->size = out->capacity;
    }
    return QSA_OK;
}

void qsa_bytes_free(const qsa_allocator *allocator, qsa_bytes *bytes)
{
    qsa_release(allocator, bytes->data, bytes->capacity);
    *bytes = (qsa_bytes){0};
}
