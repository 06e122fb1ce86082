/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* sysconf, getline's neighbours, getrlimit */
#include "base/available.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LINE_BYTES = 2 * PATH_BYTES };

typedef struct path {
    char text[PATH_BYTES];
} path;

/* Folder and name as one path; empty if it is too long. */
static path join(const char *folder, const char *name)
{
    path p;
    const int length = snprintf(p.text, sizeof p.text, "%s%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof p.text)
        p.text[0] = '\0';
    return p;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- small files of numbers ---- */

/* A file that holds one number. */
static bool read_number(const char *folder, const char *name, uint64_t *out_value)
{
    FILE *file = fopen(join(folder, name).text, "r");
    if (file == NULL)
        return false;
    const bool is_number = fscanf(file, "%" SCNu64, out_value) == 1; /* not "max" */
    fclose(file);
    return is_number;
}

/* The sum of the values of some keys, in a file with one key and its value per line. */
static uint64_t sum_of_keys(const char *folder, const char *name, const char *const *keys, bool *out_found)
{
    char line[LINE_BYTES], key[64];
    uint64_t value, sum = 0;
    FILE *file = fopen(join(folder, name).text, "r");
    *out_found = false;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%63s %" SCNu64, key, &value) != 2)
            continue;
        for (const char *const *k = keys; *k != NULL; k++) {
            if (strcmp(*k, key) == 0) {
                sum += value;
                *out_found = true;
            }
        }
    }
    if (file != NULL)
        fclose(file);
    return sum;
}

static uint64_t machine_bytes(const char *root)
{
    static const char *const keys[] = {"MemAvailable:", NULL};
    bool found;
    const uint64_t kib = sum_of_keys(root, "/proc/meminfo", keys, &found);
    return found && kib <= QSA_NO_LIMIT / 1024 ? kib * 1024 : QSA_NO_LIMIT;
}

/* ---- cgroups ---- */

/* The files of one version. A limit of version 1 that nobody set is the largest number of pages, which limits nothing
 * either way. */
typedef struct cgroup_version {
    const char *filesystem, *controller; /* in mountinfo; "": of all controllers */
    const char *limits[2], *usage;
    const char *reclaimable[4]; /* keys of memory.stat: what the kernel drops before it refuses a page */
} cgroup_version;

static const cgroup_version versions[] = {
    {"cgroup2",
     "",
     {"/memory.max", "/memory.high"},
     "/memory.current",
     {"active_file", "inactive_file", "slab_reclaimable", NULL}},
    {"cgroup",
     "memory",
     {"/memory.limit_in_bytes", NULL},
     "/memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file", NULL}},
};

/* Whether a list such as "rw,memory" has the word. The empty word is in every list. */
static bool lists(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; n > 0 && at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return n == 0;
}

/* Where the hierarchy is mounted, and which of its cgroups is the root of the mount. A line of mountinfo:
 * id, parent, device, root, mount point, options, optional fields, "-", type, source, options. */
static bool find_mount(const char *root, const cgroup_version *version, path *out_point, path *out_top)
{
    char line[LINE_BYTES], type[32], options[PATH_BYTES];
    FILE *file = fopen(join(root, "/proc/self/mountinfo").text, "r");
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char *end = strstr(line, " - ");
        found = end != NULL && sscanf(end, " - %31s %*s %4095s", type, options) == 2 &&
                strcmp(type, version->filesystem) == 0 && lists(options, version->controller) &&
                sscanf(line, "%*s %*s %*s %4095s %4095s", out_top->text, out_point->text) == 2;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* The cgroup of this process. A line of /proc/self/cgroup: number, controllers, path; version 2 has no controllers. */
static bool find_own(const char *root, const cgroup_version *version, path *out_own)
{
    char line[LINE_BYTES];
    FILE *file = fopen(join(root, "/proc/self/cgroup").text, "r");
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *own = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (own == NULL)
            continue;
        *own++ = '\0';
        found = version->controller[0] == '\0' ? controllers[1] == '\0' : lists(controllers + 1, version->controller);
        *out_own = join("", own);
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* What one cgroup leaves. */
static uint64_t room_in(const char *folder, const cgroup_version *version)
{
    uint64_t limit = QSA_NO_LIMIT, value, usage;
    bool found;
    for (size_t i = 0; i < 2 && version->limits[i] != NULL; i++)
        if (read_number(folder, version->limits[i], &value))
            limit = least(limit, value);
    if (limit >= INT64_MAX / 2 || !read_number(folder, version->usage, &usage))
        return QSA_NO_LIMIT;
    const uint64_t reclaimable = sum_of_keys(folder, "/memory.stat", version->reclaimable, &found);
    return minus(limit, minus(usage, reclaimable));
}

/* The least of what the cgroup of this process and all above it leave. In a container the mount shows only a part of
 * the hierarchy, which `top` is the root of. */
static uint64_t cgroup_room(const char *root, const cgroup_version *version)
{
    path point, top, own;
    if (!find_mount(root, version, &point, &top) || !find_own(root, version, &own))
        return QSA_NO_LIMIT;
    const size_t skipped = strcmp(top.text, "/") == 0 ? 0 : strlen(top.text);
    const bool is_below =
        strncmp(own.text, top.text, skipped) == 0 && (own.text[skipped] == '/' || own.text[skipped] == '\0');
    const path base = join(root, point.text);
    path at = join(base.text, is_below ? own.text + skipped : "");
    uint64_t room = QSA_NO_LIMIT;
    for (size_t n = strlen(at.text); n > 0 && n >= strlen(base.text); n = strlen(at.text)) {
        room = least(room, room_in(at.text, version));
        char *last = strrchr(at.text, '/');
        if (last == NULL)
            break;
        *last = '\0';
    }
    return room;
}

/* ---- address space ---- */

static uint64_t address_room(const char *root, uint64_t limit_bytes)
{
    uint64_t pages;
    if (limit_bytes == QSA_NO_LIMIT || !read_number(root, "/proc/self/statm", &pages))
        return limit_bytes;
    return minus(limit_bytes, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

/* ---- all ---- */

void available_memory_read(const char *root, uint64_t address_limit_bytes, qsa_available_memory *out)
{
    *out = (qsa_available_memory){.machine_bytes = machine_bytes(root),
                                  .cgroup_bytes = QSA_NO_LIMIT,
                                  .address_bytes = address_room(root, address_limit_bytes)};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        out->cgroup_bytes = least(out->cgroup_bytes, cgroup_room(root, &versions[i]));
}

uint64_t available_memory_least(const qsa_available_memory *available)
{
    return least(available->machine_bytes, least(available->cgroup_bytes, available->address_bytes));
}

void qsa_get_available_memory(qsa_available_memory *out_available)
{
    struct rlimit limit;
    const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    available_memory_read("", is_limited ? (uint64_t)limit.rlim_cur : QSA_NO_LIMIT, out_available);
}
