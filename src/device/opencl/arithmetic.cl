/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors, conversions, and the operations whose bits are specified (SPEC section 6).
 *
 * The host compiles these files together, with a shape in QSA_... macros. A sum is one chain of fma; the QSA_WIDTH
 * lanes of a vector, like work-items, are independent outputs. */
#pragma OPENCL FP_CONTRACT OFF

/* Vectors of any power of two, 1 included. (In two steps, so that n may be a macro; the joined names may not.) */
#define VECTOR_(type, n) type##n
#define LOAD_(n, pointer) vload##n(0, pointer)
#define STORE_(n, value, pointer) vstore##n(value, 0, pointer)
#define AS_FLOAT_(n, x) as_float##n(x)
#define AS_UINT_(n, x) as_uint##n(x)
#define TO_FLOAT_(n, x) convert_float##n(x)
#define TO_UINT_(n, x) convert_uint##n(x)
#define VECTOR(type, n) VECTOR_(type, n)
#define LOAD(n, pointer) LOAD_(n, pointer)
#define STORE(n, value, pointer) STORE_(n, value, pointer)
#define AS_FLOAT(n, x) AS_FLOAT_(n, x)
#define AS_UINT(n, x) AS_UINT_(n, x)
#define TO_FLOAT(n, x) TO_FLOAT_(n, x)
#define TO_UINT(n, x) TO_UINT_(n, x)
typedef float float1;
typedef uint uint1;
#define vload1(offset, pointer) ((pointer)[offset])
#define vstore1(value, offset, pointer) ((pointer)[offset] = (value))
#define as_float1(x) as_float(x)
#define as_uint1(x) as_uint(x)
#define convert_float1(x) convert_float(x)
#define convert_uint1(x) convert_uint(x)

/* The device's own width, where it divides a head; 1 where each work-item is a lane. */
typedef VECTOR(float, QSA_WIDTH) floats;

/* ---- roundings ---- */

/* To nearest even; x is not NaN. */
ushort to_bf16(float x)
{
    const uint bits = as_uint(x);
    return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float round_bf16(float x)
{
    return as_float((uint)to_bf16(x) << 16);
}

/* To nearest even; |x| < 65520. Below 2^-14 the unit is 2^-24, and adding 0.5 rounds to it. */
ushort to_f16(float x)
{
    const uint bits = as_uint(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x38800000u)
        return (ushort)(sign | (as_uint(as_float(magnitude) + 0.5f) - as_uint(0.5f)));
    return (ushort)(sign | (((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10)));
}

/* Exact: the bits of n f16, read as f32 (subnormal ones where they are), times 2^112. */
#define WIDEN_F16(n, x)                                                                                                \
    AS_FLOAT(n, AS_UINT(n, AS_FLOAT(n, (TO_UINT(n, x) & 0x7fffu) << 13) * 0x1p112f) | (TO_UINT(n, x) & 0x8000u) << 16)
#define WIDEN_BF16(n, x) AS_FLOAT(n, TO_UINT(n, x) << 16)

/* ---- division and square root, correctly rounded, in integers: independent of the device's own ---- */

/* m * 2^e to nearest even, m > 0. The lowest bit of m may be sticky: it stands for all bits below. */
float round_scaled(ulong m, int e)
{
    int shift = 40 - (int)clz(m); /* keeps 24 bits */
    if (e + shift < -149)
        shift = -149 - e; /* a subnormal */
    if (shift > 63)
        return 0.0f;
    ulong rounded;
    if (shift <= 0) {
        rounded = m << -shift;
    } else {
        const ulong rest = m & (((ulong)1 << shift) - 1), half_unit = (ulong)1 << (shift - 1);
        rounded = m >> shift;
        rounded += (rest > half_unit || (rest == half_unit && (rounded & 1))) ? 1 : 0;
    }
    const long exponent = e + shift + 150;
    return exponent > 254 ? INFINITY : as_float((uint)((exponent << 23) + (long)rounded - (1 << 23)));
}

/* x = *m * 2^e with 2^23 <= *m < 2^24; x > 0 and finite. */
int split(float x, ulong *m)
{
    const uint bits = as_uint(x), mantissa = bits & 0x7fffffu;
    if (bits >= 0x800000u) {
        *m = mantissa | 0x800000u;
        return (int)(bits >> 23) - 150;
    }
    const int shift = (int)clz(mantissa) - 8;
    *m = (ulong)mantissa << shift;
    return -149 - shift;
}

/* a / b, a >= 0, b >= 0. (Refused input may leave b = 0; nobody reads the result, but it must not trap.) */
float divide(float a, float b)
{
    if (a == 0.0f || b == 0.0f)
        return b == 0.0f ? INFINITY : 0.0f;
    ulong ma, mb;
    const int ea = split(a, &ma), eb = split(b, &mb);
    const ulong quotient = (ma << 28) / mb;
    return round_scaled(quotient << 1 | (quotient * mb != ma << 28 ? 1 : 0), ea - eb - 29);
}

/* x > 0 */
float root(float x)
{
    ulong m;
    int e = split(x, &m) - 26;
    m <<= 26; /* up to 50 bits; the root has 25 */
    if (e & 1) {
        m <<= 1;
        e--;
    }
    ulong r = 0;
    for (ulong bit = (ulong)1 << 25; bit != 0; bit >>= 1)
        if ((r | bit) * (r | bit) <= m)
            r |= bit;
    return round_scaled(r << 1 | (r * r != m ? 1 : 0), e / 2 - 1);
}

/* ---- 2^x for x <= 0 ---- */

floats e2(floats x)
{
    const floats rounder = (floats)12582912.0f; /* 1.5 * 2^23 rounds to an integer */
    const floats shifted = x + rounder;
    const floats r = x - (shifted - rounder);
    floats p = (floats)0x1.444p-13f;
    p = fma(p, r, (floats)0x1.5f48cp-10f);
    p = fma(p, r, (floats)0x1.3b2a1cp-7f);
    p = fma(p, r, (floats)0x1.c6aeccp-5f);
    p = fma(p, r, (floats)0x1.ebfbep-3f);
    p = fma(p, r, (floats)0x1.62e43p-1f);
    p = fma(p, r, (floats)1.0f);
    const floats power = AS_FLOAT(
        QSA_WIDTH, AS_UINT(QSA_WIDTH, p) + ((AS_UINT(QSA_WIDTH, shifted) - AS_UINT(QSA_WIDTH, rounder)) << 23));
    return select((floats)0.0f, power, isgreaterequal(x, (floats)-126.0f));
}
