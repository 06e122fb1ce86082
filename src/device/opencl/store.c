/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a store, its pages, and the OpenCL calls that all operations use. */
#include "device/opencl/store.h"

#include "attend/attend.h"
#include "select/select.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static opencl_store *store_of(qsa_store *base)
{
    return (opencl_store *)(void *)base;
}

/* ---- the plan: how kernels are compiled and launched for a shape ---- */

enum { VECTOR_ITEMS = 16, SCALAR_ITEMS = 64, HEADS_AT_ONCE = 4, ROW_UNIT = 16, RANGES = 32 };
/* Limit on scratch that grows with the number of work-groups. */
#define SCRATCH_LIMIT_BYTES (UINT64_C(48) << 20)

/* The largest power of two up to `limit` that divides n. */
static uint32_t dividing_power(uint32_t n, uint32_t limit)
{
    uint32_t power = 1;
    while (2 * power <= limit && n % (2 * power) == 0)
        power *= 2;
    return power;
}

static uint32_t largest_divisor(uint32_t n, uint32_t limit)
{
    uint32_t divisor = limit;
    while (n % divisor != 0)
        divisor--;
    return divisor;
}

static uint64_t group_scratch(const opencl_plan *plan)
{
    return plan->candidates * sizeof(qsa_candidate) + 2 * (uint64_t)plan->budget_groups * sizeof(qsa_candidate) +
           plan->row_limit * (sizeof(uint64_t) + plan->heads * sizeof(float));
}

static opencl_plan plan_for(const qsa_opencl_device *device, const qsa_config *config)
{
    opencl_plan plan = {.items = device->width == 1 ? SCALAR_ITEMS : VECTOR_ITEMS,
                        .heads = largest_divisor(config->q_heads / config->kv_heads, HEADS_AT_ONCE),
                        .heads_scored = largest_divisor(config->index_heads, HEADS_AT_ONCE),
                        .budget_groups = config->budget / config->ratio};
    plan.width = dividing_power(config->head_dim, device->width);
    plan.group_width = dividing_power(QSA_PAGE_TOKENS / config->ratio, device->width);
    plan.candidates = qsa_selection_capacity(plan.budget_groups) + plan.items * plan.group_width;
    plan.row_limit = (config->budget + config->ratio - 1 + ROW_UNIT - 1) / ROW_UNIT * ROW_UNIT;
    plan.in_stored = 2 * config->kv_heads * config->head_dim + config->index_dim;
    plan.in_all = plan.in_stored + config->q_heads * config->head_dim + config->index_heads * config->index_dim;
    const uint64_t most = SCRATCH_LIMIT_BYTES / group_scratch(&plan);
    plan.work_groups = device->work_groups < most ? device->work_groups : (uint32_t)most;
    if (plan.work_groups == 0)
        plan.work_groups = 1;
    return plan;
}

uint32_t opencl_ranges(const opencl_plan *plan, uint32_t n_tokens)
{
    assert(n_tokens > 0);
    if (n_tokens >= plan->work_groups)
        return 1;
    uint32_t ranges = (plan->work_groups + n_tokens - 1) / n_tokens;
    return ranges < RANGES ? ranges : RANGES;
}

enum { OPTIONS_LIMIT = 2048 };

static qsa_status options_for(const opencl_store *store, char *out)
{
    const qsa_config *config = store->base.config;
    const opencl_plan *plan = &store->plan;
    int n = snprintf(
        out, OPTIONS_LIMIT,
        "-cl-std=CL1.2 -DQSA_WIDTH=%" PRIu32 " -DQSA_GROUP_WIDTH=%" PRIu32 " -DQSA_ITEMS=%" PRIu32
        " -DQSA_HEADS=%" PRIu32 " -DQSA_HEADS_SCORED=%" PRIu32 " -DQSA_BUDGET_GROUPS=%" PRIu32
        " -DQSA_CANDIDATES=%" PRIu32 " -DQSA_ROW_LIMIT=%" PRIu32 " -DQSA_KV=%d -DQSA_INDEX=%d -DQSA_RATIO=%" PRIu32
        " -DQSA_Q_HEADS=%" PRIu32 " -DQSA_KV_HEADS=%" PRIu32 " -DQSA_HEAD_DIM=%" PRIu32 " -DQSA_INDEX_HEADS=%" PRIu32
        " -DQSA_INDEX_DIM=%" PRIu32 " -DQSA_PAIRS=%" PRIu32 " -DQSA_EPS=%af -DQSA_QUERY_SCALE=%af %s",
        plan->width, plan->group_width, plan->items, plan->heads, plan->heads_scored, plan->budget_groups,
        plan->candidates, plan->row_limit, (int)store->base.layout->kv_element, (int)store->base.layout->index_element,
        config->ratio, config->q_heads, config->kv_heads, config->head_dim, config->index_heads, config->index_dim,
        store->base.rotary->pairs, (double)config->eps, (double)qsa_query_scale(config->head_dim),
        store->device->defines == NULL ? "" : store->device->defines);
    if (n < 0 || n >= OPTIONS_LIMIT)
        return qsa_fail(QSA_E_DEVICE, "opencl: the options of the compiler are too long");
    return QSA_OK;
}

/* ---- opening ---- */

static uint64_t page_bytes(const qsa_layout *layout)
{
    uint64_t most = 0;
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++)
        most = layout->page_stride[arena] > most ? layout->page_stride[arena] : most;
    return most;
}

static uint64_t chunks_limit(const qsa_layout *layout)
{
    return qsa_chunks_limit(layout->pages, layout->config.max_sequences);
}

static uint32_t groups_limit(const qsa_layout *layout)
{
    return layout->config.max_step_tokens > layout->page_groups ? layout->config.max_step_tokens : layout->page_groups;
}

/* Most numbers in the page tables of one step: chunks, and a directory per sequence. */
static uint64_t tables_limit(const qsa_layout *layout)
{
    const qsa_config *config = &layout->config;
    const uint64_t directory = qsa_directory_limit(layout->pages), chunks = chunks_limit(layout);
    const uint64_t entries =
        config->max_sequences < config->max_step_tokens ? config->max_sequences : config->max_step_tokens;
    return (chunks < entries * directory ? chunks : entries * directory) * QSA_CHUNK_PAGES + entries * directory;
}

qsa_store *opencl_carve(qsa_carve *carve, const qsa_layout *layout)
{
    const qsa_config *config = &layout->config;
    const qsa_opencl_device *device = (const qsa_opencl_device *)(const void *)config->device;
    opencl_store *store = qsa_carve_bytes(carve, 1, sizeof *store), local;
    memset(&local, 0, sizeof local);
    local.device = device;
    local.plan = plan_for(device, config);
    const uint64_t tokens = config->max_step_tokens;
    local.arenas = qsa_carve_bytes(carve, (uint64_t)config->layers * QSA_ARENA_COUNT, sizeof(cl_mem));
    local.tokens = qsa_carve_bytes(carve, tokens, sizeof *local.tokens);
    local.entries = qsa_carve_bytes(carve, tokens, sizeof *local.entries);
    local.groups = qsa_carve_bytes(carve, groups_limit(layout), sizeof *local.groups);
    local.tables = qsa_carve_bytes(carve, tables_limit(layout), sizeof *local.tables);
    local.chunk_at = qsa_carve_bytes(carve, chunks_limit(layout), sizeof *local.chunk_at);
    local.chunk_stamp = qsa_carve_bytes(carve, chunks_limit(layout), sizeof *local.chunk_stamp);
    local.staging = qsa_carve_bytes(carve, tokens * local.plan.in_all, sizeof(float));
    local.page = qsa_carve_bytes(carve, 1, page_bytes(layout));
    if (store == NULL)
        return NULL;
    memset(local.arenas, 0, (size_t)config->layers * QSA_ARENA_COUNT * sizeof(cl_mem));
    memset(local.chunk_stamp, 0, chunks_limit(layout) * sizeof *local.chunk_stamp);
    *store = local;
    return &store->base;
}

/* Makes the driver allocate at once: some drivers report only at first use that there is none. */
static qsa_status new_buffer(opencl_store *store, uint64_t bytes, cl_mem *out)
{
    const qsa_opencl_api *api = opencl_api(store);
    cl_int code;
    if (bytes > store->device->info.allocation_bytes)
        return qsa_fail(QSA_E_MEMORY, "%s allows %" PRIu64 " bytes in one piece, a layer needs %" PRIu64,
                        store->device->info.name, store->device->info.allocation_bytes, bytes);
    *out = api->clCreateBuffer(store->device->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (code != CL_SUCCESS) {
        *out = NULL;
        return qsa_opencl_check(code, "clCreateBuffer");
    }
    return qsa_opencl_check(
        api->clEnqueueMigrateMemObjects(store->queue, 1, out, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL),
        "clEnqueueMigrateMemObjects");
}

/* Bytes of all buffers but the arenas. */
static void size_buffers(const qsa_layout *layout, uint64_t out[BUFFERS])
{
    const qsa_config *config = &layout->config;
    const opencl_plan plan = plan_for((const qsa_opencl_device *)(const void *)config->device, config);
    const uint64_t tokens = config->max_step_tokens, groups = plan.work_groups;
    const uint64_t units = 2 * groups > RANGES ? 2 * groups : RANGES; /* ranges of all queries that are split */
    const uint64_t rows = 2 * tokens > groups_limit(layout) ? 2 * tokens : groups_limit(layout);
    const uint64_t sizes[BUFFERS] = {[BUFFER_WEIGHTS] = config->layers * qsa_weight_floats(config) * sizeof(float),
                                     [BUFFER_TOKENS] = tokens * sizeof(device_token),
                                     [BUFFER_ENTRIES] = tokens * sizeof(device_entry),
                                     [BUFFER_TABLES] = tables_limit(layout) * sizeof(uint32_t),
                                     [BUFFER_GROUPS] = groups_limit(layout) * sizeof(device_group),
                                     [BUFFER_COS_SIN] = rows * config->rotary_dim * sizeof(float),
                                     [BUFFER_IN] = tokens * plan.in_all * sizeof(float),
                                     [BUFFER_OUT] = tokens * config->q_heads * config->head_dim * sizeof(float),
                                     [BUFFER_REFUSED] = sizeof(cl_uint),
                                     [BUFFER_SELECTED] = tokens * plan.budget_groups * sizeof(uint32_t),
                                     [BUFFER_N_SELECTED] = tokens * sizeof(uint32_t),
                                     [BUFFER_CANDIDATES] = groups * plan.candidates * sizeof(qsa_candidate),
                                     [BUFFER_PARTIAL] = units * plan.budget_groups * sizeof(qsa_candidate),
                                     [BUFFER_N_PARTIAL] = units * sizeof(uint32_t),
                                     [BUFFER_SLOTS] = groups * plan.row_limit * sizeof(uint64_t),
                                     [BUFFER_X] = groups * plan.heads * plan.row_limit * sizeof(float),
                                     [BUFFER_SPARE] = page_bytes(layout)};
    memcpy(out, sizes, sizeof sizes);
}

uint64_t opencl_device_bytes(const qsa_layout *layout)
{
    uint64_t sizes[BUFFERS], sum = 0;
    size_buffers(layout, sizes);
    for (int i = 0; i < BUFFERS; i++)
        sum += sizes[i];
    return sum;
}

static qsa_status make_buffers(opencl_store *store)
{
    const qsa_layout *layout = store->base.layout;
    uint64_t sizes[BUFFERS];
    size_buffers(layout, sizes);
    for (int i = 0; i < BUFFERS; i++)
        QSA_TRY(new_buffer(store, sizes[i], &store->buffers[i]));
    for (uint32_t i = 0; i < layout->config.layers * QSA_ARENA_COUNT; i++)
        QSA_TRY(new_buffer(store, layout->layer_stride[i % QSA_ARENA_COUNT], &store->arenas[i]));
    return opencl_upload(store, store->buffers[BUFFER_WEIGHTS], 0, store->base.weights, sizes[BUFFER_WEIGHTS]);
}

static qsa_status make_kernels(opencl_store *store)
{
    static const char *const names[KERNELS] = {"append", "pool", "scan", "merge", "attend", "copy_slots"};
    char options[OPTIONS_LIMIT];
    QSA_TRY(options_for(store, options));
    QSA_TRY(qsa_opencl_build(store->device, qsa_opencl_kernels_source, options, &store->program));
    for (int i = 0; i < KERNELS; i++) {
        cl_int code;
        store->kernels[i] = opencl_api(store)->clCreateKernel(store->program, names[i], &code);
        if (code != CL_SUCCESS)
            store->kernels[i] = NULL;
        QSA_TRY(qsa_opencl_check(code, "clCreateKernel"));
    }
    return QSA_OK;
}

qsa_status opencl_open_store(qsa_store *base)
{
    opencl_store *store = store_of(base);
    cl_int code;
    store->queue = opencl_api(store)->clCreateCommandQueue(store->device->context, store->device->id, 0, &code);
    if (code != CL_SUCCESS)
        store->queue = NULL;
    QSA_TRY(qsa_opencl_check(code, "clCreateCommandQueue"));
    QSA_TRY(make_kernels(store));
    return make_buffers(store);
}

void opencl_close_store(qsa_store *base)
{
    opencl_store *store = store_of(base);
    const qsa_opencl_api *api = opencl_api(store);
    if (store->queue != NULL)
        api->clFinish(store->queue);
    for (int i = 0; i < BUFFERS; i++)
        if (store->buffers[i] != NULL)
            api->clReleaseMemObject(store->buffers[i]);
    for (uint32_t i = 0; base->config != NULL && i < base->config->layers * QSA_ARENA_COUNT; i++)
        if (store->arenas[i] != NULL)
            api->clReleaseMemObject(store->arenas[i]);
    for (int i = 0; i < KERNELS; i++)
        if (store->kernels[i] != NULL)
            api->clReleaseKernel(store->kernels[i]);
    if (store->program != NULL)
        api->clReleaseProgram(store->program);
    if (store->queue != NULL)
        api->clReleaseCommandQueue(store->queue);
}

/* ---- calls ---- */

static qsa_status check_alive(const opencl_store *store)
{
    if (store->lost)
        return qsa_fail(QSA_E_DEVICE, "%s failed while pages moved; the cache cannot be used any more",
                        store->device->info.name);
    return QSA_OK;
}

qsa_status opencl_upload(opencl_store *store, cl_mem to, uint64_t offset, const void *from, uint64_t bytes)
{
    QSA_TRY(check_alive(store));
    if (bytes == 0)
        return QSA_OK;
    QSA_TRY(qsa_opencl_check(
        opencl_api(store)->clEnqueueWriteBuffer(store->queue, to, CL_TRUE, offset, bytes, from, 0, NULL, NULL),
        "clEnqueueWriteBuffer"));
    store->base.work->bytes_uploaded += bytes;
    return QSA_OK;
}

qsa_status opencl_download(opencl_store *store, cl_mem from, uint64_t offset, void *to, uint64_t bytes)
{
    QSA_TRY(check_alive(store));
    if (bytes == 0)
        return QSA_OK;
    QSA_TRY(qsa_opencl_check(
        opencl_api(store)->clEnqueueReadBuffer(store->queue, from, CL_TRUE, offset, bytes, to, 0, NULL, NULL),
        "clEnqueueReadBuffer"));
    store->base.work->bytes_downloaded += bytes;
    return QSA_OK;
}

void opencl_memory(opencl_arguments *arguments, cl_mem memory)
{
    assert(memory != NULL && arguments->count < OPENCL_ARGUMENTS);
    arguments->list[arguments->count].bytes = sizeof memory;
    arguments->list[arguments->count++].value.memory = memory;
}

void opencl_number(opencl_arguments *arguments, cl_uint number)
{
    assert(arguments->count < OPENCL_ARGUMENTS);
    arguments->list[arguments->count].bytes = sizeof number;
    arguments->list[arguments->count++].value.number = number;
}

qsa_status opencl_launch(opencl_store *store, enum kernel_number number, const opencl_arguments *arguments,
                         uint64_t units)
{
    assert(number < KERNELS && store->kernels[number] != NULL);
    QSA_TRY(check_alive(store));
    if (units == 0)
        return QSA_OK;
    const cl_kernel kernel = store->kernels[number];
    for (cl_uint i = 0; i < arguments->count; i++)
        QSA_TRY(qsa_opencl_check(
            opencl_api(store)->clSetKernelArg(kernel, i, arguments->list[i].bytes, &arguments->list[i].value),
            "clSetKernelArg"));
    const size_t groups = units < store->plan.work_groups ? (size_t)units : store->plan.work_groups;
    const size_t items = store->plan.items, all = groups * items;
    QSA_TRY(qsa_opencl_check(
        opencl_api(store)->clEnqueueNDRangeKernel(store->queue, kernel, 1, NULL, &all, &items, 0, NULL, NULL),
        "clEnqueueNDRangeKernel"));
    store->base.work->launches++;
    return QSA_OK;
}

qsa_status opencl_finish(opencl_store *store)
{
    return qsa_opencl_check(opencl_api(store)->clFinish(store->queue), "clFinish");
}

/* ---- pages ---- */

static qsa_status copy_bytes(opencl_store *store, cl_mem from, uint64_t from_at, cl_mem to, uint64_t to_at,
                             uint64_t bytes)
{
    return qsa_opencl_check(
        opencl_api(store)->clEnqueueCopyBuffer(store->queue, from, to, from_at, to_at, bytes, 0, NULL, NULL),
        "clEnqueueCopyBuffer");
}

qsa_status opencl_copy_page(qsa_store *base, uint32_t from, uint32_t to)
{
    opencl_store *store = store_of(base);
    QSA_TRY(check_alive(store));
    for (uint32_t layer = 0; layer < base->layout->config.layers; layer++)
        for (int arena = 0; arena < QSA_ARENA_COUNT; arena++) {
            const uint64_t stride = base->layout->page_stride[arena];
            const cl_mem pages = opencl_arena(store, layer, arena);
            QSA_TRY(copy_bytes(store, pages, from * stride, pages, to * stride, stride));
        }
    return opencl_finish(store);
}

/* Exchanges one page of one arena with another. A failure in between leaves the two equal. */
static qsa_status swap_one(opencl_store *store, uint32_t number, uint32_t a, uint32_t b)
{
    const uint64_t stride = store->base.layout->page_stride[number % QSA_ARENA_COUNT];
    const cl_mem pages = store->arenas[number], spare = store->buffers[BUFFER_SPARE];
    QSA_TRY(copy_bytes(store, pages, a * stride, spare, 0, stride));
    qsa_status status = copy_bytes(store, pages, b * stride, pages, a * stride, stride);
    if (status == QSA_OK)
        status = copy_bytes(store, spare, 0, pages, b * stride, stride);
    if (status != QSA_OK && copy_bytes(store, spare, 0, pages, a * stride, stride) != QSA_OK)
        store->lost = true;
    return status;
}

qsa_status opencl_swap_pages(qsa_store *base, uint32_t a, uint32_t b)
{
    opencl_store *store = store_of(base);
    QSA_TRY(check_alive(store));
    const uint32_t all = base->layout->config.layers * QSA_ARENA_COUNT;
    uint32_t done = 0;
    qsa_status status = QSA_OK;
    while (done < all && (status = swap_one(store, done, a, b)) == QSA_OK)
        done++;
    if (status == QSA_OK)
        status = opencl_finish(store);
    if (status == QSA_OK)
        return QSA_OK;
    char detail[256];
    qsa_copy_detail(detail, sizeof detail);
    while (done > 0 && !store->lost)
        store->lost = swap_one(store, --done, a, b) != QSA_OK;
    store->lost = store->lost || opencl_finish(store) != QSA_OK;
    return qsa_fail(status, "%s", detail);
}

qsa_status opencl_copy_slots(qsa_store *base, qsa_place from, qsa_place to, uint32_t n)
{
    opencl_store *store = store_of(base);
    for (uint32_t layer = 0; layer < base->layout->config.layers; layer++) {
        opencl_arguments arguments = {.count = 0};
        opencl_number(&arguments, from.page);
        opencl_number(&arguments, from.slot);
        opencl_number(&arguments, to.page);
        opencl_number(&arguments, to.slot);
        opencl_number(&arguments, n);
        opencl_memory(&arguments, opencl_arena(store, layer, QSA_ARENA_KV));
        opencl_memory(&arguments, opencl_arena(store, layer, QSA_ARENA_RAW));
        QSA_TRY(opencl_launch(store, KERNEL_COPY, &arguments, n));
    }
    return opencl_finish(store);
}

qsa_status opencl_view(qsa_store *base, enum qsa_arena arena, uint32_t layer, uint32_t page, uint8_t **out)
{
    opencl_store *store = store_of(base);
    const uint64_t stride = base->layout->page_stride[arena];
    QSA_TRY(opencl_download(store, opencl_arena(store, layer, arena), page * stride, store->page, stride));
    *out = store->page;
    return QSA_OK;
}

qsa_status opencl_put(qsa_store *base, enum qsa_arena arena, uint32_t layer, uint32_t page)
{
    opencl_store *store = store_of(base);
    const uint64_t stride = base->layout->page_stride[arena];
    return opencl_upload(store, opencl_arena(store, layer, arena), page * stride, store->page, stride);
}
