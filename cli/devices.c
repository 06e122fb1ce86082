/* SPDX-License-Identifier: Apache-2.0 */
/* qsa devices, and the option --device of the commands that compute. */
#define _POSIX_C_SOURCE 200809L /* mkdir */
#include "devices.h"

#include "commands.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char USAGE[] =
    "usage: qsa devices\n"
    "\n"
    "Lists where qsa can compute: the host, and the OpenCL devices that libOpenCL finds. Every\n"
    "device gives the same bits; one that lacks what they need is listed, and not used.\n"
    "\n"
    "  -h, --help  this text\n";

const char DEVICE_USAGE[] = "      --device NAME   host (default), opencl or opencl:N, as `qsa devices` lists them\n";

static qsa_device *chosen;

/* ---- the folder of compiled programs ---- */

enum { FOLDER_LIMIT = 4096 };

/* Makes every missing folder of a path; failures show when a file is written, and then cost nothing but time. */
static void make_folders(char *path)
{
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            mkdir(path, 0777);
            *at = '/';
        }
    mkdir(path, 0777);
}

/* By the XDG base directory specification: a relative XDG_CACHE_HOME is ignored. False: there is no such folder. */
static bool program_folder(char path[FOLDER_LIMIT])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (cache && cache[0] == '/')
        n = snprintf(path, FOLDER_LIMIT, "%s/qsa/programs", cache);
    else if (home && home[0] == '/')
        n = snprintf(path, FOLDER_LIMIT, "%s/.cache/qsa/programs", home);
    if (n <= 0 || n >= FOLDER_LIMIT)
        return false;
    make_folders(path);
    return true;
}

/* ---- choosing ---- */

static void close_chosen(void)
{
    qsa_device_close(chosen);
}

bool device_choose(const char *command, const char *name)
{
    char folder[FOLDER_LIMIT];
    qsa_device_options options = {.size_bytes = sizeof options};
    options.program_folder = program_folder(folder) ? folder : NULL;
    qsa_device *device;
    if (qsa_device_open(name, &options, &device) != QSA_OK) {
        options_say(command, "%s", qsa_error_detail());
        return false;
    }
    if (!chosen)
        atexit(close_chosen);
    qsa_device_close(chosen); /* given twice: the last one counts */
    chosen = device;
    return true;
}

qsa_device *device_in_use(void)
{
    return chosen;
}

const char *device_words(char buffer[192])
{
    qsa_device_info info;
    qsa_device_describe(chosen, &info);
    if (strcmp(info.name, "host") == 0)
        return "host"; /* described by its kernels, which are said besides */
    snprintf(buffer, 192, "%s (%s)", info.name, info.description);
    return buffer;
}

/* ---- the command ---- */

static const char *yes_no(const qsa_device_info *info, uint32_t promise)
{
    return info->promises & promise ? "yes" : "no";
}

static void print_device(const qsa_device_info *info)
{
    printf("%s: %s\n", info->name, info->description);
    if (info->driver[0])
        printf("  driver %s\n", info->driver);
    if (info->memory_bytes)
        printf("  memory %.1f GiB, %.1f in one piece\n", (double)info->memory_bytes / (double)(1 << 30),
               (double)info->allocation_bytes / (double)(1 << 30));
    printf("  promises: fused multiply-add %s, subnormals %s, rounding to nearest %s, infinities and NaN %s\n",
           yes_no(info, QSA_PROMISE_FMA), yes_no(info, QSA_PROMISE_SUBNORMALS), yes_no(info, QSA_PROMISE_NEAREST),
           yes_no(info, QSA_PROMISE_INF_NAN));
    if (info->lacks[0])
        printf("  cannot be used: lacks %s\n", info->lacks);
}

enum { LISTED = 64 };

int cmd_devices(int argc, char **argv)
{
    static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const options o = {"devices", argc, argv, "h", longs, NULL};
    for (int option; (option = options_next(&o)) != -1;) {
        if (option == '?')
            return EXIT_USAGE;
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    qsa_device_info infos[LISTED];
    size_t n;
    if (qsa_device_list(infos, LISTED, &n) != QSA_OK) {
        options_say("devices", "%s", qsa_error_detail());
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < n && i < LISTED; i++)
        print_device(&infos[i]);
    qsa_device *none;
    if (n == 1 && qsa_device_open("opencl", NULL, &none) != QSA_OK)
        printf("no other: %s\n", qsa_error_detail());
    return EXIT_SUCCESS;
}
