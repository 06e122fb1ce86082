/* SPDX-License-Identifier: Apache-2.0 */
/* Lists OpenCL devices, checks their capabilities, and opens one. */
#include "device/opencl/opencl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PLATFORMS = 32, DEVICES = 64 };

bool qsa_opencl_find(const qsa_opencl_api *api, uint32_t i, cl_device_id *out)
{
    cl_platform_id platforms[PLATFORMS];
    cl_uint n_platforms = 0;
    if (api->clGetPlatformIDs(PLATFORMS, platforms, &n_platforms) != CL_SUCCESS)
        return false;
    for (cl_uint p = 0; p < n_platforms && p < PLATFORMS; p++) {
        cl_device_id devices[DEVICES];
        cl_uint n_devices = 0;
        if (api->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES, devices, &n_devices) != CL_SUCCESS)
            continue;
        n_devices = n_devices < DEVICES ? n_devices : DEVICES;
        if (i < n_devices) {
            *out = devices[i];
            return true;
        }
        i -= n_devices;
    }
    return false;
}

/* A numeric property of the device; 0 if it has none. */
static uint64_t number_of(const qsa_opencl_api *api, cl_device_id id, cl_device_info what)
{
    uint64_t value = 0; /* narrower ones fill its low bytes: all our hosts are little-endian */
    return api->clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static void text_of(const qsa_opencl_api *api, cl_device_id id, cl_device_info what, char *out, size_t size)
{
    char text[1024] = "";
    if (api->clGetDeviceInfo(id, what, sizeof text - 1, text, NULL) != CL_SUCCESS)
        text[0] = 0;
    snprintf(out, size, "%s", text);
}

static bool at_least_1_2(const qsa_opencl_api *api, cl_device_id id)
{
    char text[128];
    unsigned major = 0, minor = 0;
    text_of(api, id, CL_DEVICE_VERSION, text, sizeof text);
    return sscanf(text, "OpenCL %u.%u", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= 2));
}

static uint32_t promises_of(const qsa_opencl_api *api, cl_device_id id)
{
    uint64_t single = number_of(api, id, CL_DEVICE_SINGLE_FP_CONFIG);
    return (single & CL_FP_FMA ? QSA_PROMISE_FMA : 0u) | (single & CL_FP_DENORM ? QSA_PROMISE_SUBNORMALS : 0u) |
           (single & CL_FP_ROUND_TO_NEAREST ? QSA_PROMISE_NEAREST : 0u) |
           (single & CL_FP_INF_NAN ? QSA_PROMISE_INF_NAN : 0u);
}

/* The name of the first required capability that the device lacks; NULL if it has all. */
static const char *lack_of(const qsa_opencl_api *api, cl_device_id id, uint32_t promises)
{
    if (!number_of(api, id, CL_DEVICE_AVAILABLE))
        return "it is not available";
    if (!at_least_1_2(api, id))
        return "OpenCL 1.2";
    if (!number_of(api, id, CL_DEVICE_COMPILER_AVAILABLE))
        return "a compiler";
    if (!number_of(api, id, CL_DEVICE_ENDIAN_LITTLE))
        return "little-endian memory";
    if (!(promises & QSA_PROMISE_FMA))
        return "a fused multiply-add in hardware (CL_FP_FMA)";
    if (!(promises & QSA_PROMISE_SUBNORMALS))
        return "subnormal numbers (CL_FP_DENORM)";
    if (!(promises & QSA_PROMISE_NEAREST))
        return "rounding to nearest (CL_FP_ROUND_TO_NEAREST)";
    if (!(promises & QSA_PROMISE_INF_NAN))
        return "infinities (CL_FP_INF_NAN)";
    if (number_of(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE) < 64)
        return "work-groups of 64";
    if (number_of(api, id, CL_DEVICE_LOCAL_MEM_SIZE) < 32768)
        return "32 KiB of local memory";
    return NULL;
}

void qsa_opencl_describe(const qsa_opencl_api *api, cl_device_id id, uint32_t number, qsa_device_info *out)
{
    qsa_device_info info = {.memory_bytes = number_of(api, id, CL_DEVICE_GLOBAL_MEM_SIZE),
                            .allocation_bytes = number_of(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
                            .promises = promises_of(api, id)};
    snprintf(info.name, sizeof info.name, "opencl:%" PRIu32, number);
    text_of(api, id, CL_DEVICE_NAME, info.description, sizeof info.description);
    text_of(api, id, CL_DRIVER_VERSION, info.driver, sizeof info.driver);
    const char *lack = lack_of(api, id, info.promises);
    snprintf(info.lacks, sizeof info.lacks, "%s", lack == NULL ? "" : lack);
    *out = info;
}

/* The device's vector width, if it has vectors; on most GPUs each work-item is a lane. */
static uint32_t width_of(const qsa_opencl_api *api, cl_device_id id)
{
    uint64_t native = number_of(api, id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    uint32_t width = 1;
    while (width < 16 && 2 * width <= native)
        width *= 2;
    return width;
}

static bool copy_text(const char *text, char **out)
{
    if (text == NULL)
        return true;
    size_t size = strlen(text) + 1;
    *out = qsa_allocate(&qsa_default_allocator, size);
    if (*out != NULL)
        memcpy(*out, text, size);
    return *out != NULL;
}

static void free_text(char *text)
{
    if (text != NULL)
        qsa_release(&qsa_default_allocator, text, strlen(text) + 1);
}

static qsa_status fill(qsa_opencl_device *device, uint32_t number, const qsa_opencl_options *options)
{
    const qsa_opencl_api *api = &device->api;
    if (!qsa_opencl_find(api, number, &device->id))
        return number == 0 ? qsa_fail(QSA_E_UNSUPPORTED, "opencl: libOpenCL finds no device")
                           : qsa_fail(QSA_E_UNSUPPORTED, "opencl:%" PRIu32 ": there is no such device", number);
    qsa_opencl_describe(api, device->id, number, &device->info);
    if (device->info.lacks[0] != 0)
        return qsa_fail(QSA_E_UNSUPPORTED, "opencl:%" PRIu32 " (%s) lacks %s", number, device->info.description,
                        device->info.lacks);
    device->width = options->width != 0 ? options->width : width_of(api, device->id);
    device->work_groups = options->work_groups;
    if (device->work_groups == 0)
        device->work_groups = 4 * (uint32_t)number_of(api, device->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    if (!copy_text(options->program_folder, &device->program_folder) || !copy_text(options->defines, &device->defines))
        return qsa_fail(QSA_E_MEMORY, "opencl: no memory for the device");
    cl_int code;
    device->context = api->clCreateContext(NULL, 1, &device->id, NULL, NULL, &code);
    QSA_TRY(qsa_opencl_check(code, "clCreateContext"));
    return qsa_opencl_probe(device);
}

qsa_status qsa_opencl_open(const qsa_opencl_api *api, uint32_t number, const qsa_opencl_options *options,
                           qsa_opencl_device **out)
{
    qsa_opencl_device *device = qsa_allocate(&qsa_default_allocator, sizeof *device);
    if (device == NULL)
        return qsa_fail(QSA_E_MEMORY, "opencl: no memory for the device");
    *device = (qsa_opencl_device){.base.operations = &qsa_opencl_operations, .api = *api};
    qsa_status status = fill(device, number, options);
    if (status == QSA_OK)
        *out = device;
    else
        qsa_opencl_close(device);
    return status;
}

void qsa_opencl_close(qsa_opencl_device *device)
{
    if (device->context != NULL)
        device->api.clReleaseContext(device->context);
    free_text(device->program_folder);
    free_text(device->defines);
    qsa_release(&qsa_default_allocator, device, sizeof *device);
}
