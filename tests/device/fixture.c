#include "fixture.h"

#include "base/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static qsa_opencl_api loaded;
static uint32_t number;

enum { SKIPPED = 77 };

void device_or_skip(void)
{
    bool usable = false;
    cl_device_id id;
    const char *why = "no OpenCL device can be used";
    if (qsa_opencl_load(QSA_OPENCL_LIBRARY, &loaded) != QSA_OK)
        why = qsa_error_detail();
    else
        for (uint32_t i = 0; !usable && qsa_opencl_find(&loaded, i, &id); i++) {
            qsa_device_info info;
            qsa_opencl_describe(&loaded, id, i, &info);
            usable = info.lacks[0] == 0;
            number = i;
        }
    if (usable)
        return;
    fprintf(stderr, "SKIP: %s\n", why);
    exit(SKIPPED);
}

const qsa_opencl_api *device_api(void)
{
    return &loaded;
}

const char *device_folder(void)
{
    mkdir(QSA_PROGRAM_FOLDER, 0777);
    return QSA_PROGRAM_FOLDER;
}

qsa_status device_open_with(const qsa_opencl_api *api, qsa_opencl_options options, qsa_opencl_device **out)
{
    if (options.program_folder == NULL)
        options.program_folder = device_folder();
    return qsa_opencl_open(api, number, &options, out);
}

qsa_opencl_device *device_open(qsa_opencl_options options)
{
    qsa_opencl_device *device;
    if (device_open_with(&loaded, options, &device) != QSA_OK)
        fail_msg("%s", qsa_error_detail());
    return device;
}

/* ---- two stores ---- */

float twins_weights = 3;

static void open_one(twins *t, twin *one, const qsa_operations *operations)
{
    qsa_carve measure = {0};
    operations->carve(&measure, &t->layout);
    one->memory_bytes = measure.used;
    one->memory = qsa_allocate(&qsa_default_allocator, measure.used);
    qsa_carve carve = {.base = one->memory};
    one->store = operations->carve(&carve, &t->layout);
    one->store->operations = operations;
    one->store->config = &t->config;
    one->store->layout = &t->layout;
    one->store->kernels = qsa_kernels_available(0);
    one->store->rotary = &t->rotary;
    one->store->allocator = &qsa_default_allocator;
    one->store->weights = t->weights;
    one->store->work = &one->work;
    if (operations->open(one->store) != QSA_OK)
        fail_msg("%s", qsa_error_detail());
}

void twins_open(twins *t, const qsa_config *config, qsa_opencl_device *device)
{
    memset(t, 0, sizeof *t);
    t->config = *config;
    t->config.device = &device->base;
    if (qsa_shape_check(config) != QSA_OK || qsa_layout_init(&t->config, &t->layout) != QSA_OK ||
        qsa_rotary_init(config, &t->rotary) != QSA_OK)
        fail_msg("%s", qsa_error_detail());
    const size_t n = config->layers * qsa_weight_floats(config);
    t->weights = test_alloc(n, sizeof *t->weights);
    random_source r = {n};
    for (size_t i = 0; i < n; i++)
        t->weights[i] = random_float(&r, ORDINARY, 0) * twins_weights;
    open_one(t, &t->host, &qsa_host_operations);
    open_one(t, &t->device, &qsa_opencl_operations);
}

static void close_one(twin *one)
{
    one->store->operations->close(one->store);
    qsa_release(&qsa_default_allocator, one->memory, one->memory_bytes);
}

void twins_close(twins *t)
{
    close_one(&t->host);
    close_one(&t->device);
    free(t->weights);
}

static void must(qsa_status status)
{
    if (status != QSA_OK)
        fail_msg("%s", qsa_error_detail());
}

static void put_one(twin *one, enum qsa_arena arena, uint32_t layer, uint32_t page, const uint8_t *bytes, size_t n)
{
    uint8_t *view;
    must(one->store->operations->view(one->store, arena, layer, page, &view));
    memcpy(view, bytes, n);
    must(one->store->operations->put(one->store, arena, layer, page));
}

void twins_put(twins *t, enum qsa_arena arena, uint32_t layer, uint32_t page, const uint8_t *bytes)
{
    put_one(&t->host, arena, layer, page, bytes, t->layout.page_stride[arena]);
    put_one(&t->device, arena, layer, page, bytes, t->layout.page_stride[arena]);
}

/* A stored number that is finite and of ordinary size in every 16-bit type. */
static uint16_t random_half(random_source *r, bool bf16)
{
    const uint16_t sign = (uint16_t)(random_next(r) & 0x8000u), low = (uint16_t)(random_next(r) & 0x3ffu);
    if (random_chance(r, 16))
        return (uint16_t)(sign | low); /* small, or subnormal */
    return (uint16_t)(sign | (bf16 ? 0x3e00u + low : 0x2c00u + low * 8u));
}

static void random_values(random_source *r, enum qsa_element element, bool k, uint8_t *out, size_t n)
{
    if (element == QSA_ELEMENT_F32)
        random_fill(r, (float *)(void *)out, n / sizeof(float), 3);
    else if (element != QSA_ELEMENT_Q8_0)
        for (size_t i = 0; i < n / 2; i++)
            ((uint16_t *)(void *)out)[i] = random_half(r, element == QSA_ELEMENT_BF16);
    else
        for (size_t i = 0; i < n; i++) {
            const size_t chunk = k ? QSA_K_CHUNK_BYTES : QSA_V_CHUNK_BYTES, scales = k ? 8 : 2;
            const bool scale = i % chunk < scales;
            out[i] = (uint8_t)random_next(r);
            if (scale && i % 2 == 1) /* the high byte of an f16: positive, below 8 */
                out[i] = (uint8_t)(out[i] % 0x48);
            else if (!scale && out[i] == 0x80)
                out[i] = 0x81;
        }
}

static void random_page(random_source *r, const qsa_layout *layout, enum qsa_arena arena, uint8_t *out)
{
    const size_t bytes = (size_t)layout->page_stride[arena];
    if (arena != QSA_ARENA_KV) {
        random_values(r, layout->index_element, false, out, bytes);
        return;
    }
    for (uint32_t head = 0; head < layout->config.kv_heads; head++)
        for (uint32_t slot = 0; slot < QSA_PAGE_TOKENS; slot += QSA_BLOCK_TOKENS) {
            random_values(r, layout->kv_element, true, out + qsa_layout_k_block(layout, head, slot),
                          layout->block_bytes);
            random_values(r, layout->kv_element, false, out + qsa_layout_v_token(layout, head, slot),
                          layout->block_bytes);
        }
}

void twins_fill(twins *t, random_source *r)
{
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++) {
        const size_t bytes = t->layout.page_stride[arena];
        uint8_t *page = test_alloc(bytes, 1);
        for (uint32_t layer = 0; layer < t->config.layers; layer++)
            for (uint32_t p = 0; p < t->layout.pages; p++) {
                random_page(r, &t->layout, arena, page);
                twins_put(t, arena, layer, p, page);
            }
        free(page);
    }
}

uint64_t twins_differ(twins *t)
{
    uint64_t differ = 0;
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++)
        for (uint32_t layer = 0; layer < t->config.layers; layer++)
            for (uint32_t p = 0; p < t->layout.pages; p++) {
                uint8_t *expected, *found;
                must(t->host.store->operations->view(t->host.store, arena, layer, p, &expected));
                must(t->device.store->operations->view(t->device.store, arena, layer, p, &found));
                for (size_t i = 0; i < t->layout.page_stride[arena]; i++)
                    differ += expected[i] != found[i];
            }
    return differ;
}

/* ---- a batch ---- */

uint64_t batch_begin_page(const qsa_batch_entry *entry)
{
    return entry->first_slot / QSA_PAGE_TOKENS;
}

uint64_t batch_end_page(const qsa_batch_entry *entry)
{
    return (entry->first_slot + entry->stored + entry->tokens + QSA_PAGE_TOKENS - 1) / QSA_PAGE_TOKENS;
}

/* The numbers below n in random order. */
static uint32_t *shuffled(uint32_t n, random_source *r)
{
    uint32_t *all = test_alloc(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++)
        all[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        const size_t other = random_between(r, 0, i - 1);
        const uint32_t one = all[i - 1];
        all[i - 1] = all[other];
        all[other] = one;
    }
    return all;
}

/* A table for each entry: some of all pages and of all chunks, in random order. */
static void draw_tables(random_batch *b, const twins *t, random_source *r)
{
    const uint32_t pages = (uint32_t)t->layout.pages;
    const uint32_t chunks = (uint32_t)qsa_chunks_limit(pages, t->config.max_sequences);
    uint32_t *page = shuffled(pages, r), *next_page = page, used = 0;
    b->tables = test_alloc((size_t)chunks * QSA_CHUNK_PAGES, sizeof *b->tables);
    b->directory = shuffled(chunks, r);
    for (uint32_t e = 0; e < b->batch.n_entries; e++) {
        qsa_batch_entry *entry = &b->entries[e];
        entry->first_slot += (uint32_t)random_between(r, 0, QSA_CHUNK_PAGES - 1) * QSA_PAGE_TOKENS;
        entry->n_chunks = (uint32_t)((batch_end_page(entry) + QSA_CHUNK_PAGES - 1) / QSA_CHUNK_PAGES);
        entry->table = (qsa_table){b->tables, b->directory + used};
        used += entry->n_chunks;
        assert_true(used <= chunks);
        for (uint64_t i = batch_begin_page(entry); i < batch_end_page(entry); i++)
            *qsa_table_at(&entry->table, i) = *next_page++;
        assert_true(next_page <= page + pages);
    }
    free(page);
}

static qsa_query query_at(const twins *t, const batch_plan *plan, uint64_t visible)
{
    const uint32_t ratio = t->config.ratio;
    qsa_query query = {.end_group = visible / ratio, .tail = visible / ratio * ratio};
    query.n_tail = (uint32_t)(visible - query.tail);
    if (plan->window > 0 && query.end_group > plan->window)
        query.first_group = query.end_group - plan->window;
    return query;
}

static void add_units(random_batch *b, const twins *t, const qsa_batch_entry *entry)
{
    const uint64_t ratio = t->config.ratio, end = entry->stored + entry->tokens;
    for (uint64_t offset = entry->stored; offset < end;) {
        const uint64_t group = offset / ratio * ratio, stop = group + ratio < end ? group + ratio : end;
        qsa_append_task *unit = &b->tasks[b->batch.n_tasks++];
        *unit = (qsa_append_task){.first = qsa_batch_place(entry, group),
                                  .first_token = entry->first_token + (uint32_t)(offset - entry->stored),
                                  .skipped = (uint32_t)(offset - group),
                                  .tokens = (uint32_t)(stop - offset),
                                  .complete = stop == group + ratio};
        unit->rotary_row = unit->complete && unit->skipped > 0 ? b->batch.n_rows++ : unit->first_token;
        offset = stop;
    }
}

void batch_make(random_batch *b, const twins *t, const batch_plan *plans, uint32_t n, random_source *r)
{
    memset(b, 0, sizeof *b);
    uint32_t tokens = 0;
    for (uint32_t e = 0; e < n; e++)
        tokens += plans[e].tokens;
    b->token_entry = test_alloc(tokens, sizeof *b->token_entry);
    b->queries = test_alloc(tokens, sizeof *b->queries);
    b->tasks = test_alloc(tokens, sizeof *b->tasks);
    b->batch = (qsa_batch){.n_entries = n, .n_tokens = tokens, .n_rows = tokens};
    uint32_t token = 0;
    for (uint32_t e = 0; e < n; e++) {
        const batch_plan *plan = &plans[e];
        b->entries[e] = (qsa_batch_entry){
            .first_slot = plan->first_slot, .first_token = token, .tokens = plan->tokens, .stored = plan->stored};
        for (uint32_t i = 0; i < plan->tokens; i++, token++) {
            b->token_entry[token] = e;
            b->queries[token] = query_at(t, plan, plan->stored + i + 1);
        }
    }
    draw_tables(b, t, r);
    for (uint32_t e = 0; e < n; e++)
        add_units(b, t, &b->entries[e]);
    assert_true(tokens <= t->config.max_step_tokens);
    const size_t floats = (size_t)b->batch.n_rows * 2 * t->rotary.pairs;
    b->cos_sin = test_alloc(floats, sizeof *b->cos_sin);
    for (size_t i = 0; i < floats; i++)
        b->cos_sin[i] = random_float(r, ORDINARY, 0);
    b->batch.entries = b->entries;
    b->batch.token_entry = b->token_entry;
    b->batch.queries = b->queries;
    b->batch.tasks = b->tasks;
    b->batch.cos_sin = b->cos_sin;
}

void batch_free(random_batch *b)
{
    free(b->tables);
    free(b->directory);
    free(b->token_entry);
    free(b->queries);
    free(b->tasks);
    free(b->cos_sin);
}

/* ---- input and output of a layer ---- */

enum { INPUTS = 5, OUTPUT = 5 };

typedef struct tensor_shape {
    uint32_t heads, dim;
} tensor_shape;

static tensor_shape shape_of(const qsa_config *c, int tensor)
{
    const tensor_shape shapes[] = {{c->q_heads, c->head_dim},  {c->kv_heads, c->head_dim},
                                   {c->kv_heads, c->head_dim}, {c->index_heads, c->index_dim},
                                   {1, c->index_dim},          {c->q_heads, c->head_dim}};
    return shapes[tensor];
}

static const qsa_strided *tensor_of(const layer_input *in, int tensor)
{
    const qsa_strided *const all[INPUTS] = {&in->io.tensors.q, &in->io.tensors.k, &in->io.tensors.v,
                                            &in->io.tensors.index_q, &in->io.tensors.raw_key};
    return all[tensor];
}

/* Tokens outermost or heads outermost, with gaps. */
static qsa_strided random_strides(tensor_shape s, uint32_t n_tokens, random_source *r, size_t *out_floats)
{
    const size_t gap = random_between(r, 0, 5);
    qsa_strided strides = {.head_stride = s.dim + gap,
                           .token_stride = (s.dim + gap) * s.heads + random_between(r, 0, 3)};
    *out_floats = strides.token_stride * n_tokens;
    if (random_chance(r, 3)) {
        strides = (qsa_strided){.token_stride = s.dim + gap, .head_stride = (s.dim + gap) * n_tokens + 1};
        *out_floats = strides.head_stride * s.heads;
    }
    return strides;
}

static const float MARK = 12345.0f;

void input_make(layer_input *in, const twins *t, uint32_t layer, uint32_t n_tokens, bool output, random_source *r)
{
    memset(in, 0, sizeof *in);
    in->io.layer = layer;
    qsa_strided made[OUTPUT + 1];
    for (int tensor = 0; tensor <= OUTPUT; tensor++) {
        size_t floats;
        const tensor_shape s = shape_of(&t->config, tensor);
        made[tensor] = random_strides(s, n_tokens, r, &floats);
        in->memory[tensor] = test_alloc(floats, sizeof(float));
        made[tensor].data = in->memory[tensor];
        for (size_t i = 0; i < floats; i++) /* what lies in gaps must not be looked at */
            in->memory[tensor][i] = tensor == OUTPUT ? MARK : NAN;
        for (uint32_t token = 0; token < n_tokens && tensor < OUTPUT; token++)
            for (uint32_t h = 0; h < s.heads; h++)
                random_fill(r, in->memory[tensor] + token * made[tensor].token_stride + h * made[tensor].head_stride,
                            s.dim, 4);
        in->out_floats = floats;
    }
    in->io.tensors = (qsa_tensors){made[0], made[1], made[2], made[3], made[4]};
    in->io.out = (qsa_output){output ? in->memory[OUTPUT] : NULL, made[OUTPUT].token_stride, made[OUTPUT].head_stride};
}

void input_free(layer_input *in)
{
    for (int tensor = 0; tensor <= OUTPUT; tensor++)
        free(in->memory[tensor]);
}

float *input_element(const layer_input *in, int tensor, uint32_t token, uint32_t head, uint32_t i)
{
    const qsa_strided *strided = tensor_of(in, tensor);
    return in->memory[tensor] + token * strided->token_stride + head * strided->head_stride + i;
}

qsa_status twin_layer(twin *one, const qsa_batch *batch, const qsa_layer_io *io, uint32_t parts)
{
    const uint32_t phases = io->out.data == NULL ? 1 : QSA_PHASES;
    for (uint32_t phase = 0; phase < phases && !qsa_refused(&one->refusals); phase++)
        for (uint32_t part = 0; part < parts; part++) {
            qsa_status status = one->store->operations->phase(one->store, batch, io, phase, part, parts);
            if (status != QSA_OK)
                return status;
        }
    return QSA_OK;
}

static void run_one(twin *one, random_batch *b, const qsa_layer_io *io, uint32_t parts)
{
    qsa_batch batch = b->batch;
    batch.refusals = &one->refusals;
    qsa_refusals_begin(&one->refusals);
    must(one->store->operations->begin(one->store, &batch));
    must(twin_layer(one, &batch, io, parts));
}

/* Selections of the batch's tokens that differ. */
static uint64_t selections_differ(twins *t, uint32_t n_tokens)
{
    const uint32_t k = t->config.budget / t->config.ratio;
    uint32_t *expected = test_alloc(k, sizeof *expected), *found = test_alloc(k, sizeof *found);
    uint64_t differ = 0;
    for (uint32_t token = 0; token < n_tokens; token++) {
        uint32_t n_expected, n_found;
        must(t->host.store->operations->selection(t->host.store, token, expected, &n_expected));
        must(t->device.store->operations->selection(t->device.store, token, found, &n_found));
        differ += n_expected != n_found || memcmp(expected, found, n_expected * sizeof *found) != 0;
    }
    free(expected);
    free(found);
    return differ;
}

uint64_t twins_run(twins *t, random_batch *b, uint32_t layer, random_source *r)
{
    layer_input in;
    const bool output = !random_chance(r, 4);
    input_make(&in, t, layer, b->batch.n_tokens, output, r);
    run_one(&t->host, b, &in.io, 1 + (uint32_t)random_between(r, 0, 2));
    float *expected = test_alloc(in.out_floats, sizeof *expected);
    memcpy(expected, in.memory[OUTPUT], in.out_floats * sizeof *expected);
    for (size_t i = 0; i < in.out_floats; i++)
        in.memory[OUTPUT][i] = MARK;
    run_one(&t->device, b, &in.io, 1 + (uint32_t)random_between(r, 0, 2));
    uint64_t differ = atomic_load(&t->host.refusals.lowest) != atomic_load(&t->device.refusals.lowest);
    for (size_t i = 0; i < in.out_floats; i++) /* gaps included: marks stay */
        differ += test_bits(expected[i]) != test_bits(in.memory[OUTPUT][i]);
    if (output)
        differ += selections_differ(t, b->batch.n_tokens);
    free(expected);
    input_free(&in);
    return differ + twins_differ(t);
}
