/* The sections of a snapshot in memory, by the document alone: found, cut, stretched, and sealed again, so that a
 * changed snapshot is judged by what it says and not by its checksums. */
#ifndef PARTS_H
#define PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARTS_MAX = 96, PARTS_HEAD_BYTES = 16, PARTS_SECTION_HEAD_BYTES = 24, PARTS_HASH_BYTES = 8 };

typedef struct part {
    char tag[5]; /* with its zero */
    uint32_t number;
    uint64_t rows;
    size_t head_at, data_at, size;
} part;

/* Sections that lie whole within the bytes, at most PARTS_MAX. */
size_t parts_find(const uint8_t *data, size_t size, part out[PARTS_MAX]);

/* The section `tag` of that number; size 0 and data_at 0 if there is none. */
part parts_get(const uint8_t *data, size_t size, const char *tag, uint32_t number);

/* Recomputes the checksum of every section and of the whole. */
void parts_seal(uint8_t *data, size_t size);

#endif
