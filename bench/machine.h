/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: what its system says of processor and memory. */
#ifndef QSA_BENCH_MACHINE_H
#define QSA_BENCH_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether that much memory is available. False after saying that it is not. */
bool machine_has_memory(uint64_t needed_bytes);

/* Resident set size of this process in bytes; 0: not known. */
uint64_t machine_resident_bytes(void);

/* The processor's name as the kernel gives it; "" where it does not. */
void machine_processor(char *out, size_t size);

#endif
