/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libOpenCL at run time and maps its errors to ours. */
#include "device/opencl/opencl.h"

#include <dlfcn.h>
#include <string.h>

/* Converts a void * to a function pointer; POSIX guarantees that this works. */
static bool find(void *library, const char *name, void *out)
{
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

qsa_status qsa_opencl_load(const char *library, qsa_opencl_api *out)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "%s is not on this machine", library);
    qsa_opencl_api api;
#define QSA_OPENCL_CALL(name)                                                                                          \
    if (!find(handle, #name, &api.name))                                                                               \
        return qsa_fail(QSA_E_UNSUPPORTED, "%s lacks " #name, library);
#include "device/opencl/calls.inc"
#undef QSA_OPENCL_CALL
    *out = api;
    return QSA_OK;
}

static const char *name_of(cl_int code)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {{CL_DEVICE_NOT_FOUND, "no such device"},
                 {CL_DEVICE_NOT_AVAILABLE, "the device is not available"},
                 {CL_COMPILER_NOT_AVAILABLE, "the driver has no compiler"},
                 {CL_MEM_OBJECT_ALLOCATION_FAILURE, "out of device memory"},
                 {CL_OUT_OF_RESOURCES, "out of resources"},
                 {CL_OUT_OF_HOST_MEMORY, "out of host memory"},
                 {CL_BUILD_PROGRAM_FAILURE, "the program does not build"},
                 {CL_INVALID_BUFFER_SIZE, "a buffer larger than the device allows"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            return names[i].name;
    return "failed";
}

qsa_status qsa_opencl_check(cl_int code, const char *call)
{
    if (code == CL_SUCCESS)
        return QSA_OK;
    bool memory =
        code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
    return qsa_fail(memory ? QSA_E_MEMORY : QSA_E_DEVICE, "opencl: %s: %s (%d)", call, name_of(code), (int)code);
}
