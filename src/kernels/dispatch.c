/* SPDX-License-Identifier: Apache-2.0 */
/* Which table this processor runs, by the rule of base/isa.h. */
#include "kernels/functions.h"

#include "base/isa.h"

enum { NEEDS_NOTHING = QSA_CPU_BASELINE, NEEDS_AVX2_FMA = QSA_CPU_AVX2, NEEDS_AVX512 = QSA_CPU_AVX512 };

/* clang-format off */
#define QSA_TABLE_BEGIN(isa_name, requirement) static const qsa_kernels table_##isa_name = {.isa = #isa_name,
#define QSA_KERNEL(operation, isa) .operation = qsa_##operation##__##isa,
#define QSA_TABLE_END };
/* clang-format on */
#include "kernels/kernels.inc"
#undef QSA_TABLE_BEGIN
#undef QSA_KERNEL
#undef QSA_TABLE_END

static const qsa_kernels *const tables[] = {
#define QSA_TABLE_BEGIN(isa_name, requirement) &table_##isa_name,
#define QSA_KERNEL(operation, isa)
#define QSA_TABLE_END
#include "kernels/kernels.inc"
#undef QSA_TABLE_BEGIN
#undef QSA_KERNEL
#undef QSA_TABLE_END
};

static const qsa_isa isas[] = {
#define QSA_TABLE_BEGIN(isa_name, requirement) {#isa_name, requirement},
#define QSA_KERNEL(operation, isa)
#define QSA_TABLE_END
#include "kernels/kernels.inc"
};

enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

const qsa_kernels *qsa_kernels_available(size_t i)
{
    size_t t = qsa_isa_available(isas, TABLE_COUNT, i);
    return t < TABLE_COUNT ? tables[t] : NULL;
}

const qsa_kernels *qsa_kernels_choose(const char **out_wanted)
{
    size_t t = qsa_isa_choose(isas, TABLE_COUNT, out_wanted);
    return t < TABLE_COUNT ? tables[t] : NULL;
}
