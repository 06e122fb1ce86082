/* SPDX-License-Identifier: Apache-2.0 */
/* Which table this processor runs. A table counts only if the processor has every instruction it needs and the
 * operating system saves the registers they use. */
#include "kernels/functions.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NEEDS_NOTHING = 0, NEEDS_AVX2_FMA = 1, NEEDS_AVX512 = 2, FEATURES_KNOWN = 4 };

#if defined(__x86_64__)
#include <cpuid.h>

/* Bits of XCR0: the register state that the system saves. */
enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6 };

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
    bool avx512 = has_all(saved, XCR0_AVX512) && has_all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ);
    return NEEDS_AVX2_FMA | (avx512 ? NEEDS_AVX512 : 0u);
}
#else
static unsigned detect_features(void)
{
    return 0;
}
#endif

/* clang-format off */
#define QSA_TABLE_BEGIN(isa_name, requirement) static const qsa_kernels table_##isa_name = {.isa = #isa_name,
#define QSA_KERNEL(type, slot, function) .slot = function,
#define QSA_TABLE_END };
/* clang-format on */
#include "kernels/kernels.inc"
#undef QSA_TABLE_BEGIN
#undef QSA_KERNEL
#undef QSA_TABLE_END

static const struct {
    const qsa_kernels *table;
    unsigned needs;
} tables[] = {
#define QSA_TABLE_BEGIN(isa_name, requirement) {&table_##isa_name, requirement},
#define QSA_KERNEL(type, slot, function)
#define QSA_TABLE_END
#include "kernels/kernels.inc"
};

enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

/* Asks the processor once: in a virtual machine that costs microseconds. Threads that race find the same answer. */
static unsigned features(void)
{
    static atomic_uint known;
    unsigned found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == 0) {
        found = detect_features() | FEATURES_KNOWN;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found;
}

const qsa_kernels *qsa_kernels_available(size_t i)
{
    for (size_t t = 0; t < TABLE_COUNT; t++)
        if ((tables[t].needs & ~features()) == 0 && i-- == 0)
            return tables[t].table;
    return NULL;
}

const qsa_kernels *qsa_kernels_choose(const char **out_wanted)
{
    const char *wanted = getenv("QSA_ISA");
    *out_wanted = wanted;
    const qsa_kernels *best = NULL;
    const qsa_kernels *table;
    for (size_t i = 0; (table = qsa_kernels_available(i)) != NULL; i++) {
        if (wanted && strcmp(wanted, table->isa) == 0)
            return table;
        best = table;
    }
    return wanted ? NULL : best;
}
