/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process can still take. */
#ifndef QSA_ENGINE_BASE_AVAILABLE_H
#define QSA_ENGINE_BASE_AVAILABLE_H

#include <qsa_engine.h>

/* Reads root/proc/meminfo, root/proc/self/cgroup and what they lead to; root "" is the machine, a test has a folder
 * of made-up files. address_limit_bytes: RLIMIT_AS, QSA_NO_LIMIT if there is none. What cannot be read limits
 * nothing. */
void available_memory_read(const char *root, uint64_t address_limit_bytes, qsa_available_memory *out);

/* The smallest of the three: what memory that is allocated now can come to. */
uint64_t available_memory_least(const qsa_available_memory *available);

#endif
