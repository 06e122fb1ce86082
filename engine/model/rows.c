/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* madvise */
#include "model/rows.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct fetch {
    const row_lookup *lookup;
    uintptr_t page_bytes;
} fetch;

/* Unit: a row. It may begin and end within pages. */
static void task_fetch(const void *context, const void *operation, size_t begin, size_t end)
{
    (void)context;
    const fetch *f = operation;
    const qsa_weights *table = f->lookup->table;
    for (size_t i = begin; i < end; i++) {
        const uintptr_t at = (uintptr_t)table->data + (size_t)f->lookup->rows[i] * table->row_bytes;
        const uintptr_t page = at & ~(f->page_bytes - 1);
        (void)madvise((void *)page, at + table->row_bytes - page, MADV_WILLNEED); /* without it: slower */
    }
}

void rows_fetch(pass *p, const row_lookup *lookup)
{
    enum { GRAIN = 64 /* a call takes about a microsecond */ };
    const fetch f = {lookup, (uintptr_t)sysconf(_SC_PAGESIZE)};
    run_task(p, task_fetch, &f, lookup->n, GRAIN);
}

static void task_look_up(const void *context, const void *operation, size_t begin, size_t end)
{
    (void)context;
    const row_lookup *l = operation;
    const size_t inner = l->table->inner;
    for (size_t i = begin; i < end; i++) {
        float *out = l->out + i * l->copies * inner;
        qsa_weights_row(l->table, (size_t)l->rows[i], out);
        for (size_t copy = 1; copy < l->copies; copy++)
            memcpy(out + copy * inner, out, inner * sizeof *out);
    }
}

void rows_look_up(pass *p, const row_lookup *lookup)
{
    run_task(p, task_look_up, lookup, lookup->n, rows_grain(lookup->table->inner));
}
