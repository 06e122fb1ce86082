/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: where a cache's pages lie and where the work of its steps is done.
 *
 * Every device gives the same bits (SPEC section 6); which one a cache uses cannot be seen in a result, a digest or a
 * snapshot. The host is always there. OpenCL devices are found at run time, through libOpenCL; one that does not
 * promise what the arithmetic needs is listed with what it lacks, and refused.
 *
 *   qsa_device_open("opencl:0", NULL, &device);
 *   config.device = device;              // before qsa_cache_create
 *   ...                                  // any number of caches
 *   qsa_device_close(device);            // after the last of them
 *
 * With a device that is not the host, a step uploads the projections of a layer and its tables, and downloads its
 * output; scores, selections and pages stay where they are. The device does the work of a phase in its first part. */
#ifndef QSA_DEVICE_H
#define QSA_DEVICE_H

#include <qsa/config.h>

QSA_BEGIN_DECLS

/* What arithmetic needs and not every device has; bits of qsa_device_info.promises. */
enum {
    QSA_PROMISE_FMA = 1,        /* a fused multiply-add, not an emulated one */
    QSA_PROMISE_SUBNORMALS = 2, /* they are not flushed to zero */
    QSA_PROMISE_NEAREST = 4,    /* rounding to nearest even */
    QSA_PROMISE_INF_NAN = 8,    /* infinities and NaN behave */
    QSA_PROMISE_ALL = 15
};

typedef struct qsa_device_info {
    char name[32];             /* what qsa_device_open takes: "host", "opencl:0" */
    char description[128];     /* the vendor's name of it; of the host: its kernels */
    char driver[128];          /* version; "" for the host */
    char lacks[96];            /* what QSA needs and it does not promise; "" if it can be opened */
    uint64_t memory_bytes;     /* 0: not known */
    uint64_t allocation_bytes; /* the largest piece, which one layer's K and V must fit into; 0: not known */
    uint32_t promises;
} qsa_device_info;

/* The devices of this machine, the host first. out [room] gets as many as there is room for; *out_n: how many there
 * are. A machine without libOpenCL has the host alone; opening "opencl" there says so. Errors: QSA_E_ARGUMENT. */
QSA_API qsa_status qsa_device_list(qsa_device_info *out, size_t room, size_t *out_n);

typedef struct qsa_device_options {
    size_t size_bytes;          /* sizeof(qsa_device_options) */
    const char *program_folder; /* an existing folder for compiled programs, which are then compiled once per driver and
                                   shape; NULL: they are not kept. A damaged file is made again */
} qsa_device_options;

/* Opens a device: "host", "opencl" (the first that lacks nothing) or "opencl:N", as listed. options may be NULL.
 * Arithmetic whose bits are known is tried on it first.
 * Errors: QSA_E_ARGUMENT (name), QSA_E_UNSUPPORTED (there is none; or it lacks something, which is named),
 * QSA_E_DEVICE, QSA_E_MEMORY. */
QSA_API qsa_status qsa_device_open(const char *name, const qsa_device_options *options, qsa_device **out_device);

/* No cache may use it any more. NULL is legal. */
QSA_API void qsa_device_close(qsa_device *device);

/* What it was listed with. */
QSA_API qsa_status qsa_device_describe(const qsa_device *device, qsa_device_info *out_info);

QSA_END_DECLS
#endif
