/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and error detail.
 *
 * Every function that can fail returns a qsa_status; QSA_OK is 0. A call that does not return QSA_OK has changed
 * nothing: cache, index, sequences and out-parameters are as before (the output tensors of a failed step excepted,
 * their contents are unspecified). The library never prints, never exits and never aborts on input. */
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
    QSA_E_ARGUMENT,    /* a parameter that no state of the cache would make legal */
    QSA_E_LIMIT,       /* a stated limit (config.h: sequences, layers, heads, positions, ...) is exceeded */
    QSA_E_MEMORY,      /* the allocator returned NULL */
    QSA_E_FULL,        /* no free page, or no free sequence, in a cache whose size was planned */
    QSA_E_HOLE,        /* a missing position inside a run */
    QSA_E_STORED,      /* a position that is already stored */
    QSA_E_RANGE,       /* a position or span outside [anchor, frontier] */
    QSA_E_NONFINITE,   /* an input element that is NaN, infinite, beyond 2^56, or that its storage type cannot hold */
    QSA_E_SEQUENCE,    /* not an open sequence of this cache, or named twice in one step */
    QSA_E_BUSY,        /* a step is open */
    QSA_E_ORDER,       /* a layer or phase missing, repeated or out of order */
    QSA_E_UNSUPPORTED, /* this processor, build or file cannot do what was asked */
    QSA_E_FORMAT,      /* bytes from outside (file, snapshot) that do not have the promised form */
    QSA_E_IO,          /* the operating system refused: file, memory map */
    QSA_E_DEVICE,      /* a device failed: lost, out of its own resources, a program that it cannot build */
    QSA_STATUS_COUNT
} qsa_status;

/* Name of a status, for example "QSA_E_HOLE"; "QSA_E_?" for a number that is none. Static storage. */
QSA_API const char *qsa_status_name(qsa_status status);

/* One line about the calling thread's last failure: which position, which layer, expected and found. Static storage of
 * the thread, valid until its next failing call; "" if no call has failed. */
QSA_API const char *qsa_error_detail(void);

QSA_END_DECLS
#endif
