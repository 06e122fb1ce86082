#include "faulty.h"

#include <string.h>

faulty fault;

static bool fails(void)
{
    fault.calls++;
    return fault.fail_at != 0 && (fault.calls == fault.fail_at || (fault.for_good && fault.calls > fault.fail_at));
}

/* A function that returns its status. */
#define RETURNS(name, parameters, arguments)                                                                           \
    static cl_int CL_API_CALL faulty_##name parameters                                                                 \
    {                                                                                                                  \
        return fails() ? fault.code : device_api()->name arguments;                                                    \
    }

/* A function that makes something and writes its status. */
#define MAKES(type, name, parameters, arguments)                                                                       \
    static type CL_API_CALL faulty_##name parameters                                                                   \
    {                                                                                                                  \
        if (!fails())                                                                                                  \
            return device_api()->name arguments;                                                                       \
        *code = fault.code;                                                                                            \
        return NULL;                                                                                                   \
    }

typedef void CL_CALLBACK notify_fn(const char *, const void *, size_t, void *);
typedef void CL_CALLBACK built_fn(cl_program, void *);

MAKES(cl_context, clCreateContext,
      (const cl_context_properties *p, cl_uint n, const cl_device_id *d, notify_fn *f, void *u, cl_int *code),
      (p, n, d, f, u, code))
MAKES(cl_command_queue, clCreateCommandQueue,
      (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *code), (c, d, p, code))
MAKES(cl_kernel, clCreateKernel, (cl_program p, const char *name, cl_int *code), (p, name, code))
RETURNS(clBuildProgram, (cl_program p, cl_uint n, const cl_device_id *d, const char *options, built_fn *f, void *u),
        (p, n, d, options, f, u))
RETURNS(clSetKernelArg, (cl_kernel k, cl_uint i, size_t n, const void *v), (k, i, n, v))
RETURNS(clEnqueueMigrateMemObjects,
        (cl_command_queue q, cl_uint n, const cl_mem *m, cl_mem_migration_flags f, cl_uint w, const cl_event *l,
         cl_event *e),
        (q, n, m, f, w, l, e))
RETURNS(clEnqueueWriteBuffer,
        (cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t n, const void *from, cl_uint w, const cl_event *l,
         cl_event *e),
        (q, m, b, at, n, from, w, l, e))
RETURNS(clEnqueueReadBuffer,
        (cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t n, void *to, cl_uint w, const cl_event *l,
         cl_event *e),
        (q, m, b, at, n, to, w, l, e))
RETURNS(clEnqueueCopyBuffer,
        (cl_command_queue q, cl_mem a, cl_mem b, size_t i, size_t j, size_t n, cl_uint w, const cl_event *l,
         cl_event *e),
        (q, a, b, i, j, n, w, l, e))
RETURNS(clEnqueueNDRangeKernel,
        (cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g, const size_t *s, cl_uint w,
         const cl_event *l, cl_event *e),
        (q, k, d, o, g, s, w, l, e))
RETURNS(clFinish, (cl_command_queue q), (q))

static cl_mem CL_API_CALL faulty_clCreateBuffer(cl_context c, cl_mem_flags f, size_t n, void *h, cl_int *code)
{
    fault.buffer_bytes += n;
    if (!fails())
        return device_api()->clCreateBuffer(c, f, n, h, code);
    *code = fault.code;
    return NULL;
}

static cl_program CL_API_CALL faulty_clCreateProgramWithSource(cl_context c, cl_uint n, const char **texts,
                                                               const size_t *sizes, cl_int *code)
{
    fault.sources++;
    if (!fails())
        return device_api()->clCreateProgramWithSource(c, n, texts, sizes, code);
    *code = fault.code;
    return NULL;
}

static cl_int CL_API_CALL faulty_clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *value,
                                                 size_t *out_size)
{
    cl_int code = device_api()->clGetDeviceInfo(id, what, size, value, out_size);
    if (code == CL_SUCCESS && value != NULL && what == CL_DEVICE_SINGLE_FP_CONFIG) {
        cl_device_fp_config config;
        memcpy(&config, value, sizeof config);
        config &= ~fault.hidden;
        memcpy(value, &config, sizeof config);
    }
    if (code == CL_SUCCESS && value != NULL && what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && fault.largest_allocation != 0)
        memcpy(value, &fault.largest_allocation, sizeof fault.largest_allocation);
    return code;
}

qsa_opencl_api faulty_api(void)
{
    qsa_opencl_api api = *device_api();
    api.clCreateContext = faulty_clCreateContext;
    api.clCreateCommandQueue = faulty_clCreateCommandQueue;
    api.clCreateKernel = faulty_clCreateKernel;
    api.clCreateBuffer = faulty_clCreateBuffer;
    api.clBuildProgram = faulty_clBuildProgram;
    api.clSetKernelArg = faulty_clSetKernelArg;
    api.clEnqueueMigrateMemObjects = faulty_clEnqueueMigrateMemObjects;
    api.clEnqueueWriteBuffer = faulty_clEnqueueWriteBuffer;
    api.clEnqueueReadBuffer = faulty_clEnqueueReadBuffer;
    api.clEnqueueCopyBuffer = faulty_clEnqueueCopyBuffer;
    api.clEnqueueNDRangeKernel = faulty_clEnqueueNDRangeKernel;
    api.clFinish = faulty_clFinish;
    api.clCreateProgramWithSource = faulty_clCreateProgramWithSource;
    api.clGetDeviceInfo = faulty_clGetDeviceInfo;
    return api;
}
