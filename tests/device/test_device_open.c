/* Finding and opening devices: names, promises, programs that are kept, memory that is not there. */
#define _XOPEN_SOURCE 700 /* truncate, mkdtemp */
#include "faulty.h"
#include "world.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void names_are_checked(void **state)
{
    static const char *const none[] = {"cuda",      "",          "opencl:",      "opencl:x",
                                       "opencl:1x", "opencl:-1", "opencl:12345", "opencl 0"};
    (void)state;
    qsa_device *device = NULL;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        world_refused(QSA_E_ARGUMENT, "a device is host, opencl or opencl:N", qsa_device_open(none[i], NULL, &device));
    world_refused(QSA_E_UNSUPPORTED, "there is no such device", qsa_device_open("opencl:9999", NULL, &device));
    world_refused(QSA_E_ARGUMENT, "size_bytes", qsa_device_open("host", &(qsa_device_options){0}, &device));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_device_open(NULL, NULL, &device));
    assert_null(device);
}

static void the_host_is_a_device_like_any(void **state)
{
    (void)state;
    qsa_device_info infos[32], info;
    size_t n = 0;
    world_ok(qsa_device_list(infos, 32, &n));
    assert_true(n >= 2);
    assert_string_equal(infos[0].name, "host");
    assert_int_equal(infos[0].promises, QSA_PROMISE_ALL);
    qsa_device *device;
    world_ok(qsa_device_open("host", NULL, &device));
    world_ok(qsa_device_describe(device, &info));
    assert_string_equal(info.name, "host");
    qsa_config config = world_mini();
    world_batch a = world_batch_open(&config, 40, 1), b = world_batch_open(&config, 40, 1);
    const uint64_t expected = world_solo(&config, 0, &a, 7, (world_way){0});
    config.device = device;
    assert_int_equal(expected, world_solo(&config, 0, &b, 9, (world_way){0}));
    qsa_device_close(device);
    world_batch_close(&a);
    world_batch_close(&b);
}

static void a_machine_without_the_library_says_so(void **state)
{
    (void)state;
    qsa_opencl_api api;
    world_refused(QSA_E_UNSUPPORTED, "libNoOpenCL.so.1 is not on this machine",
                  qsa_opencl_load("libNoOpenCL.so.1", &api));
    world_refused(QSA_E_UNSUPPORTED, "lacks clGetPlatformIDs", qsa_opencl_load("libm.so.6", &api));
}

/* A device that does not promise what the arithmetic needs is refused by the name of it. */
static void a_missing_promise_is_named(void **state)
{
    static const struct {
        cl_device_fp_config bit;
        const char *name;
    } promises[] = {{CL_FP_FMA, "CL_FP_FMA"},
                    {CL_FP_DENORM, "CL_FP_DENORM"},
                    {CL_FP_ROUND_TO_NEAREST, "CL_FP_ROUND_TO_NEAREST"},
                    {CL_FP_INF_NAN, "CL_FP_INF_NAN"}};
    (void)state;
    const qsa_opencl_api api = faulty_api();
    qsa_opencl_device *device = NULL;
    for (size_t i = 0; i < sizeof promises / sizeof *promises; i++) {
        fault = (faulty){.hidden = promises[i].bit};
        world_refused(QSA_E_UNSUPPORTED, promises[i].name, device_open_with(&api, (qsa_opencl_options){0}, &device));
    }
    fault = (faulty){0};
    assert_null(device);
}

/* One that promises and does not keep is found by trying. */
static void arithmetic_that_differs_is_refused(void **state)
{
    (void)state;
    qsa_opencl_device *device = NULL;
    const qsa_opencl_options contracted = {.defines = "-DQSA_PLANT_PROBE"};
    world_refused(QSA_E_UNSUPPORTED, "a product that is rounded before it is added",
                  device_open_with(device_api(), contracted, &device));
    const qsa_opencl_options broken = {.defines = "-Dkernel=nonsense"};
    world_refused(QSA_E_DEVICE, "do not build", device_open_with(device_api(), broken, &device));
    assert_null(device);
}

/* ---- programs that are kept ---- */

static void damage_files(const char *folder, int kind)
{
    char path[512];
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, kind == 0 ? "wb" : "r+b");
        assert_non_null(file);
        if (kind == 1) {
            fseek(file, 100, SEEK_SET);
            fputc(0x5a, file);
        }
        if (kind == 2) {
            fseek(file, 0, SEEK_END);
            fputc(0, file);
        }
        fclose(file);
        if (kind == 3)
            assert_int_equal(truncate(path, 1000), 0);
        if (kind == 4)
            remove(path);
    }
    closedir(dir);
}

static uint64_t sources_used(const char *folder)
{
    const qsa_opencl_api api = faulty_api();
    qsa_opencl_device *device;
    fault = (faulty){0};
    world_ok(device_open_with(&api, (qsa_opencl_options){.program_folder = folder}, &device));
    qsa_config config = world_mini();
    config.device = &device->base;
    qsa_cache_destroy(world_create(&config));
    qsa_opencl_close(device);
    return fault.sources;
}

static void programs_are_built_once_and_damaged_ones_again(void **state)
{
    (void)state;
    char folder[] = "/tmp/qsa-programs-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(sources_used(folder), 2); /* the probe's and the shape's */
    assert_int_equal(sources_used(folder), 0);
    for (int kind = 0; kind < 4; kind++) {
        damage_files(folder, kind);
        assert_int_equal(sources_used(folder), 2);
        assert_int_equal(sources_used(folder), 0);
    }
    damage_files(folder, 4);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(sources_used(folder), 2); /* a folder that is not there costs time, nothing else */
}

/* ---- memory ---- */

static void memory_that_is_not_there_is_a_refusal(void **state)
{
    (void)state;
    const qsa_opencl_api api = faulty_api();
    qsa_opencl_device *device;
    fault = (faulty){.largest_allocation = 1 << 20};
    world_ok(device_open_with(&api, (qsa_opencl_options){0}, &device));
    qsa_config config = world_mini();
    config.capacity_tokens = 1 << 20;
    config.device = &device->base;
    qsa_cache *cache = NULL;
    world_refused(QSA_E_MEMORY, "allows 1048576 bytes in one piece", qsa_cache_create(&config, &cache));
    assert_null(cache);
    fault = (faulty){0};
    qsa_opencl_close(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(the_host_is_a_device_like_any),
        cmocka_unit_test(a_machine_without_the_library_says_so),
        cmocka_unit_test(a_missing_promise_is_named),
        cmocka_unit_test(arithmetic_that_differs_is_refused),
        cmocka_unit_test(programs_are_built_once_and_damaged_ones_again),
        cmocka_unit_test(memory_that_is_not_there_is_a_refusal),
    };
    device_or_skip();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
