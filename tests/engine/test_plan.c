/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan: what the machine leaves, read from made-up folders; what a context takes, against what it took; and
 * the largest context that fits. */
#define _XOPEN_SOURCE 700 /* nftw, mkdtemp */
#include "model_fixture.h"

#include "base/available.h"
#include "session/plan.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- made-up machines ---- */

static char root[] = "/tmp/qsa_plan_XXXXXX";

static int make_root(void **state)
{
    (void)state;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_one(const char *name, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(name);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A file below the root, with its folders. */
static void put(const char *name, const char *content)
{
    char text[512];
    snprintf(text, sizeof text, "%s%s", root, name);
    for (char *at = strchr(text + strlen(root) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(text, 0700);
        *at = '/';
    }
    FILE *file = fopen(text, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static qsa_available_memory read_root(uint64_t address_limit_bytes)
{
    qsa_available_memory a;
    available_memory_read(root, address_limit_bytes, &a);
    return a;
}

static const char meminfo[] = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    4000000 kB\n";

static void machine_without_cgroups_leaves_what_meminfo_says(void **state)
{
    (void)state;
    put("/proc/meminfo", meminfo);
    const qsa_available_memory a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.machine_bytes, 4000000ull * 1024);
    assert_int_equal(a.cgroup_bytes, QSA_NO_LIMIT);
    assert_int_equal(a.address_bytes, QSA_NO_LIMIT);
    assert_int_equal(available_memory_least(&a), 4000000ull * 1024);
}

static void nothing_readable_limits_nothing(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable: lots\n");
    put("/proc/self/cgroup", "nonsense\n0\n:\n::\n");
    put("/proc/self/mountinfo", "- -\n1 2 3 - cgroup2\n");
    const qsa_available_memory a = read_root(QSA_NO_LIMIT);
    assert_int_equal(available_memory_least(&a), QSA_NO_LIMIT);
}

static void put_cgroup2(const char *mount_root, const char *own)
{
    char line[256];
    snprintf(line, sizeof line, "30 23 0:26 %s /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n", mount_root);
    put("/proc/self/mountinfo", line);
    snprintf(line, sizeof line, "0::%s\n", own);
    put("/proc/self/cgroup", line);
}

static void put_group2(const char *folder, const char *max, const char *high, const char *current, const char *stat)
{
    const char *const files[][2] = {
        {"memory.max", max}, {"memory.high", high}, {"memory.current", current}, {"memory.stat", stat}};
    for (size_t i = 0; i < 4; i++) {
        char name[256];
        snprintf(name, sizeof name, "/sys/fs/cgroup%s/%s", folder, files[i][0]);
        put(name, files[i][1]);
    }
}

static void version_2_limits_by_the_tightest_ancestor(void **state)
{
    (void)state;
    put("/proc/meminfo", meminfo);
    put_cgroup2("/", "/slice/service/job");
    put_group2("/slice/service/job", "max\n", "max\n", "500\n", "anon 500\n");
    put_group2("/slice/service", "9000\n", "max\n", "3000\n", "active_file 100\ninactive_file 200\nfile 999\n");
    put_group2("/slice", "8000\n", "max\n", "4000\n", "active_file 100\ninactive_file 200\nslab_reclaimable 300\n");
    qsa_available_memory a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.cgroup_bytes, 8000 - (4000 - 600));
    assert_int_equal(available_memory_least(&a), 4600);
    put("/sys/fs/cgroup/slice/service/memory.max", "5000\n");
    a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.cgroup_bytes, 5000 - (3000 - 300));
    put("/sys/fs/cgroup/slice/service/job/memory.high", "600\n"); /* above it the kernel slows the process down */
    a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.cgroup_bytes, 100);
    put("/sys/fs/cgroup/slice/service/job/memory.current", "700\n"); /* beyond the limit: nothing is left */
    a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.cgroup_bytes, 0);
}

static void container_sees_its_own_part_of_the_tree(void **state)
{
    (void)state;
    put_cgroup2("/docker/abc", "/docker/abc/inner");
    put_group2("", "7000\n", "max\n", "1000\n", "anon 1000\n");
    put_group2("/inner", "max\n", "max\n", "1000\n", "anon 1000\n");
    qsa_available_memory a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.cgroup_bytes, 6000);
    put_cgroup2("/docker/abc", "/docker/abcdef"); /* no part of the mount: only its root is known */
    a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.cgroup_bytes, 6000);
}

static void version_1_counts_cache_as_free(void **state)
{
    (void)state;
    put("/proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                                "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
                                "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
    put("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\n1:cpu:/cpu\n0::/\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "1000\n");
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "10000\n");
    put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "9000\n");
    put("/sys/fs/cgroup/memory/a/memory.stat", "active_file 1\ntotal_active_file 2000\ntotal_inactive_file 3000\n");
    const qsa_available_memory a = read_root(QSA_NO_LIMIT);
    assert_int_equal(a.cgroup_bytes, 10000 - (9000 - 5000));
}

static void address_space_is_what_is_not_mapped(void **state)
{
    (void)state;
    put("/proc/self/statm", "10 5 3 1 0 4 0\n");
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(read_root(100 * page).address_bytes, 90 * page);
    assert_int_equal(read_root(9 * page).address_bytes, 0);
    assert_int_equal(read_root(QSA_NO_LIMIT).address_bytes, QSA_NO_LIMIT);
}

/* ---- the plan of a context ---- */

static const qsa_available_memory plenty = {QSA_NO_LIMIT, QSA_NO_LIMIT, QSA_NO_LIMIT};

/* Every byte that a context and its sessions report was planned; the plan is not far above. */
static void plan_is_what_a_context_takes(void **state)
{
    (void)state;
    qsa_model *model = model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE);
    qsa_context_options o = model_options(2, 32, 1);
    o.checkpoints = 2;
    qsa_plan plan;
    model_ok(qsa_context_plan(model, &o, &plan));
    qsa_context *context = model_context(model, &o);
    float *logits = malloc(model_vocabulary(model) * sizeof *logits);
    int32_t tokens[512];
    for (size_t i = 0; i < 512; i++)
        tokens[i] = (int32_t)(i * 7 % model_vocabulary(model));
    for (uint32_t i = 0; i < 2; i++) {
        qsa_session *session = model_session(context);
        for (size_t done = 0; done < 512; done += 64)
            model_ok(qsa_session_feed(session, tokens + done, 64, logits, NULL, NULL));
        model_ok(qsa_session_mark(session));
    }
    qsa_context_stats stats;
    qsa_context_get_stats(context, &stats);
    assert_memory_equal(&stats.plan, &plan.cache, sizeof plan.cache);
    assert_in_range(stats.compute_bytes, 1, plan.activation_bytes);
    assert_in_range(stats.state_bytes, plan.state_bytes / 2, plan.state_bytes);
    assert_int_equal(plan.context_bytes, plan.cache.total_bytes + plan.state_bytes + plan.activation_bytes);
    assert_in_range(2 * qsa_plan_session_bytes(&plan, 512), plan.state_bytes,
                    plan.context_bytes - plan.activation_bytes);
    assert_int_equal(plan.context, 1024);
    assert_int_equal(plan.sessions, 2);
    free(logits);
    qsa_context_destroy(context);
    qsa_model_close(model);
}

static uint64_t sum_of_weights(const qsa_plan *plan)
{
    uint64_t sum = 0;
    for (int kind = 0; kind < QSA_WEIGHT_KIND_COUNT; kind++)
        sum += plan->weight_bytes[kind];
    return sum;
}

static void weights_are_counted_once_by_kind(void **state)
{
    (void)state;
    for (int f32 = 0; f32 < 2; f32++) {
        qsa_model *model = model_open_golden("tiny-q8_0.gguf", f32 ? QSA_WEIGHTS_F32 : QSA_WEIGHTS_NATIVE);
        uint64_t bytes = 0;
        for (size_t i = 0; i < gguf_file_tensor_count(model->file); i++)
            bytes += gguf_file_tensor_at(model->file, i)->bytes;
        qsa_plan plan;
        model_ok(plan_within(model, NULL, &plenty, &plan));
        if (f32) {
            assert_true(sum_of_weights(&plan) < bytes); /* what was dequantised is counted as copied */
            assert_true(plan.copied_bytes > bytes);
            qsa_model_close(model);
            continue;
        }
        assert_int_equal(sum_of_weights(&plan), bytes);
        assert_int_equal(plan.weight_bytes[QSA_WEIGHT_UNUSED], 0);
        for (int kind = 0; kind < QSA_WEIGHT_UNUSED; kind++)
            assert_true(plan.weight_bytes[kind] > 0 || kind == QSA_WEIGHT_EMBEDDING);
        assert_int_equal(plan.weight_bytes[QSA_WEIGHT_TABLE],
                         gguf_file_find(model->file, "per_layer_token_embd.weight")->bytes);
        assert_int_equal(plan.rare_bytes,
                         plan.weight_bytes[QSA_WEIGHT_TABLE] + plan.weight_bytes[QSA_WEIGHT_EMBEDDING]);
        assert_int_equal(plan.resident_bytes, bytes - plan.rare_bytes + plan.copied_bytes + plan.context_bytes);
        qsa_model_close(model);
    }
}

static void largest_context_fits_and_one_token_more_does_not(void **state)
{
    (void)state;
    qsa_model *model = model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE);
    qsa_plan all, plan;
    qsa_context_options o = model_options(1, 32, 1);
    o.context = 0;
    model_ok(plan_within(model, &o, &plenty, &all));
    assert_int_equal(all.fit, QSA_FIT_MEMORY);
    assert_int_equal(all.largest_context, all.context);
    const uint64_t resident = all.resident_bytes - all.copied_bytes;
    for (int in_cgroup = 0; in_cgroup < 2; in_cgroup++) {
        qsa_available_memory room = plenty;
        *(in_cgroup ? &room.cgroup_bytes : &room.machine_bytes) = resident - 200000;
        o.context = 0;
        model_ok(plan_within(model, &o, &room, &plan));
        assert_int_not_equal(plan.fit, QSA_FIT_MEMORY);
        o.context = plan.largest_context;
        assert_in_range(o.context, 1, all.context - 1);
        model_ok(plan_within(model, &o, &room, &plan));
        assert_int_equal(plan.fit, QSA_FIT_MEMORY);
        o.context++;
        model_ok(plan_within(model, &o, &room, &plan));
        assert_int_not_equal(plan.fit, QSA_FIT_MEMORY);
    }
    qsa_model_close(model);
}

/* Weights can be read again; what a context allocates cannot. */
static void fit_tells_what_does_not_fit(void **state)
{
    (void)state;
    qsa_model *model = model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE);
    qsa_plan plan;
    model_ok(plan_within(model, NULL, &plenty, &plan));
    const uint64_t context = plan.context_bytes, resident = plan.resident_bytes - plan.copied_bytes;
    const struct {
        qsa_available_memory room;
        qsa_fit fit;
    } cases[] = {
        {{resident, QSA_NO_LIMIT, QSA_NO_LIMIT}, QSA_FIT_MEMORY},
        {{resident - 1, resident, resident}, QSA_FIT_DISK},
        {{resident, resident - 1, resident}, QSA_FIT_DISK},
        {{resident, resident, context}, QSA_FIT_MEMORY},
        {{context, resident, resident}, QSA_FIT_DISK},
        {{context - 1, resident, resident}, QSA_FIT_NOT},
        {{resident, context - 1, resident}, QSA_FIT_NOT},
        {{resident, resident, context - 1}, QSA_FIT_NOT},
        {{0, 0, 0}, QSA_FIT_NOT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_ok(plan_within(model, NULL, &cases[i].room, &plan));
        assert_int_equal(plan.fit, cases[i].fit);
    }
    assert_int_equal(plan.largest_context, 0);
    qsa_model_close(model);
}

static void context_beyond_the_memory_is_refused_with_the_numbers(void **state)
{
    (void)state;
    qsa_model *model = model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE);
    qsa_context_options o = model_options(60000, 32, 1);
    o.context = (uint32_t)QSA_MAX_POSITION;
    qsa_context *context = NULL;
    qsa_plan plan;
    model_ok(qsa_context_plan(model, &o, &plan));
    assert_int_equal(plan.fit, QSA_FIT_NOT);
    assert_int_equal(qsa_context_create(model, &o, &context), QSA_E_MEMORY);
    assert_null(context);
    char needed[64];
    snprintf(needed, sizeof needed, "a context of %u tokens takes %.1f MiB, ", o.context,
             (double)plan.context_bytes / (1 << 20));
    assert_non_null(strstr(qsa_engine_error(), needed));
    assert_non_null(strstr(qsa_engine_error(), " leaves "));
    assert_non_null(strstr(qsa_engine_error(), "fits"));
    qsa_model_close(model);
}

int main(void)
{
#define ON_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        ON_ROOT(machine_without_cgroups_leaves_what_meminfo_says),
        ON_ROOT(nothing_readable_limits_nothing),
        ON_ROOT(version_2_limits_by_the_tightest_ancestor),
        ON_ROOT(container_sees_its_own_part_of_the_tree),
        ON_ROOT(version_1_counts_cache_as_free),
        ON_ROOT(address_space_is_what_is_not_mapped),
        cmocka_unit_test(plan_is_what_a_context_takes),
        cmocka_unit_test(weights_are_counted_once_by_kind),
        cmocka_unit_test(largest_context_fits_and_one_token_more_does_not),
        cmocka_unit_test(fit_tells_what_does_not_fit),
        cmocka_unit_test(context_beyond_the_memory_is_refused_with_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
