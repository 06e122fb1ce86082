/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic that shows whether a device keeps its promises: the host knows the expected bits. */

/* in [n][3]; out [n][6]: fma(a, b, c), a * b + c, a + b, a * b, and our own |a| / |b| and sqrt |a| */
kernel void probe_arithmetic(global const float *in, uint n, global float *out)
{
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        const float a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
        out[6 * i] = fma(a, b, c);
#ifdef QSA_PLANT_PROBE /* simulates a compiler that contracts, for the tests */
        out[6 * i + 1] = fma(a, b, c);
#else
        out[6 * i + 1] = a * b + c;
#endif
        out[6 * i + 2] = a + b;
        out[6 * i + 3] = a * b;
        out[6 * i + 4] = divide(fabs(a), fabs(b));
        out[6 * i + 5] = root(fabs(a));
    }
}

/* out [n]: 2^in. n a multiple of QSA_WIDTH */
kernel void probe_e2(global const float *in, uint n, global float *out)
{
    for (uint i = get_global_id(0) * QSA_WIDTH; i < n; i += get_global_size(0) * QSA_WIDTH)
        STORE(QSA_WIDTH, e2(LOAD(QSA_WIDTH, in + i)), out + i);
}
