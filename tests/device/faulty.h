/* An OpenCL that fails when it is told to: the real functions, counted. */
#ifndef FAULTY_H
#define FAULTY_H

#include "fixture.h"

typedef struct faulty {
    uint64_t calls;              /* that could have failed, since it was set to 0 */
    uint64_t fail_at;            /* the number of the call that fails, from 1; 0: none */
    bool for_good;               /* and all after it */
    cl_int code;                 /* what a failing call returns */
    uint64_t sources;            /* programs made from source */
    uint64_t buffer_bytes;       /* of buffers made */
    cl_device_fp_config hidden;  /* promises that the device does not make */
    cl_ulong largest_allocation; /* that it admits; 0: as it is */
} faulty;

extern faulty fault;

/* The real functions behind those of `fault`. */
qsa_opencl_api faulty_api(void);

#endif
