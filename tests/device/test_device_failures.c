/* The n-th call into OpenCL fails, for every n: of a creation, of steps, of every verb that touches the device. Nothing
 * has changed then, and the same thing works the next time. */
#include "faulty.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 100, NO_TOKENS = 0 };

typedef struct setting {
    qsa_opencl_device *device;
    qsa_cache *cache;
    qsa_seq seq;
    world_batch batch, more;
} setting;

static qsa_config small(qsa_opencl_device *device)
{
    qsa_config config = world_mini();
    config.layers = 1;
    config.capacity_tokens = 12 * QSA_PAGE_TOKENS;
    config.max_sequences = 4;
    config.device = device == NULL ? NULL : &device->base;
    return config;
}

static void set_up(setting *s)
{
    const qsa_opencl_api api = faulty_api();
    fault = (faulty){.code = CL_OUT_OF_RESOURCES};
    world_ok(device_open_with(&api, (qsa_opencl_options){0}, &s->device));
    const qsa_config config = small(s->device);
    s->cache = world_create(&config);
    s->seq = world_open(s->cache);
    s->batch = world_batch_open(&config, TOKENS, 1);
    s->more = world_batch_open(&config, 20, 500);
    world_feed(s->cache, s->seq, 3, &s->batch, 0, TOKENS, 30, (world_way){0});
}

static void tear_down(setting *s)
{
    fault.fail_at = 0;
    qsa_cache_destroy(s->cache);
    qsa_opencl_close(s->device);
    world_batch_close(&s->batch);
    world_batch_close(&s->more);
}

/* ---- memory ---- */

/* What is planned is what is taken, on the host and on the device together; a step takes nothing. */
static void the_plan_is_what_host_and_device_allocate(void **state)
{
    (void)state;
    static const uint32_t sequences[] = {1, 4, 1000};
    const qsa_opencl_api api = faulty_api();
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        world_memory memory = {0};
        qsa_allocator allocator = world_allocator(&memory);
        qsa_opencl_device *device;
        qsa_memory_plan plan, on_host;
        fault = (faulty){.code = CL_OUT_OF_RESOURCES};
        world_ok(device_open_with(&api, (qsa_opencl_options){0}, &device));
        qsa_config config = small(NULL);
        config.max_sequences = sequences[i];
        world_ok(qsa_plan_memory(&config, &on_host));
        config.device = &device->base;
        config.allocator = &allocator;
        world_ok(qsa_plan_memory(&config, &plan));
        fault.buffer_bytes = 0;
        qsa_cache *cache = world_create(&config);
        const uint64_t pages = plan.kv_bytes + plan.index_bytes - on_host.pages * QSA_PAGE_TOKENS * sizeof(qsa_triple);
        assert_int_equal(fault.buffer_bytes, pages + plan.device_bytes);
        assert_int_equal(memory.live_bytes + fault.buffer_bytes, plan.total_bytes);
        assert_int_equal(plan.total_bytes, plan.kv_bytes + plan.index_bytes + plan.table_bytes + plan.scratch_bytes +
                                               plan.weight_bytes + plan.device_bytes);
        assert_int_equal(plan.table_bytes, on_host.table_bytes);
        world_batch batch = world_batch_open(&config, TOKENS, 1);
        const uint64_t calls = memory.calls, bytes = fault.buffer_bytes;
        world_feed(cache, world_open(cache), 3, &batch, 0, TOKENS, 30, (world_way){0});
        assert_int_equal(memory.calls, calls);
        assert_int_equal(fault.buffer_bytes, bytes);
        world_batch_close(&batch);
        qsa_cache_destroy(cache);
        qsa_opencl_close(device);
        assert_int_equal(memory.live_bytes, 0);
    }
}

/* ---- creation ---- */

/* One more call fails than the last time; true while there was such a call. (A kept program that cannot be loaded is
 * built instead: not every failure is one of the whole.) */
static bool reached(uint64_t n)
{
    return fault.calls >= n;
}

static void expect_failure(qsa_status status)
{
    assert_true(status == QSA_OK || status == QSA_E_DEVICE || status == QSA_E_MEMORY);
}

static void opening_and_creating(void **state)
{
    (void)state;
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE};
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        const qsa_opencl_api api = faulty_api();
        qsa_opencl_device *device = NULL;
        uint64_t n = 0;
        do {
            if (device != NULL)
                qsa_opencl_close(device);
            device = NULL;
            fault = (faulty){.code = codes[c], .fail_at = ++n};
            expect_failure(device_open_with(&api, (qsa_opencl_options){0}, &device));
        } while (reached(n));
        assert_true(n > 8 && device != NULL);
        const qsa_config config = small(device);
        qsa_cache *cache = NULL;
        n = 0;
        do {
            qsa_cache_destroy(cache);
            cache = NULL;
            fault = (faulty){.code = codes[c], .fail_at = ++n};
            expect_failure(qsa_cache_create(&config, &cache));
        } while (reached(n));
        assert_true(n > 40 && cache != NULL);
        fault.fail_at = 0;
        qsa_cache_destroy(cache);
        qsa_opencl_close(device);
    }
}

/* ---- whatever happens to a sequence ---- */

/* Does the thing, and takes back what it made. */
typedef qsa_status thing(setting *s);

static qsa_status step(qsa_cache *cache, qsa_seq seq, int64_t position, const world_batch *batch, const uint32_t *keep)
{
    const qsa_entry entry = {.seq = seq, .position = position, .tokens = 20};
    qsa_step *open;
    qsa_status status = qsa_step_begin(cache, &entry, 1, &open);
    if (status != QSA_OK)
        return status;
    const qsa_tensors tensors = world_tensors(batch, 0, 0);
    const qsa_output out = world_output(batch, 0, 0);
    status = qsa_step_layer(open, 0, &tensors, &out);
    if (status != QSA_OK) {
        assert_int_equal(qsa_step_commit(open, keep), status); /* as abort */
        return status;
    }
    uint32_t groups[64], n_groups;
    status = qsa_step_selection(open, 19, groups, &n_groups);
    if (status == QSA_OK)
        return qsa_step_commit(open, keep);
    qsa_step_abort(open);
    return status;
}

static qsa_status step_that_keeps_nothing(setting *s)
{
    static const uint32_t none = NO_TOKENS;
    return step(s->cache, s->seq, 3 + TOKENS, &s->more, &none);
}

static qsa_status step_into_a_shared_page(setting *s)
{
    qsa_seq fork;
    world_ok(qsa_seq_fork(s->cache, s->seq, 3 + 90, &fork));
    qsa_status status = step(s->cache, fork, 3 + 90, &s->more, NULL);
    world_ok(qsa_seq_close(s->cache, fork));
    return status;
}

static qsa_status copy(setting *s)
{
    qsa_seq other = {0};
    qsa_status status = qsa_seq_copy(s->cache, s->seq, &other);
    fault.fail_at = 0;
    if (status == QSA_OK) {
        assert_int_equal(world_digest(s->cache, s->seq), world_digest(s->cache, other));
        world_ok(qsa_seq_close(s->cache, other));
    }
    return status;
}

static qsa_status evict_inside_a_group(setting *s)
{
    qsa_seq fork;
    world_ok(qsa_seq_fork(s->cache, s->seq, 3 + TOKENS, &fork));
    const uint64_t saved = fault.fail_at;
    fault.fail_at = 0;
    const uint64_t before = world_digest(s->cache, fork);
    fault.calls = 0;
    fault.fail_at = saved;
    qsa_status status = qsa_seq_evict(s->cache, fork, 3 + 5);
    fault.fail_at = 0;
    if (status != QSA_OK)
        assert_int_equal(before, world_digest(s->cache, fork));
    else
        world_ok(qsa_seq_verify_index(s->cache, fork));
    world_ok(qsa_seq_close(s->cache, fork));
    return status;
}

/* Two copies, of which the first goes: the second, and the sequence itself, have somewhere to move to. */
static qsa_status compact(setting *s)
{
    const uint64_t saved = fault.fail_at;
    fault.fail_at = 0;
    qsa_seq first, second, third;
    world_ok(qsa_seq_copy(s->cache, s->seq, &first));
    world_ok(qsa_seq_copy(s->cache, s->seq, &second));
    world_ok(qsa_seq_close(s->cache, first));
    world_ok(qsa_seq_open(s->cache, &third));
    world_feed(s->cache, third, 0, &s->more, 0, 20, 0, (world_way){0});
    world_ok(qsa_seq_rewind(s->cache, third, 10));
    const uint64_t before = world_digest(s->cache, third);
    fault.calls = 0;
    fault.fail_at = saved;
    qsa_status status = qsa_cache_compact(s->cache);
    fault.fail_at = 0;
    world_ok(qsa_cache_check(s->cache));
    assert_int_equal(world_digest(s->cache, s->seq), world_digest(s->cache, second));
    assert_int_equal(before, world_digest(s->cache, third));
    world_ok(qsa_seq_close(s->cache, second));
    world_ok(qsa_seq_close(s->cache, third));
    return status;
}

typedef struct bytes {
    uint8_t data[1 << 20];
    size_t size, used;
} bytes;

static bytes snapshot_bytes;

static qsa_status take(void *context, const void *from, size_t n)
{
    bytes *b = context;
    memcpy(b->data + b->size, from, n);
    b->size += n;
    return QSA_OK;
}

static qsa_status give(void *context, void *to, size_t n)
{
    bytes *b = context;
    if (n > b->size - b->used)
        return QSA_E_FORMAT;
    memcpy(to, b->data + b->used, n);
    b->used += n;
    return QSA_OK;
}

static qsa_status write_snapshot(setting *s)
{
    snapshot_bytes.size = snapshot_bytes.used = 0;
    return qsa_snapshot_write(s->cache, &s->seq, 1, NULL, 0, 7, &(qsa_writer){take, &snapshot_bytes});
}

static qsa_status read_snapshot(setting *s)
{
    qsa_snapshot snapshot;
    snapshot_bytes.used = 0;
    qsa_status status = qsa_snapshot_read(s->cache, 7, &(qsa_reader){give, &snapshot_bytes}, &snapshot);
    fault.fail_at = 0;
    if (status == QSA_OK) {
        assert_int_equal(world_digest(s->cache, s->seq), world_digest(s->cache, snapshot.sequences[0]));
        world_ok(qsa_seq_close(s->cache, snapshot.sequences[0]));
        qsa_snapshot_free(&snapshot);
    }
    return status;
}

static void every_call_of(setting *s, const char *name, thing *it)
{
    const uint64_t before = world_digest(s->cache, s->seq), room = qsa_cache_free_tokens(s->cache);
    qsa_status status = QSA_E_DEVICE;
    uint64_t n = 0;
    for (; status != QSA_OK; n++) {
        fault.calls = 0;
        fault.fail_at = n + 1;
        status = it(s);
        fault.fail_at = 0;
        if (status != QSA_OK && status != QSA_E_DEVICE)
            fail_msg("%s, call %llu: %s (%s)", name, (unsigned long long)n + 1, qsa_status_name(status),
                     qsa_error_detail());
        world_ok(qsa_cache_check(s->cache));
        if (before != world_digest(s->cache, s->seq) || room != qsa_cache_free_tokens(s->cache))
            fail_msg("%s, call %llu failed and something changed", name, (unsigned long long)n + 1);
    }
    if (n < 3)
        fail_msg("%s: no call could fail", name);
}

static void verbs_and_steps(void **state)
{
    (void)state;
    setting s;
    set_up(&s);
    every_call_of(&s, "a step", step_that_keeps_nothing);
    every_call_of(&s, "a step into a shared page", step_into_a_shared_page);
    every_call_of(&s, "copy", copy);
    every_call_of(&s, "evict", evict_inside_a_group);
    every_call_of(&s, "compact", compact);
    every_call_of(&s, "writing a snapshot", write_snapshot);
    every_call_of(&s, "reading a snapshot", read_snapshot);
    /* and what went wrong so often has left no trace: the run goes on as on the host */
    const qsa_config config = small(NULL);
    world_batch same = world_batch_open(&config, TOKENS, 1), more = world_batch_open(&config, 20, 500);
    qsa_cache *host = world_create(&config);
    qsa_seq seq = world_open(host);
    world_feed(host, seq, 3, &same, 0, TOKENS, 0, (world_way){0});
    world_feed(host, seq, 3 + TOKENS, &more, 0, 20, 0, (world_way){0});
    world_feed(s.cache, s.seq, 3 + TOKENS, &s.more, 0, 20, 0, (world_way){0});
    world_same("after all failures", &more, 0, &s.more, 0, 20);
    assert_int_equal(world_digest(host, seq), world_digest(s.cache, s.seq));
    qsa_cache_destroy(host);
    world_batch_close(&same);
    world_batch_close(&more);
    tear_down(&s);
}

/* A device that is gone stays gone: everything says so, nothing hangs or crashes, and the positions are what they were.
 */
static void a_lost_device(void **state)
{
    static thing *const things[] = {step_that_keeps_nothing, step_into_a_shared_page, write_snapshot};
    (void)state;
    setting s;
    set_up(&s);
    for (uint64_t n = 1; n < 12; n++)
        for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
            fault.calls = 0;
            fault.fail_at = n;
            fault.for_good = true;
            const qsa_status status = things[i](&s);
            assert_true(status == QSA_E_DEVICE || (status == QSA_OK && fault.calls < n));
            fault.for_good = false;
            fault.fail_at = 0;
            qsa_seq_info info;
            world_ok(qsa_seq_query(s.cache, s.seq, &info));
            assert_int_equal(info.frontier, 3 + TOKENS);
            world_ok(qsa_cache_check(s.cache));
        }
    uint64_t digest;
    fault.calls = 0;
    fault.fail_at = 1;
    fault.for_good = true;
    world_refused(QSA_E_DEVICE, "clEnqueueReadBuffer", qsa_seq_digest(s.cache, s.seq, &digest));
    tear_down(&s);
}

/* Pages change places in many calls: one that fails in between is undone; where that fails too, nothing works any more.
 */
static void a_swap_that_fails_is_undone(void **state)
{
    (void)state;
    const qsa_opencl_api api = faulty_api();
    qsa_opencl_device *device;
    fault = (faulty){.code = CL_OUT_OF_RESOURCES};
    world_ok(device_open_with(&api, (qsa_opencl_options){0}, &device));
    const qsa_config config = small(device);
    random_source r = {1};
    twins t;
    twins_open(&t, &config, device);
    twins_fill(&t, &r);
    const qsa_operations *operations = t.device.store->operations;
    for (uint64_t n = 1;; n++) {
        fault.calls = 0;
        fault.fail_at = n;
        qsa_status status = operations->swap_pages(t.device.store, 1, 4);
        fault.fail_at = 0;
        if (status == QSA_OK)
            break;
        assert_int_equal(status, QSA_E_DEVICE);
        assert_int_equal(twins_differ(&t), 0);
    }
    world_ok(operations->swap_pages(t.device.store, 1, 4));
    assert_int_equal(twins_differ(&t), 0);
    fault = (faulty){.code = CL_OUT_OF_RESOURCES, .fail_at = 5, .for_good = true};
    assert_int_equal(operations->swap_pages(t.device.store, 1, 4), QSA_E_DEVICE);
    fault.for_good = false;
    fault.fail_at = 0;
    uint8_t *page;
    world_refused(QSA_E_DEVICE, "cannot be used any more", operations->view(t.device.store, QSA_ARENA_KV, 0, 1, &page));
    twins_close(&t);
    qsa_opencl_close(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_what_host_and_device_allocate),
        cmocka_unit_test(opening_and_creating),
        cmocka_unit_test(verbs_and_steps),
        cmocka_unit_test(a_lost_device),
        cmocka_unit_test(a_swap_that_fails_is_undone),
    };
    device_or_skip();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
