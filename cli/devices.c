/* SPDX-License-Identifier: Apache-2.0 */
/* qsa devices: lists them. */
#include "cli/commands.h"
#include "console/options.h"

#include <qsa/qsa.h>

#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] =
    "usage: qsa devices\n"
    "\n"
    "Lists the devices that qsa can compute on: the host, and the OpenCL devices that libOpenCL finds. Every device\n"
    "gives the same bits; one that lacks what they need is listed and refused.\n"
    "\n"
    "  -h, --help  print this help\n";

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
