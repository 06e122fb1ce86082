/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions on devices: the host, and OpenCL devices if the build has them. */
#include "device/device.h"

#include <inttypes.h>
#include <qsa/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef QSA_WITH_OPENCL
#include "device/opencl/opencl.h"
#endif

static struct qsa_device host = {&qsa_host_operations};

static void describe_host(qsa_device_info *out)
{
    const char *wanted;
    const qsa_kernels *kernels = qsa_kernels_choose(&wanted);
    *out = (qsa_device_info){.name = "host", .promises = QSA_PROMISE_ALL};
    snprintf(out->description, sizeof out->description, "kernels %s", kernels == NULL ? "unknown" : kernels->isa);
    if (kernels == NULL)
        snprintf(out->lacks, sizeof out->lacks, "the instruction set that QSA_ISA names");
}

#ifdef QSA_WITH_OPENCL

/* Appends the OpenCL devices to the n already listed; returns the new count. */
static size_t list_opencl(qsa_device_info *out, size_t room, size_t n)
{
    qsa_opencl_api api;
    cl_device_id id;
    if (qsa_opencl_load(QSA_OPENCL_LIBRARY, &api) != QSA_OK)
        return n;
    for (uint32_t i = 0; qsa_opencl_find(&api, i, &id); i++, n++)
        if (n < room)
            qsa_opencl_describe(&api, id, i, &out[n]);
    return n;
}

/* The first device that lacks nothing; if every one lacks something, the first, whose opening then fails with
 * the reason. */
static uint32_t first_usable(const qsa_opencl_api *api)
{
    cl_device_id id;
    for (uint32_t i = 0; qsa_opencl_find(api, i, &id); i++) {
        qsa_device_info info;
        qsa_opencl_describe(api, id, i, &info);
        if (info.lacks[0] == 0)
            return i;
    }
    return 0;
}

static qsa_status open_opencl(const char *number, const qsa_device_options *options, qsa_device **out)
{
    qsa_opencl_api api;
    QSA_TRY(qsa_opencl_load(QSA_OPENCL_LIBRARY, &api));
    const qsa_opencl_options inner = {.program_folder = options == NULL ? NULL : options->program_folder};
    qsa_opencl_device *device;
    QSA_TRY(qsa_opencl_open(&api, number == NULL ? first_usable(&api) : (uint32_t)strtoul(number, NULL, 10), &inner,
                            &device));
    *out = &device->base;
    return QSA_OK;
}

#else

static size_t list_opencl(qsa_device_info *out, size_t room, size_t n)
{
    (void)out, (void)room;
    return n;
}

static qsa_status open_opencl(const char *number, const qsa_device_options *options, qsa_device **out)
{
    (void)number, (void)options, (void)out;
    return qsa_fail(QSA_E_UNSUPPORTED, "this build has no OpenCL devices");
}

#endif

qsa_status qsa_device_list(qsa_device_info *out, size_t room, size_t *out_n)
{
    if (out_n == NULL || (out == NULL && room > 0))
        return qsa_fail(QSA_E_ARGUMENT, "devices: NULL argument");
    if (room > 0)
        describe_host(&out[0]);
    *out_n = list_opencl(out, room, 1);
    return QSA_OK;
}

/* The number after "opencl:", up to four digits; *out is NULL for "opencl" alone. False for any other name. */
static bool parse_opencl(const char *name, const char **out)
{
    static const char prefix[] = "opencl";
    const size_t n = sizeof prefix - 1;
    *out = NULL;
    if (strncmp(name, prefix, n) != 0)
        return false;
    if (name[n] == 0)
        return true;
    *out = name + n + 1;
    const size_t digits = strspn(*out, "0123456789");
    return name[n] == ':' && digits >= 1 && digits <= 4 && (*out)[digits] == 0;
}

qsa_status qsa_device_open(const char *name, const qsa_device_options *options, qsa_device **out_device)
{
    if (name == NULL || out_device == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "device: NULL argument");
    if (options != NULL && options->size_bytes != sizeof *options)
        return qsa_fail(QSA_E_ARGUMENT, "device: options.size_bytes is %zu, expected %zu", options->size_bytes,
                        sizeof *options);
    if (strcmp(name, "host") == 0) {
        *out_device = &host;
        return QSA_OK;
    }
    const char *number;
    if (!parse_opencl(name, &number))
        return qsa_fail(QSA_E_ARGUMENT, "there is no device '%.64s'; a device is host, opencl or opencl:N", name);
    return open_opencl(number, options, out_device);
}

void qsa_device_close(qsa_device *device)
{
#ifdef QSA_WITH_OPENCL
    if (device != NULL && device->operations == &qsa_opencl_operations)
        qsa_opencl_close((qsa_opencl_device *)(void *)device);
#else
    (void)device;
#endif
}

qsa_status qsa_device_describe(const qsa_device *device, qsa_device_info *out_info)
{
    if (out_info == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "device: NULL argument");
#ifdef QSA_WITH_OPENCL
    if (device != NULL && device->operations == &qsa_opencl_operations) {
        *out_info = ((const qsa_opencl_device *)(const void *)device)->info;
        return QSA_OK;
    }
#endif
    (void)device;
    describe_host(out_info);
    return QSA_OK;
}
