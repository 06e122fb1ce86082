/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL device: found at run time, used only if it keeps the contract of SPEC section 6.
 *
 * libOpenCL is loaded, not linked: a machine without it runs everything else. A device serves any number of caches;
 * each has its own queue, its own memory and a program compiled for its shape. */
#ifndef QSA_DEVICE_OPENCL_H
#define QSA_DEVICE_OPENCL_H

#include "device/device.h"

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <qsa/device.h>

typedef struct qsa_opencl_api {
#define QSA_OPENCL_CALL(name) __typeof__(&name) name;
#include "device/opencl/calls.inc"
#undef QSA_OPENCL_CALL
} qsa_opencl_api;

/* How a device is opened. Zeros: as a user's. The rest is for tests. */
typedef struct qsa_opencl_options {
    const char *program_folder; /* for built programs; NULL: they are not kept. Copied */
    const char *defines;        /* further options of the compiler; NULL: none. Copied */
    uint32_t work_groups;       /* launched at once; 0: as many as the device has use for */
    uint32_t width;             /* lanes of a vector, a power of two up to 16; 0: the device's own */
} qsa_opencl_options;

typedef struct qsa_opencl_device {
    struct qsa_device base;
    qsa_opencl_api api;
    cl_device_id id;
    cl_context context;
    qsa_device_info info;
    char *program_folder, *defines;
    uint32_t width, work_groups;
} qsa_opencl_device;

/* ---- api.c ---- */

/* Loads a library of that name. QSA_E_UNSUPPORTED if it is not there, or lacks a function. It stays loaded. */
qsa_status qsa_opencl_load(const char *library, qsa_opencl_api *out);
#define QSA_OPENCL_LIBRARY "libOpenCL.so.1"

/* QSA_OK for CL_SUCCESS; otherwise QSA_E_MEMORY or QSA_E_DEVICE, the detail naming the call. */
qsa_status qsa_opencl_check(cl_int code, const char *call);

/* ---- devices.c ---- */

/* Number `i` of all devices of all platforms; false past the last. */
bool qsa_opencl_find(const qsa_opencl_api *api, uint32_t i, cl_device_id *out);
void qsa_opencl_describe(const qsa_opencl_api *api, cl_device_id id, uint32_t number, qsa_device_info *out);
/* Opens device number `number` through api, which is copied. */
qsa_status qsa_opencl_open(const qsa_opencl_api *api, uint32_t number, const qsa_opencl_options *options,
                           qsa_opencl_device **out);
void qsa_opencl_close(qsa_opencl_device *device);

/* ---- program.c ---- */

/* Texts made by the build from the .cl files: all of them; and what the probe needs, which knows no shape. */
extern const char qsa_opencl_kernels_source[], qsa_opencl_probe_source[];

/* Builds a source with these options, or takes it ready built from the device's folder. */
qsa_status qsa_opencl_build(const qsa_opencl_device *device, const char *source, const char *options, cl_program *out);

/* ---- probe.c ---- */

/* Runs arithmetic on the device whose bits are known. QSA_E_UNSUPPORTED naming what came out otherwise. */
qsa_status qsa_opencl_probe(const qsa_opencl_device *device);

/* The probe's kernels on numbers of the caller's: in [n][3] -> out [n][QSA_PROBE_RESULTS]; in [n] -> out [n], n a
 * multiple of the width. */
enum { QSA_PROBE_RESULTS = 6 }; /* fma(a, b, c), a * b + c, a + b, a * b, |a| / |b|, sqrt |a| */
qsa_status qsa_opencl_probe_arithmetic(const qsa_opencl_device *device, const float *in, uint32_t n, float *out);
qsa_status qsa_opencl_probe_e2(const qsa_opencl_device *device, const float *in, uint32_t n, float *out);

/* ---- store.c, step.c ---- */

extern const qsa_operations qsa_opencl_operations;

#endif
