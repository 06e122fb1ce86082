#include "world.h"

#include "verify/oracle_case.h"

#include <stdlib.h>
#include <string.h>

qsa_config world_mini(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 3;
    config.q_heads = 2;
    config.kv_heads = 1;
    config.head_dim = 8;
    config.index_heads = 1;
    config.index_dim = 8;
    config.budget = 8;
    config.rotary_dim = 4;
    config.sections[0] = 1;
    config.sections[1] = 1;
    config.sections[2] = 0;
    config.theta = 10000;
    config.kv_type = QSA_KV_F32;
    config.profile = QSA_PROFILE_F32;
    config.capacity_tokens = 1024;
    config.max_sequences = 8;
    config.max_step_tokens = 512;
    return config;
}

void world_kv_type(qsa_config *config, int kv_type)
{
    config->kv_type = (qsa_kv_type)kv_type;
    if (config->kv_type == QSA_KV_Q8_0 && config->head_dim % 32 != 0)
        config->head_dim = 32;
}

qsa_config world_narrow(void)
{
    qsa_config config = world_mini();
    config.layers = 1;
    config.q_heads = 1;
    config.head_dim = 4;
    config.index_dim = 4;
    config.budget = 2048;
    config.kv_type = QSA_KV_BF16;
    config.profile = QSA_PROFILE_BF16;
    config.capacity_tokens = 8192;
    config.max_step_tokens = 4200;
    config.max_parts = 2;
    return config;
}

qsa_config world_released(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 1;
    config.capacity_tokens = 4096;
    config.max_step_tokens = 2112;
    config.max_parts = 3;
    return config;
}

void world_ok(qsa_status status)
{
    if (status != QSA_OK)
        fail_msg("%s: %s", qsa_status_name(status), qsa_error_detail());
}

void world_refused(qsa_status expected, const char *part, qsa_status found)
{
    if (found != expected)
        fail_msg("expected %s, found %s: %s", qsa_status_name(expected), qsa_status_name(found), qsa_error_detail());
    if (strstr(qsa_error_detail(), part) == NULL)
        fail_msg("the detail \"%s\" does not hold \"%s\"", qsa_error_detail(), part);
}

/* ---- tokens ---- */

static uint32_t width_of(const qsa_config *config, int tensor)
{
    switch (tensor) {
    case WORLD_Q:
        return config->q_heads * config->head_dim;
    case WORLD_K:
    case WORLD_V:
        return config->kv_heads * config->head_dim;
    case WORLD_INDEX_Q:
        return config->index_heads * config->index_dim;
    default:
        return config->index_dim;
    }
}

static float *base_of(const world_batch *batch, int tensor)
{
    float *const bases[WORLD_INPUTS] = {batch->q, batch->k, batch->v, batch->index_q, batch->raw_key};
    return bases[tensor];
}

float *world_input(const world_batch *batch, int tensor, uint32_t token, uint32_t layer, uint32_t *out_width)
{
    uint32_t width = width_of(&batch->config, tensor);
    if (out_width != NULL)
        *out_width = width;
    return base_of(batch, tensor) + ((size_t)token * batch->config.layers + layer) * width;
}

world_batch world_batch_open(const qsa_config *config, uint32_t tokens, uint32_t first_id)
{
    world_batch batch = {.config = *config, .tokens = tokens};
    const size_t rows = (size_t)tokens * config->layers;
    batch.q = test_alloc(rows * width_of(config, WORLD_Q), sizeof(float));
    batch.k = test_alloc(rows * width_of(config, WORLD_K), sizeof(float));
    batch.v = test_alloc(rows * width_of(config, WORLD_V), sizeof(float));
    batch.index_q = test_alloc(rows * width_of(config, WORLD_INDEX_Q), sizeof(float));
    batch.raw_key = test_alloc(rows * width_of(config, WORLD_RAW_KEY), sizeof(float));
    batch.out = test_alloc(rows * width_of(config, WORLD_Q), sizeof(float));
    batch.groups = test_alloc(rows * (config->budget / config->ratio), sizeof(uint32_t));
    batch.n_groups = test_alloc(rows, sizeof(uint32_t));
    for (uint32_t t = 0; t < tokens; t++)
        world_batch_set(&batch, t, first_id + t);
    return batch;
}

void world_batch_set(world_batch *batch, uint32_t token, uint32_t id)
{
    for (uint32_t layer = 0; layer < batch->config.layers; layer++)
        for (int tensor = 0; tensor < WORLD_INPUTS; tensor++) {
            uint32_t width;
            float *x = world_input(batch, tensor, token, layer, &width);
            test_fill(((uint64_t)id * 16 + layer) * WORLD_INPUTS + (uint64_t)tensor, x, width);
        }
}

void world_batch_close(world_batch *batch)
{
    free(batch->q);
    free(batch->k);
    free(batch->v);
    free(batch->index_q);
    free(batch->raw_key);
    free(batch->out);
    free(batch->groups);
    free(batch->n_groups);
}

static qsa_strided strided(const world_batch *batch, int tensor, uint32_t first, uint32_t layer, uint32_t head_dim)
{
    uint32_t width;
    const float *data = world_input(batch, tensor, first, layer, &width);
    return (qsa_strided){data, (size_t)batch->config.layers * width, head_dim};
}

qsa_tensors world_tensors(const world_batch *batch, uint32_t first, uint32_t layer)
{
    const qsa_config *config = &batch->config;
    return (qsa_tensors){.q = strided(batch, WORLD_Q, first, layer, config->head_dim),
                         .k = strided(batch, WORLD_K, first, layer, config->head_dim),
                         .v = strided(batch, WORLD_V, first, layer, config->head_dim),
                         .index_q = strided(batch, WORLD_INDEX_Q, first, layer, config->index_dim),
                         .raw_key = strided(batch, WORLD_RAW_KEY, first, layer, 0)};
}

qsa_output world_output(const world_batch *batch, uint32_t first, uint32_t layer)
{
    const size_t width = width_of(&batch->config, WORLD_Q), layers = batch->config.layers;
    return (qsa_output){batch->out + (first * layers + layer) * width, layers * width, batch->config.head_dim};
}

/* ---- steps ---- */

static qsa_status run_parts(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out,
                            uint32_t parts)
{
    qsa_status status = qsa_layer_begin(step, layer, tensors, out);
    for (uint32_t phase = 0; phase < QSA_PHASES && status == QSA_OK; phase++)
        for (uint32_t part = parts; part-- > 0;) { /* any order will do; every part runs, or it would be missed */
            qsa_status one = qsa_layer_phase(step, phase, part, parts);
            status = status == QSA_OK ? one : status;
        }
    return status;
}

static qsa_status run_layer(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out,
                            world_way way)
{
    if (way.threads != NULL)
        return qsa_threads_layer(way.threads, step, layer, tensors, out);
    if (way.parts == 0)
        return qsa_step_layer(step, layer, tensors, out);
    return run_parts(step, layer, tensors, out, way.parts);
}

qsa_status world_layers(qsa_step *step, world_batch *batch, uint32_t first, uint32_t n, world_way way)
{
    const uint32_t layers = batch->config.layers, k = batch->config.budget / batch->config.ratio;
    for (uint32_t layer = 0; layer < layers; layer++) {
        qsa_tensors tensors = world_tensors(batch, first, layer);
        qsa_output out = world_output(batch, first, layer);
        qsa_status status = run_layer(step, layer, &tensors, &out, way);
        for (uint32_t t = 0; t < n && status == QSA_OK; t++) {
            size_t row = (size_t)(first + t) * layers + layer;
            status = qsa_step_selection(step, t, batch->groups + row * k, &batch->n_groups[row]);
        }
        if (status != QSA_OK)
            return status;
    }
    return QSA_OK;
}

void world_step(qsa_cache *cache, const qsa_entry *entries, size_t n, world_batch *batch, uint32_t first, world_way way,
                const uint32_t *keep)
{
    qsa_step *step;
    uint32_t tokens = 0;
    for (size_t e = 0; e < n; e++)
        tokens += entries[e].tokens;
    world_ok(qsa_step_begin(cache, entries, n, &step));
    world_ok(world_layers(step, batch, first, tokens, way));
    world_ok(qsa_step_commit(step, keep));
    world_ok(qsa_cache_check(cache));
}

void world_feed(qsa_cache *cache, qsa_seq seq, int64_t position, world_batch *batch, uint32_t first, uint32_t n,
                uint32_t chunk, world_way way)
{
    if (chunk == 0)
        chunk = n;
    for (uint32_t done = 0; done < n; done += chunk) {
        uint32_t tokens = n - done < chunk ? n - done : chunk;
        qsa_entry entry = {.seq = seq, .position = position + done, .tokens = tokens};
        world_step(cache, &entry, 1, batch, first + done, way, NULL);
    }
}

void world_same(const char *what, const world_batch *expected, uint32_t first_expected, const world_batch *found,
                uint32_t first_found, uint32_t n)
{
    const uint32_t layers = expected->config.layers, k = expected->config.budget / expected->config.ratio;
    const uint32_t width = width_of(&expected->config, WORLD_Q);
    for (uint32_t row = 0; row < n * layers; row++) {
        size_t e = (size_t)first_expected * layers + row, f = (size_t)first_found * layers + row;
        if (expected->n_groups[e] != found->n_groups[f] ||
            memcmp(expected->groups + e * k, found->groups + f * k, expected->n_groups[e] * sizeof(uint32_t)) != 0)
            fail_msg("%s: token %u, layer %u: another selection", what, row / layers, row % layers);
        if (memcmp(expected->out + e * width, found->out + f * width, width * sizeof(float)) != 0)
            fail_msg("%s: token %u, layer %u: another output", what, row / layers, row % layers);
    }
}

qsa_cache *world_create(const qsa_config *config)
{
    qsa_cache *cache = NULL;
    world_ok(qsa_cache_create(config, &cache));
    return cache;
}

qsa_seq world_open(qsa_cache *cache)
{
    qsa_seq seq = {0};
    world_ok(qsa_seq_open(cache, &seq));
    return seq;
}

uint64_t world_digest(qsa_cache *cache, qsa_seq seq)
{
    uint64_t digest = 0;
    world_ok(qsa_seq_digest(cache, seq, &digest));
    return digest;
}

uint64_t world_solo(const qsa_config *config, int64_t position, world_batch *batch, uint32_t chunk, world_way way)
{
    qsa_cache *cache = world_create(config);
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, position, batch, 0, batch->tokens, chunk, way);
    world_ok(qsa_seq_verify_index(cache, seq));
    uint64_t digest = world_digest(cache, seq);
    qsa_cache_destroy(cache);
    return digest;
}

/* ---- the oracle ---- */

oracle_shape world_oracle_shape(const qsa_config *config)
{
    static float ones[QSA_MAX_DIM];
    for (int i = 0; i < QSA_MAX_DIM; i++)
        ones[i] = 1;
    return oracle_shape_of(config, &(qsa_norm_weights){ones, ones, ones, ones});
}

/* Rows of one layer, packed: [n][width]. Free with free(). */
static float *packed(const world_batch *batch, int tensor, uint32_t layer, uint32_t first, uint32_t n)
{
    uint32_t width = width_of(&batch->config, tensor);
    float *rows = test_alloc((size_t)n * width, sizeof *rows);
    for (uint32_t t = 0; t < n; t++)
        memcpy(rows + (size_t)t * width, world_input(batch, tensor, first + t, layer, NULL), width * sizeof *rows);
    return rows;
}

void world_oracle_append(oracle_run *run, const world_batch *batch, uint32_t layer, uint32_t first, uint32_t n,
                         const qsa_triple *triples)
{
    float *rows[WORLD_INPUTS];
    for (int tensor = 0; tensor < WORLD_INPUTS; tensor++)
        rows[tensor] = packed(batch, tensor, layer, first, n);
    const oracle_tokens tokens = {.q = rows[WORLD_Q],
                                  .k = rows[WORLD_K],
                                  .v = rows[WORLD_V],
                                  .index_q = rows[WORLD_INDEX_Q],
                                  .raw_key = rows[WORLD_RAW_KEY],
                                  .triples = (const int32_t *)triples};
    oracle_refusal refusal;
    assert_true(oracle_append(run, (int)n, &tokens, &refusal));
    for (int tensor = 0; tensor < WORLD_INPUTS; tensor++)
        free(rows[tensor]);
}

/* Row of the library, from its groups. */
static uint32_t expand(const qsa_config *config, const uint32_t *groups, uint32_t n_groups, int offset, uint32_t *out)
{
    uint32_t n = 0;
    world_ok(qsa_selected_tokens(groups, n_groups, config->ratio, (uint64_t)offset + 1, out, &n));
    return n;
}

bool world_oracle_agrees(const oracle_run *run, int offset, const world_batch *batch, uint32_t token, uint32_t layer)
{
    const qsa_config *config = &batch->config;
    const size_t row = (size_t)token * config->layers + layer, width = width_of(config, WORLD_Q);
    const size_t longest = config->budget + config->ratio;
    int32_t *expected = test_alloc(longest, sizeof *expected);
    uint32_t *found = test_alloc(longest, sizeof *found);
    float *output = test_alloc(width, sizeof *output);
    int n_expected = oracle_row(run, offset, expected);
    uint32_t n_found =
        expand(config, batch->groups + row * (config->budget / config->ratio), batch->n_groups[row], offset, found);
    bool same = (uint32_t)n_expected == n_found && memcmp(expected, found, n_found * sizeof *found) == 0;
    if (same) {
        oracle_attend(run, offset, expected, n_expected, output);
        same = memcmp(output, batch->out + row * width, width * sizeof *output) == 0;
    }
    free(expected);
    free(found);
    free(output);
    return same;
}

/* ---- memory ---- */

static void *watch_allocate(void *context, size_t size_bytes, size_t alignment)
{
    world_memory *memory = context;
    if (++memory->calls == memory->fail_at)
        return NULL;
    int free_block = 0;
    while (free_block < WORLD_BLOCKS && memory->blocks[free_block].memory != NULL)
        free_block++;
    assert_true(free_block < WORLD_BLOCKS);
    void *block = aligned_alloc(alignment, (size_bytes + alignment - 1) / alignment * alignment);
    assert_non_null(block);
    if (memory->poison)
        memset(block, 0xff, size_bytes);
    memory->blocks[free_block].memory = block;
    memory->blocks[free_block].bytes = size_bytes;
    memory->live_bytes += size_bytes;
    return block;
}

static void watch_release(void *context, void *block, size_t size_bytes)
{
    world_memory *memory = context;
    for (int i = 0; i < WORLD_BLOCKS; i++)
        if (memory->blocks[i].memory == block) {
            assert_int_equal(memory->blocks[i].bytes, size_bytes);
            memory->blocks[i].memory = NULL;
            memory->live_bytes -= size_bytes;
            free(block);
            return;
        }
    fail_msg("memory is released that was not allocated");
}

qsa_allocator world_allocator(world_memory *memory)
{
    return (qsa_allocator){watch_allocate, watch_release, memory};
}

/* ---- chance ---- */

uint32_t world_random(uint64_t *state, uint32_t n)
{
    *state += 1;
    return (uint32_t)(golden_bits64(0x57a1, *state) % n);
}
