/* SPDX-License-Identifier: Apache-2.0 */
/* What this processor supports, and the one rule for choosing among tables of functions per instruction set. */
#ifndef QSA_BASE_ISA_H
#define QSA_BASE_ISA_H

#include <stddef.h>

/* Instruction sets, as bits. A bit is set only if the processor has all of the set and the operating system saves the
 * registers it uses. */
enum qsa_cpu {
    QSA_CPU_BASELINE = 0,
    QSA_CPU_AVX2 = 1 << 0,        /* AVX2, FMA, F16C */
    QSA_CPU_AVX_VNNI = 1 << 1,    /* byte dot products on 256 bits, in AVX encoding */
    QSA_CPU_AVX512 = 1 << 2,      /* F, BW, VL, DQ */
    QSA_CPU_AVX512_VNNI = 1 << 3, /* byte dot products on 512 bits */
    QSA_CPU_DOTPROD = 1 << 4      /* AArch64: byte dot products */
};

/* The instruction sets of this processor. Queries it once. */
unsigned qsa_cpu_features(void);

/* A table of functions: its name in QSA_ISA, and the instruction sets it needs (bits of qsa_cpu). Tables of one name
 * differ in what they need. */
typedef struct qsa_isa {
    const char *name;
    unsigned needs;
} qsa_isa;

/* Index of the i-th of n tables that runs here, i counted from 0, in table order; n if there are not that many. */
size_t qsa_isa_available(const qsa_isa *tables, size_t n, size_t i);

/* Index of the last of n tables that runs here, so the best comes last; with the environment variable QSA_ISA set, the
 * last one of that name. n if there is none: never a silent fallback. out_wanted: QSA_ISA, NULL if not set. */
size_t qsa_isa_choose(const qsa_isa *tables, size_t n, const char **out_wanted);

#endif
