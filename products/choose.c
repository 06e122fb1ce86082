/* SPDX-License-Identifier: Apache-2.0 */
/* Which table of functions this processor runs, by the rule of base/isa.h. */
#include "products/products.h"

#include "base/isa.h"

/* From the definition to the best. */
#if defined(__x86_64__)
#define FOR_EACH_TABLE(DO)                                                                                             \
    DO(scalar, "scalar", QSA_CPU_BASELINE)                                                                             \
    DO(avx2, "avx2", QSA_CPU_AVX2)                                                                                     \
    DO(avx_vnni, "avx2", QSA_CPU_AVX2 | QSA_CPU_AVX_VNNI)                                                              \
    DO(avx512, "avx512", QSA_CPU_AVX512)                                                                               \
    DO(avx512_vnni, "avx512", QSA_CPU_AVX512 | QSA_CPU_AVX512_VNNI)
#elif defined(__aarch64__)
#define FOR_EACH_TABLE(DO)                                                                                             \
    DO(scalar, "scalar", QSA_CPU_BASELINE)                                                                             \
    DO(neon, "neon", QSA_CPU_BASELINE)                                                                                 \
    DO(neon_dotprod, "neon", QSA_CPU_DOTPROD)
#else
#define FOR_EACH_TABLE(DO) DO(scalar, "scalar", QSA_CPU_BASELINE)
#endif

#define DECLARE(table, isa, needs) extern const qsa_products qsa_products_##table;
FOR_EACH_TABLE(DECLARE)

#define TABLE(table, isa, needs) &qsa_products_##table,
static const qsa_products *const tables[] = {FOR_EACH_TABLE(TABLE)};

#define ISA(table, isa, needs) {isa, needs},
static const qsa_isa isas[] = {FOR_EACH_TABLE(ISA)};

enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

const qsa_products *qsa_products_available(size_t i)
{
    size_t t = qsa_isa_available(isas, TABLE_COUNT, i);
    return t < TABLE_COUNT ? tables[t] : NULL;
}

const qsa_products *qsa_products_choose(const char **out_wanted)
{
    size_t t = qsa_isa_choose(isas, TABLE_COUNT, out_wanted);
    return t < TABLE_COUNT ? tables[t] : NULL;
}
