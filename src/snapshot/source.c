/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/source.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 16 };

qsa_status qsa_source_bad(const qsa_source *source, const char *what)
{
    return qsa_fail(QSA_E_FORMAT, "snapshot: %s (number %" PRIu32 "): %s", qsa_part_name(source->head.tag),
                    source->head.number, what);
}

qsa_status qsa_source_take(qsa_source *source, void *bytes, size_t size)
{
    if (size == 0)
        return QSA_OK;
    QSA_TRY(source->reader->read(source->reader->context, bytes, size));
    source->total += size;
    qsa_hash_add(&source->section, bytes, size);
    return QSA_OK;
}

qsa_status qsa_source_open(qsa_source *source, uint32_t tag, uint32_t number)
{
    qsa_hash_begin(&source->section);
    QSA_TRY(qsa_source_take(source, &source->head, sizeof source->head));
    if (source->head.tag != tag || source->head.number != number)
        return qsa_fail(QSA_E_FORMAT,
                        "snapshot: expected %s (number %" PRIu32 "), found %s (tag %08" PRIx32 ", number %" PRIu32 ")",
                        qsa_part_name(tag), number, qsa_part_name(source->head.tag), source->head.tag,
                        source->head.number);
    return QSA_OK;
}

qsa_status qsa_source_expect(qsa_source *source, uint32_t tag, uint32_t number, uint64_t rows, uint64_t size)
{
    QSA_TRY(qsa_source_open(source, tag, number));
    if (source->head.rows != rows || source->head.size_bytes != size)
        return qsa_fail(QSA_E_FORMAT,
                        "snapshot: %s (number %" PRIu32 ") has %" PRIu64 " rows in %" PRIu64 " bytes, expected %" PRIu64
                        " in %" PRIu64,
                        qsa_part_name(tag), number, source->head.rows, source->head.size_bytes, rows, size);
    return QSA_OK;
}

qsa_status qsa_source_close(qsa_source *source)
{
    uint64_t expected = qsa_hash_end(&source->section), found;
    QSA_TRY(source->reader->read(source->reader->context, &found, sizeof found));
    source->total += sizeof found;
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
