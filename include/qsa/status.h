/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and error detail.
 *
 * Every function that can fail returns a qsa_status; QSA_OK is 0. A call that fails changes nothing: cache, index,
 * sequences and out-parameters are as before. (The output tensors of a failed step are unspecified.) The library never
 * prints, exits or aborts on input. */
#ifndef QSA_STATUS_H
#define QSA_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
#define QSA_BEGIN_DECLS extern "C" {
#define QSA_END_DECLS }
#else
#define QSA_BEGIN_DECLS
#define QSA_END_DECLS
#endif

#if defined(__GNUC__)
#define QSA_API __attribute__((visibility("default")))
#else
#define QSA_API
#endif

QSA_BEGIN_DECLS

typedef enum qsa_status {
    QSA_OK = 0,
    QSA_E_ARGUMENT,    /* an argument that is invalid in any state of the cache */
    QSA_E_LIMIT,       /* beyond a documented limit (config.h) */
    QSA_E_MEMORY,      /* the allocator returned NULL */
    QSA_E_FULL,        /* no free page or sequence left in the cache */
    QSA_E_HOLE,        /* a position is missing inside a run */
    QSA_E_STORED,      /* a position is already stored */
    QSA_E_RANGE,       /* a position or span outside [anchor, frontier] */
    QSA_E_NONFINITE,   /* an input is NaN, infinite, beyond 2^56 in magnitude, or overflows its storage type */
    QSA_E_SEQUENCE,    /* not an open sequence of this cache, or twice in one step */
    QSA_E_BUSY,        /* a step is open, or a callback of the host is running */
    QSA_E_ORDER,       /* a layer or phase missing, repeated or out of order */
    QSA_E_UNSUPPORTED, /* this processor, build or file does not support it */
    QSA_E_FORMAT,      /* malformed bytes: file, snapshot */
    QSA_E_IO,          /* an operating system error: file, memory map, thread */
    QSA_E_DEVICE,      /* a device failed: lost, out of resources, program build */
    QSA_E_CANCELLED,   /* the caller's callback asked to stop; returned by the engine only */
    QSA_STATUS_COUNT
} qsa_status;

/* Name of a status, for example "QSA_E_HOLE"; "QSA_E_?" for any other number. Static storage. */
QSA_API const char *qsa_status_name(qsa_status status);

/* One line about the calling thread's last call that returned a status other than QSA_OK: which position, which layer,
 * expected and found. "" if none has failed. Thread-local storage, valid until the thread's next failing call. */
QSA_API const char *qsa_error_detail(void);

QSA_END_DECLS
#endif
