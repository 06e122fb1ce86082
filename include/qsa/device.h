/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what holds the pages of a cache and computes its steps.
 *
 * Every device gives the same bits (SPEC section 6): no result, digest or snapshot tells which one a cache uses. The
 * host is always there. OpenCL devices are found at run time through libOpenCL; a device that lacks what the arithmetic
 * needs is listed with what it lacks, and refused.
 *
 *   qsa_device_open("opencl:0", NULL, &device);
 *   config.device = device;              // before qsa_cache_create
 *   ...                                  // any number of caches
 *   qsa_device_close(device);            // after the last of them
 *
 * On a device other than the host, a step uploads the projections and page tables and downloads the output; pages,
 * scores and selections stay on the device, which does a phase's work in the phase's first part. */
#ifndef QSA_DEVICE_H
#define QSA_DEVICE_H

#include <qsa/config.h>

QSA_BEGIN_DECLS

/* Properties that the arithmetic needs; bits of qsa_device_info.promises. */
enum {
    QSA_PROMISE_FMA = 1,        /* fused multiply-add in hardware */
    QSA_PROMISE_SUBNORMALS = 2, /* subnormals are not flushed to zero */
    QSA_PROMISE_NEAREST = 4,    /* rounding to nearest even */
    QSA_PROMISE_INF_NAN = 8,    /* infinities and NaN follow IEEE 754 */
    QSA_PROMISE_ALL = 15
};

typedef struct qsa_device_info {
    char name[32];             /* what qsa_device_open takes: "host", "opencl:0" */
    char description[128];     /* the vendor's name; for the host its instruction sets */
    char driver[128];          /* version; "" for the host */
    char lacks[96];            /* what it lacks; "" if it can be opened */
    uint64_t memory_bytes;     /* 0: not known */
    uint64_t allocation_bytes; /* the largest allocation, which one layer's K/V must fit into; 0: not known */
    uint32_t promises;
} qsa_device_info;

/* The devices of this machine, the host first. out [room] takes as many as fit; *out_n is how many there are. Without
 * libOpenCL there is only the host. Errors: QSA_E_ARGUMENT. */
QSA_API qsa_status qsa_device_list(qsa_device_info *out, size_t room, size_t *out_n);

typedef struct qsa_device_options {
    size_t size_bytes;          /* sizeof(qsa_device_options) */
    const char *program_folder; /* an existing folder that keeps compiled programs, one per driver and shape; NULL:
                                   none are kept. A damaged file is replaced */
} qsa_device_options;

/* Opens a device after a self-test of its arithmetic: "host", "opencl" (the first that lacks nothing) or "opencl:N", as
 * listed. options NULL: defaults. The caller closes it.
 * Errors: QSA_E_ARGUMENT (name), QSA_E_MEMORY, QSA_E_UNSUPPORTED (none found, or what it lacks), QSA_E_DEVICE. */
QSA_API qsa_status qsa_device_open(const char *name, const qsa_device_options *options, qsa_device **out_device);

/* Closes a device that no cache uses any more. NULL is legal. */
QSA_API void qsa_device_close(qsa_device *device);

/* Its entry in the list; NULL is the host. Errors: QSA_E_ARGUMENT. */
QSA_API qsa_status qsa_device_describe(const qsa_device *device, qsa_device_info *out_info);

QSA_END_DECLS
#endif
