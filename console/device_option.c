/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* mkdir */
#include "console/device_option.h"

#include "console/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
