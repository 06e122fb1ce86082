/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of one cache on an OpenCL device, and the buffers of its steps. */
#ifndef QSA_DEVICE_OPENCL_STORE_H
#define QSA_DEVICE_OPENCL_STORE_H

#include "device/opencl/opencl.h"

#include <assert.h>

/* A step as the kernels read it; layout.cl has the same structs. */
typedef struct device_token {
    uint64_t first_group, end_group, tail;
    uint32_t n_tail, entry, page, slot;
} device_token;

typedef struct device_entry {
    uint64_t directory, first_slot;
} device_entry;

typedef struct device_group {
    uint32_t page, slot, row;
} device_group;

_Static_assert(sizeof(device_token) == 40 && sizeof(device_entry) == 16 && sizeof(device_group) == 12,
               "structs that reach a device");
_Static_assert(QSA_CHUNK_PAGES == 128 && QSA_PAGE_TOKENS == 64, "as in layout.cl");

enum kernel_number { KERNEL_APPEND = 0, KERNEL_POOL, KERNEL_SCAN, KERNEL_MERGE, KERNEL_ATTEND, KERNEL_COPY, KERNELS };

enum buffer_number {
    BUFFER_WEIGHTS = 0,
    BUFFER_TOKENS,
    BUFFER_ENTRIES,
    BUFFER_TABLES,
    BUFFER_GROUPS,
    BUFFER_COS_SIN,
    BUFFER_IN,
    BUFFER_OUT,
    BUFFER_REFUSED,
    BUFFER_SELECTED,
    BUFFER_N_SELECTED,
    BUFFER_CANDIDATES,
    BUFFER_PARTIAL,
    BUFFER_N_PARTIAL,
    BUFFER_SLOTS,
    BUFFER_X,
    BUFFER_SPARE, /* a page of any arena */
    BUFFERS
};

/* How the kernels are compiled and launched for a shape. */
typedef struct opencl_plan {
    uint32_t width, group_width;  /* vector lanes: over dimensions, over groups of a page */
    uint32_t items;               /* work-items of a work-group */
    uint32_t heads, heads_scored; /* handled at once: query heads of one kv head; index heads */
    uint32_t budget_groups, candidates;
    uint32_t row_limit;
    uint32_t work_groups;       /* at most, in one launch */
    uint32_t in_stored, in_all; /* floats of a token's input */
} opencl_plan;

typedef struct opencl_store {
    qsa_store base;
    const qsa_opencl_device *device;
    opencl_plan plan;
    bool lost; /* pages are in an unknown state: every later operation fails */

    cl_command_queue queue;
    cl_program program;
    cl_kernel kernels[KERNELS];
    cl_mem buffers[BUFFERS];
    cl_mem *arenas; /* [layers][QSA_ARENA_COUNT] */

    /* host memory */
    device_token *tokens;  /* [max_step_tokens] */
    device_entry *entries; /* [max_step_tokens] */
    device_group *groups;  /* [max(max_step_tokens, groups of a page)] */
    uint32_t *tables;      /* [opencl_tables_limit] chunks of the step's sequences, then their directories */
    uint32_t *chunk_at;    /* [qsa_chunks_limit] a cache chunk's index among them */
    uint64_t *chunk_stamp; /* [qsa_chunks_limit] the last step that used the chunk */
    float *staging;        /* [max_step_tokens][in_all]: input going up, output coming down */
    uint8_t *page;         /* the page in view */

    /* of the step */
    uint64_t stamp; /* counts steps */
    uint32_t n_groups;
    bool any_drops;
    uint32_t ranges; /* of a query's pages */
} opencl_store;

static inline const qsa_opencl_api *opencl_api(const opencl_store *store)
{
    return &store->device->api;
}

static inline cl_mem opencl_arena(const opencl_store *store, uint32_t layer, enum qsa_arena arena)
{
    assert(layer < store->base.config->layers && (unsigned)arena < QSA_ARENA_COUNT);
    return store->arenas[layer * QSA_ARENA_COUNT + arena];
}

/* Work-groups that keep one unit of work busy, and ranges per query that do so. */
uint32_t opencl_ranges(const opencl_plan *plan, uint32_t n_tokens);

/* ---- calls, counted ---- */

qsa_status opencl_upload(opencl_store *store, cl_mem to, uint64_t offset, const void *from, uint64_t bytes);
qsa_status opencl_download(opencl_store *store, cl_mem from, uint64_t offset, void *to, uint64_t bytes);

enum { OPENCL_ARGUMENTS = 16 };

/* Arguments of a kernel, in order. */
typedef struct opencl_arguments {
    struct {
        size_t bytes;
        union {
            cl_mem memory;
            cl_uint number;
        } value;
    } list[OPENCL_ARGUMENTS];
    cl_uint count;
} opencl_arguments;

void opencl_memory(opencl_arguments *arguments, cl_mem memory);
void opencl_number(opencl_arguments *arguments, cl_uint number);
/* `units` of work: one work-group each, up to the plan's number. */
qsa_status opencl_launch(opencl_store *store, enum kernel_number kernel, const opencl_arguments *arguments,
                         uint64_t units);

/* Waits until the device has finished. */
qsa_status opencl_finish(opencl_store *store);

/* ---- operations of device.h on stores and pages; those on steps, and the table of all, are in step.c ---- */

qsa_store *opencl_carve(qsa_carve *carve, const qsa_layout *layout);
uint64_t opencl_device_bytes(const qsa_layout *layout);
qsa_status opencl_open_store(qsa_store *base);
void opencl_close_store(qsa_store *base);
qsa_status opencl_copy_page(qsa_store *base, uint32_t from, uint32_t to);
qsa_status opencl_swap_pages(qsa_store *base, uint32_t a, uint32_t b);
qsa_status opencl_copy_slots(qsa_store *base, qsa_place from, qsa_place to, uint32_t n);
qsa_status opencl_view(qsa_store *base, enum qsa_arena arena, uint32_t layer, uint32_t page, uint8_t **out);
qsa_status opencl_put(qsa_store *base, enum qsa_arena arena, uint32_t layer, uint32_t page);

#endif
