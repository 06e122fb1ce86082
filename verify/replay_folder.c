/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of recorded cases: finds the files, replays each by its kind, prints a line per file and a total. */
#define _POSIX_C_SOURCE 200809L /* opendir, lstat */
#include "console/memory.h"
#include "console/options.h"
#include "verify/replay.h"
#include "verify/verify.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct kind {
    const char *name;
    replay_function *replay;
} kinds[] = {
    {"stage", replay_stage},         {"ties", replay_stage},  {"rope", replay_rope},
    {"canonical", replay_canonical}, {"model", replay_model}, {"tokenizer", replay_tokenizer},
};

/* ---- the files ---- */

typedef struct file_list {
    char **names;
    size_t count, capacity;
} file_list;

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = memory_new(size, 1);
    snprintf(path, size, "%s%s%s", folder, folder[0] ? "/" : "", name);
    return path;
}

/* Adds the regular files under root/below, with paths relative to root. Links are not followed. */
static bool list_files(const char *root, const char *below, file_list *list)
{
    char *path = join(root, below);
    DIR *folder = opendir(path);
    if (!folder) {
        options_say("verify", "%s: %s", path, strerror(errno));
        free(path);
        return false;
    }
    bool is_good = true;
    for (struct dirent *entry; is_good && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        char *name = join(below, entry->d_name), *full = join(root, name);
        struct stat status = {0};
        if (lstat(full, &status) == 0 && S_ISDIR(status.st_mode)) {
            is_good = list_files(root, name, list);
        } else if (S_ISREG(status.st_mode)) {
            list->names = memory_grow(list->names, &list->capacity, list->count + 1, sizeof *list->names);
            list->names[list->count++] = memory_string(name);
        }
        free(name);
        free(full);
    }
    closedir(folder);
    free(path);
    return is_good;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), end = strlen(suffix);
    return length >= end && strcmp(name + length - end, suffix) == 0;
}

/* Whether the first line identifies a golden file. */
static bool is_golden(const char *path)
{
    char line[16] = "";
    FILE *stream = fopen(path, "r");
    bool is_read = stream && fgets(line, sizeof line, stream);
    if (stream)
        fclose(stream);
    return is_read && strncmp(line, "golden ", 7) == 0;
}

/* ---- a line per file ---- */

static void print_line(const char *file, const char *kind, const report *r)
{
    const char *status = r->differences ? "DIFFERS" : r->skipped && r->compared == 0 ? "SKIP" : "ok";
    printf("%-34s %-10s %10" PRIu64 "  %-7s", file, kind, r->compared, status);
    if (r->skipped)
        printf("  %" PRIu64 " skipped: %s", r->skipped, r->skip);
    putchar('\n');
    if (r->differences)
        printf("    %" PRIu64 " differences; the first: %s\n", r->differences, r->first);
    fflush(stdout);
}

static void replay_file(const golden_folder *folder, const char *file, const char *path, report *total)
{
    report r = {0};
    golden_error error = {{0}};
    golden_file *golden = golden_read(path, &error);
    const char *name = golden ? golden_kind(golden) : "?";
    const struct kind *kind = NULL;
    for (size_t i = 0; golden && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(name, kinds[i].name) == 0)
            kind = &kinds[i];
    if (!golden)
        report_differ(&r, "%s", error.text);
    else if (!kind)
        report_skip(&r, "kind '%.40s' is not known", name);
    else
        kind->replay(folder, file, golden, &r);
    print_line(file, name, &r);
    report_add(total, &r);
    golden_free(golden);
}

static void print_total(const report *total, size_t files)
{
    printf("%zu files, %" PRIu64 " values compared, %" PRIu64 " differences", files, total->compared,
           total->differences);
    if (total->skipped)
        printf(", %" PRIu64 " cases skipped", total->skipped);
    putchar('\n');
}

static bool replay_files(const golden_folder *folder)
{
    report total = {0};
    size_t files = 0;
    printf("%-34s %-10s %10s  %s\n", "file", "kind", "compared", "status");
    for (size_t i = 0; i < folder->count; i++) {
        char *path = join(folder->path, folder->files[i]);
        if (is_golden(path)) {
            replay_file(folder, folder->files[i], path, &total);
            files++;
        } else if (!has_suffix(folder->files[i], ".gguf") && !has_suffix(folder->files[i], ".md")) {
            /* models are read by their cases */
            printf("%-34s ignored: not in the golden format\n", folder->files[i]);
        }
        free(path);
    }
    print_total(&total, files);
    if (files == 0)
        options_say("verify", "%s holds no recorded case", folder->path);
    return files > 0 && total.differences == 0;
}

bool verify_folder(const char *path)
{
    file_list list = {0};
    bool is_good = list_files(path, "", &list);
    if (is_good && list.count == 0) {
        options_say("verify", "%s holds no recorded case", path);
        is_good = false;
    } else if (is_good) {
        qsort(list.names, list.count, sizeof *list.names, by_name);
        is_good = replay_files(&(golden_folder){path, list.names, list.count});
    }
    for (size_t i = 0; i < list.count; i++)
        free(list.names[i]);
    free(list.names);
    return is_good;
}
