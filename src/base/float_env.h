/* SPDX-License-Identifier: Apache-2.0 */
/* The float environment of SPEC section 6, rule 6: round to nearest, subnormals kept, no traps. Entry points that
 * compute set it and restore the caller's. */
#ifndef QSA_BASE_FLOAT_ENV_H
#define QSA_BASE_FLOAT_ENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef uint32_t qsa_float_env;
static inline qsa_float_env qsa_float_env_enter(void)
{
    qsa_float_env saved = _mm_getcsr();
    _mm_setcsr(0x1f80); /* all exceptions masked, nearest, no FTZ, no DAZ, flags clear */
    return saved;
}
static inline void qsa_float_env_leave(qsa_float_env saved)
{
    _mm_setcsr(saved);
}
#elif defined(__aarch64__)
typedef uint64_t qsa_float_env;
static inline qsa_float_env qsa_float_env_enter(void)
{
    qsa_float_env saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return saved;
}
static inline void qsa_float_env_leave(qsa_float_env saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(saved) : "memory");
}
#else
#include <fenv.h>
typedef fenv_t qsa_float_env;
static inline qsa_float_env qsa_float_env_enter(void)
{
    qsa_float_env saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
    return saved;
}
static inline void qsa_float_env_leave(qsa_float_env saved)
{
    fesetenv(&saved);
}
#endif
#endif
