/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL device: found at run time, used only if it satisfies the contract of SPEC section 6.
 *
 * libOpenCL is loaded, not linked: a machine without it runs everything else. One device serves any number of caches;
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

/* Options for opening a device. All zeros: the defaults for users. The rest is for tests. */
typedef struct qsa_opencl_options {
    const char *program_folder; /* cache of built programs; NULL: they are not kept. Copied */
    const char *defines;        /* further compiler options; NULL: none. Copied */
    uint32_t work_groups;       /* launched at once; 0: as many as keep the device busy */
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

/* Loads a library of that name. QSA_E_UNSUPPORTED if it is not there or lacks a function. It stays loaded. */
qsa_status qsa_opencl_load(const char *library, qsa_opencl_api *out);
#define QSA_OPENCL_LIBRARY "libOpenCL.so.1"

/* QSA_OK for CL_SUCCESS; otherwise QSA_E_MEMORY or QSA_E_DEVICE, with the call's name in the detail. */
qsa_status qsa_opencl_check(cl_int code, const char *call);

/* ---- devices.c ---- */

/* Device number `i` of all platforms; false past the last. */
bool qsa_opencl_find(const qsa_opencl_api *api, uint32_t i, cl_device_id *out);
void qsa_opencl_describe(const qsa_opencl_api *api, cl_device_id id, uint32_t number, qsa_device_info *out);
/* Opens device number `number` through api, which is copied. */
qsa_status qsa_opencl_open(const qsa_opencl_api *api, uint32_t number, const qsa_opencl_options *options,
                           qsa_opencl_device **out);
void qsa_opencl_close(qsa_opencl_device *device);

/* ---- program.c ---- */

/* Source texts that the build makes from the .cl files: all of them; and those of the probe, which depend on
 * no shape. */
extern const char qsa_opencl_kernels_source[], qsa_opencl_probe_source[];

/* Builds a source with these options, or loads the built program from the device's folder. */
qsa_status qsa_opencl_build(const qsa_opencl_device *device, const char *source, const char *options, cl_program *out);

/* ---- probe.c ---- */

/* Runs arithmetic with known bits on the device. QSA_E_UNSUPPORTED if a result differs, and the detail says which. */
qsa_status qsa_opencl_probe(const qsa_opencl_device *device);

/* The probe's kernels on the caller's numbers: in [n][3] -> out [n][QSA_PROBE_RESULTS]; in [n] -> out [n], n a multiple
 * of the width. */
enum { QSA_PROBE_RESULTS = 6 }; /* fma(a, b, c), a * b + c, a + b, a * b, |a| / |b|, sqrt |a| */
qsa_status qsa_opencl_probe_arithmetic(const qsa_opencl_device *device, const float *in, uint32_t n, float *out);
qsa_status qsa_opencl_probe_e2(const qsa_opencl_device *device, const float *in, uint32_t n, float *out);

/* ---- store.c, step.c ---- */

extern const qsa_operations qsa_opencl_operations;

#endif
