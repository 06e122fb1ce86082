/* Addresses beyond 31 and 32 bits, in sparse memory: pages of the cache and rows of the caller. */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "world.h"

#include "cache/cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *map_sparse(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void *sparse_allocate(void *context, size_t size_bytes, size_t alignment)
{
    (void)context;
    (void)alignment; /* a page of the system is aligned more than enough */
    return map_sparse(size_bytes);
}

static void sparse_release(void *context, void *memory, size_t size_bytes)
{
    (void)context;
    munmap(memory, size_bytes);
}

/* The page that is handed out as number `turn` from now. */
static void hand_out(qsa_cache *cache, uint32_t turn, uint32_t page)
{
    uint32_t at = 0, place = cache->n_free - 1 - turn;
    while (cache->free_pages[at] != page)
        at++;
    cache->free_pages[at] = cache->free_pages[place];
    cache->free_pages[place] = page;
}

/* K rows of 1,024 bytes: row 2,097,152 lies 2^31 bytes into its arena, row 4,194,304 lies at 2^32. */
static void pages_beyond_two_and_four_gibibytes(void **state)
{
    (void)state;
    const qsa_allocator allocator = {sparse_allocate, sparse_release, NULL};
    static const uint32_t pages[] = {65537, 65536, 65535, 32769, 32768, 32767, 0};
    enum { PAGES = sizeof pages / sizeof *pages, TOKENS = PAGES * QSA_PAGE_TOKENS };
    qsa_config config = world_mini(), small;
    config.layers = 1;
    config.q_heads = 2;
    config.kv_heads = 2;
    config.head_dim = 256;
    config.kv_type = QSA_KV_BF16;
    config.budget = 128;
    config.max_sequences = 2;
    config.capacity_tokens = UINT64_C(65538) * QSA_PAGE_TOKENS;
    small = config;
    small.capacity_tokens = TOKENS;
    config.allocator = &allocator;
    qsa_cache *cache = NULL;
    qsa_status status = qsa_cache_create(&config, &cache);
    if (status == QSA_E_MEMORY)
        skip(); /* the system maps no more than it has */
    world_ok(status);
    for (uint32_t i = 0; i < PAGES; i++)
        hand_out(cache, i, pages[i]);
    world_batch expected = world_batch_open(&config, TOKENS, 1), found = world_batch_open(&config, TOKENS, 1);
    uint64_t digest = world_solo(&small, 0, &expected, 0, (world_way){0});
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 0, &found, 0, TOKENS, 50, (world_way){.parts = 2});
    for (uint32_t i = 0; i < PAGES; i++)
        assert_int_equal(*qsa_sequence_page(&cache->sequences[seq.slot], i), pages[i]);
    world_same("pages far away", &expected, 0, &found, 0, TOKENS);
    assert_int_equal(world_digest(cache, seq), digest);
    world_ok(qsa_seq_verify_index(cache, seq));
    world_ok(qsa_cache_check(cache));
    qsa_cache_destroy(cache);
    world_batch_close(&expected);
    world_batch_close(&found);
}

/* One view whose rows hold all tensors of a token, `stride` floats apart. */
typedef struct view {
    float *memory;
    size_t bytes;
    qsa_tensors tensors;
    qsa_output out;
} view;

static bool open_view(view *v, const world_batch *batch, size_t stride)
{
    size_t at = 0;
    v->bytes = (batch->tokens * stride + 4096) * sizeof(float);
    v->memory = map_sparse(v->bytes);
    if (v->memory == NULL)
        return false;
    v->tensors = world_tensors(batch, 0, 0);
    qsa_strided *const places[WORLD_INPUTS] = {&v->tensors.q, &v->tensors.k, &v->tensors.v, &v->tensors.index_q,
                                               &v->tensors.raw_key};
    for (int tensor = 0; tensor < WORLD_INPUTS; tensor++) {
        uint32_t width = 0;
        for (uint32_t t = 0; t < batch->tokens; t++) {
            const float *x = world_input(batch, tensor, t, 0, &width);
            memcpy(v->memory + t * stride + at, x, width * sizeof *x);
        }
        places[tensor]->data = v->memory + at;
        places[tensor]->token_stride = stride;
        at += width;
    }
    v->out = (qsa_output){v->memory + at, stride, batch->config.head_dim};
    return true;
}

/* Through every path that reads or writes the caller's rows: check, append, pool, score, attend, output. */
static void strided_step(uint32_t tokens, size_t stride)
{
    qsa_config config = world_mini();
    config.layers = 1;
    config.capacity_tokens = config.max_step_tokens = 2048;
    world_batch batch = world_batch_open(&config, tokens, 1);
    view v;
    if (!open_view(&v, &batch, stride)) {
        world_batch_close(&batch);
        skip();
    }
    world_solo(&config, 0, &batch, 0, (world_way){0});
    qsa_cache *cache = world_create(&config);
    qsa_step *step;
    qsa_entry entry = {.seq = world_open(cache), .position = 0, .tokens = tokens};
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    world_ok(qsa_step_layer(step, 0, &v.tensors, &v.out));
    world_ok(qsa_step_commit(step, NULL));
    for (uint32_t t = 0; t < tokens; t++)
        test_same_floats("strided output", batch.out + t * 16, v.out.data + t * stride, 16);
    world_ok(qsa_seq_verify_index(cache, entry.seq));
    qsa_cache_destroy(cache);
    munmap(v.memory, v.bytes);
    world_batch_close(&batch);
}

/* Rows of 1,077,120 bytes: rows 1,993 and 1,994 lie on both sides of 2^31. */
static void rows_of_a_wide_view(void **state)
{
    (void)state;
    strided_step(1996, 1077120 / sizeof(float));
}

/* A stride of more than 2^31 elements, and one of just 2^30 whose second row lies at 2^32 bytes. */
static void strides_beyond_two_to_the_31(void **state)
{
    (void)state;
    strided_step(3, (size_t)1 << 30);
    strided_step(2, ((size_t)1 << 31) + 64);
}

static void offsets_of_a_layout_do_not_wrap(void **state)
{
    (void)state;
    qsa_config config;
    qsa_config_init(&config);
    config.capacity_tokens = UINT64_C(1) << 31;
    config.layers = 48;
    qsa_layout layout;
    world_ok(qsa_layout_init(&config, &layout));
    const uint64_t pages = UINT64_C(1) << 25, stride = 64 * 2 * 256 * 2 * 2;
    assert_int_equal(qsa_layout_page(&layout, QSA_ARENA_KV, 0, 254200), 254200 * stride);
    assert_int_equal(qsa_layout_page(&layout, QSA_ARENA_KV, 47, (uint32_t)pages - 1), (48 * pages - 1) * stride);
    assert_int_equal(qsa_layout_page(&layout, QSA_ARENA_POOLED, 1, 0), pages * 16 * 128 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_beyond_two_and_four_gibibytes),
        cmocka_unit_test(rows_of_a_wide_view),
        cmocka_unit_test(strides_beyond_two_to_the_31),
        cmocka_unit_test(offsets_of_a_layout_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
