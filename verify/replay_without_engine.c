/* SPDX-License-Identifier: Apache-2.0 */
/* In a program built without the engine: the kinds that need it are reported as skipped. */
#include "verify/replay.h"

static void skip(report *r)
{
    report_skip(r, "this qsa was built without the engine (QSA_ENGINE=OFF)");
}

void replay_model(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    (void)folder, (void)file, (void)golden;
    skip(r);
}

void replay_tokenizer(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    (void)folder, (void)file, (void)golden;
    skip(r);
}
