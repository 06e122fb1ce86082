/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction sets this processor and the system have. */
#include "base/isa.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Bits of XCR0: the register state that the operating system saves. */
enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6 };
/* AVX-VNNI: leaf 7, subleaf 1, eax. Older compilers' cpuid.h does not define it. */
enum { AVX_VNNI = 1 << 4 };

static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has_all(uint32_t bits, uint32_t wanted)
{
    return (bits & wanted) == wanted;
}

static unsigned detect_features(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
        return 0;
    uint32_t saved = saved_registers();
    if (!has_all(saved, XCR0_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(b, bit_AVX2))
        return 0;

    unsigned found = QSA_CPU_AVX2;
    if (has_all(saved, XCR0_AVX512) && has_all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ))
        found |= has_all(c, bit_AVX512VNNI) ? QSA_CPU_AVX512 | QSA_CPU_AVX512_VNNI : QSA_CPU_AVX512;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && has_all(a, AVX_VNNI))
        found |= QSA_CPU_AVX_VNNI;
    return found;
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

static unsigned detect_features(void)
{
    enum { HWCAP_DOT_PRODUCT = 1 << 20 };
    return getauxval(AT_HWCAP) & HWCAP_DOT_PRODUCT ? QSA_CPU_DOTPROD : 0;
}
#elif defined(__ARM_FEATURE_DOTPROD)
static unsigned detect_features(void)
{
    return QSA_CPU_DOTPROD;
}
#else
static unsigned detect_features(void)
{
    return 0;
}
#endif

/* Cached, because CPUID takes microseconds in a virtual machine. Threads that race store the same result. */
unsigned qsa_cpu_features(void)
{
    enum { KNOWN = 1 << 30 };
    static atomic_uint known;
    unsigned found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == 0) {
        found = detect_features() | KNOWN;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found & ~(unsigned)KNOWN;
}

static bool runs_here(const qsa_isa *table)
{
    return (table->needs & ~qsa_cpu_features()) == 0;
}

size_t qsa_isa_available(const qsa_isa *tables, size_t n, size_t i)
{
    for (size_t t = 0; t < n; t++)
        if (runs_here(&tables[t]) && i-- == 0)
            return t;
    return n;
}

size_t qsa_isa_choose(const qsa_isa *tables, size_t n, const char **out_wanted)
{
    const char *wanted = getenv("QSA_ISA");
    *out_wanted = wanted;
    for (size_t t = n; t-- > 0;)
        if (runs_here(&tables[t]) && (!wanted || strcmp(wanted, tables[t].name) == 0))
            return t;
    return n;
}
