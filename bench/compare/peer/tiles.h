/* SPDX-License-Identifier: Apache-2.0 */
/* gcc 12 tells its optimiser that loading a tile configuration reads eight bytes. It reads 64: llama.cpp's others are
 * optimised away, and its first quantised product on AMX ends the process. */
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#define _tile_loadconfig(configuration)                                                                                \
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const char(*)[64])(const void *)(configuration)))
#endif
