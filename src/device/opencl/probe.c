/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a device's arithmetic on telling numbers: a compiler that contracts, a driver that flushes subnormals, or a
 * product that is not rounded to nearest is found here, before it changes a result. */
#include "base/elementary.h"
#include "base/float_env.h"
#include "device/opencl/opencl.h"

#include <stdio.h>

typedef struct probe_run {
    const qsa_opencl_device *device;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem in, out;
} probe_run;

static void close_run(probe_run *run)
{
    const qsa_opencl_api *api = &run->device->api;
    if (run->out != NULL)
        api->clReleaseMemObject(run->out);
    if (run->in != NULL)
        api->clReleaseMemObject(run->in);
    if (run->kernel != NULL)
        api->clReleaseKernel(run->kernel);
    if (run->program != NULL)
        api->clReleaseProgram(run->program);
    if (run->queue != NULL)
        api->clReleaseCommandQueue(run->queue);
}

static qsa_status open_run(probe_run *run, const char *kernel, size_t in_bytes, size_t out_bytes)
{
    const qsa_opencl_api *api = &run->device->api;
    char options[256];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DQSA_WIDTH=%u %s", run->device->width,
             run->device->defines == NULL ? "" : run->device->defines);
    cl_int code;
    run->queue = api->clCreateCommandQueue(run->device->context, run->device->id, 0, &code);
    QSA_TRY(qsa_opencl_check(code, "clCreateCommandQueue"));
    QSA_TRY(qsa_opencl_build(run->device, qsa_opencl_probe_source, options, &run->program));
    run->kernel = api->clCreateKernel(run->program, kernel, &code);
    QSA_TRY(qsa_opencl_check(code, "clCreateKernel"));
    run->in = api->clCreateBuffer(run->device->context, CL_MEM_READ_ONLY, in_bytes, NULL, &code);
    QSA_TRY(qsa_opencl_check(code, "clCreateBuffer"));
    run->out = api->clCreateBuffer(run->device->context, CL_MEM_READ_WRITE, out_bytes, NULL, &code);
    return qsa_opencl_check(code, "clCreateBuffer");
}

static qsa_status use_run(probe_run *run, const float *in, size_t in_bytes, cl_uint n, float *out, size_t out_bytes)
{
    const qsa_opencl_api *api = &run->device->api;
    const size_t items = 64;
    QSA_TRY(qsa_opencl_check(api->clEnqueueWriteBuffer(run->queue, run->in, CL_TRUE, 0, in_bytes, in, 0, NULL, NULL),
                             "clEnqueueWriteBuffer"));
    QSA_TRY(qsa_opencl_check(api->clSetKernelArg(run->kernel, 0, sizeof run->in, &run->in), "clSetKernelArg"));
    QSA_TRY(qsa_opencl_check(api->clSetKernelArg(run->kernel, 1, sizeof n, &n), "clSetKernelArg"));
    QSA_TRY(qsa_opencl_check(api->clSetKernelArg(run->kernel, 2, sizeof run->out, &run->out), "clSetKernelArg"));
    QSA_TRY(qsa_opencl_check(api->clEnqueueNDRangeKernel(run->queue, run->kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
                             "clEnqueueNDRangeKernel"));
    return qsa_opencl_check(api->clEnqueueReadBuffer(run->queue, run->out, CL_TRUE, 0, out_bytes, out, 0, NULL, NULL),
                            "clEnqueueReadBuffer");
}

static qsa_status run_kernel(const qsa_opencl_device *device, const char *kernel, const float *in, size_t in_bytes,
                             uint32_t n, float *out, size_t out_bytes)
{
    probe_run run = {.device = device};
    qsa_status status = open_run(&run, kernel, in_bytes, out_bytes);
    if (status == QSA_OK)
        status = use_run(&run, in, in_bytes, n, out, out_bytes);
    close_run(&run);
    return status;
}

qsa_status qsa_opencl_probe_arithmetic(const qsa_opencl_device *device, const float *in, uint32_t n, float *out)
{
    return run_kernel(device, "probe_arithmetic", in, 3 * n * sizeof *in, n, out, QSA_PROBE_RESULTS * n * sizeof *out);
}

qsa_status qsa_opencl_probe_e2(const qsa_opencl_device *device, const float *in, uint32_t n, float *out)
{
    return run_kernel(device, "probe_e2", in, n * sizeof *in, n, out, n * sizeof *out);
}

/* a, b, c: products whose rounding shows in the sum; subnormal operands, sums and products; halves of the
 * last place. */
static const float samples[][3] = {{0x1.000002p+0f, 0x1.000002p+0f, -0x1.000004p+0f},
                                   {0x1.fffffep-1f, 0x1.fffffep-1f, -0x1.fffffcp-1f},
                                   {0x1.555556p-2f, 3.0f, -1.0f},
                                   {0x1p-126f, -0x1.8p-127f, 0x1p-149f},
                                   {0x1p-149f, 0x1p-149f, 0x1p-149f},
                                   {0x1.234568p-130f, 0.5f, -0x1p-140f},
                                   {0x1.fffffep-70f, 0x1.000002p-70f, 0x1p-148f},
                                   {0x1.8p-1f, 0x1p-149f, 0.0f},
                                   {0x1p24f, 1.0f, 0.5f},
                                   {0x1.000002p24f, 1.0f, -3.0f},
                                   {12582912.0f, 0x1p-1f, 0.5f},
                                   {0x1.921fb6p+1f, 0x1.5bf0a8p+1f, -0x1.11443cp+3f},
                                   {0x1p56f, 0x1p56f, -0x1p100f},
                                   {-0x1.fffffep127f, 0x1p-149f, 0x1p-22f}};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* A product that the compiler of this file cannot contract with the sum after it. */
static void host_results(const float *in, float *out)
{
    const float a = in[0], b = in[1], c = in[2];
    volatile float product = a * b;
    out[0] = fmaf(a, b, c);
    out[1] = product + c;
    out[2] = a + b;
    out[3] = product;
    out[4] = fabsf(a) / fabsf(b);
    out[5] = sqrtf(fabsf(a));
}

qsa_status qsa_opencl_probe(const qsa_opencl_device *device)
{
    static const char *const names[QSA_PROBE_RESULTS] = {"a fused multiply-add",
                                                         "a product that is rounded before it is added",
                                                         "sums rounded to nearest, subnormals kept",
                                                         "products rounded to nearest, subnormals kept",
                                                         "exact integers",
                                                         "exact integers"};
    float found[SAMPLES][QSA_PROBE_RESULTS];
    QSA_TRY(qsa_opencl_probe_arithmetic(device, samples[0], SAMPLES, found[0]));
    qsa_float_env saved = qsa_float_env_enter();
    const char *lack = NULL;
    for (int i = 0; i < SAMPLES && lack == NULL; i++) {
        float expected[QSA_PROBE_RESULTS];
        host_results(samples[i], expected);
        for (int r = 0; r < QSA_PROBE_RESULTS && lack == NULL; r++)
            if (qsa_f32_bits(expected[r]) != qsa_f32_bits(found[i][r]))
                lack = names[r];
    }
    qsa_float_env_leave(saved);
    if (lack != NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "%s (%s) lacks %s: its arithmetic differs", device->info.name,
                        device->info.description, lack);
    return QSA_OK;
}
