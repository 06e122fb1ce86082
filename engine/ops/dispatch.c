/* SPDX-License-Identifier: Apache-2.0 */
/* Which table this processor runs. */
#include "ops/tables.h"

#include "base/isa.h"

/* The better, the later. */
static const ops_table *const tables[] = {
    &ops_table_scalar,
#if defined(__x86_64__)
    &ops_table_avx2,
    &ops_table_avx512,
#elif defined(__aarch64__)
    &ops_table_neon,
#endif
};
static const qsa_isa isas[] = {
    {"scalar", QSA_CPU_BASELINE},
#if defined(__x86_64__)
    {"avx2", QSA_CPU_AVX2},
    {"avx512", QSA_CPU_AVX512},
#elif defined(__aarch64__)
    {"neon", QSA_CPU_BASELINE},
#endif
};

enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

const ops_table *ops_available(size_t i)
{
    const size_t t = qsa_isa_available(isas, TABLE_COUNT, i);
    return t < TABLE_COUNT ? tables[t] : NULL;
}

const ops_table *ops_choose(const char **out_wanted)
{
    const size_t t = qsa_isa_choose(isas, TABLE_COUNT, out_wanted);
    return t < TABLE_COUNT ? tables[t] : NULL;
}
