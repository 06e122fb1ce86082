/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and creating where memory ends: whichever allocation fails, the status is QSA_E_MEMORY and nothing is left.
 */
#include "model_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the n-th allocation fails ---- */

static uint64_t calls, fail_at; /* 0: none fails */
static int64_t live;            /* blocks and mappings */

static int refuses(void)
{
    return ++calls == fail_at;
}

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

/* The linker's names for the real functions (--wrap). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return refuses() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return refuses() ? NULL : counted(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
    if (refuses())
        return NULL;
    void *memory = __real_realloc(old, bytes);
    live += memory != NULL && old == NULL;
    return memory;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return refuses() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text)
{
    return refuses() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (refuses()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *memory = __real_mmap(at, bytes, protection, flags, fd, offset);
    live += memory != MAP_FAILED;
    return memory;
}

int __wrap_munmap(void *at, size_t bytes)
{
    live--;
    return __real_munmap(at, bytes);
}

/* ---- what is opened ---- */

static const char *path;

static qsa_status open_all(qsa_weight_storage weights, qsa_residency residency)
{
    qsa_model *model = NULL;
    qsa_context *context = NULL;
    qsa_session *session = NULL;
    qsa_model_options m;
    qsa_model_options_init(&m);
    m.weights = weights;
    m.residency = residency;
    const qsa_context_options o = model_options(2, 32, 1);
    qsa_status status = qsa_model_open(path, &m, &model);
    if (status == QSA_OK)
        status = qsa_context_create(model, &o, &context);
    if (status == QSA_OK)
        status = qsa_session_open(context, &session);
    assert_true(status == QSA_OK || session == NULL);
    qsa_session_close(session);
    qsa_context_destroy(context);
    qsa_model_close(model);
    return status;
}

static void every_allocation_of_open_and_create_may_fail(void **state)
{
    (void)state;
    static char name[512];
    snprintf(name, sizeof name, "%s/model/tiny-q8_0.gguf", QSA_GOLDEN_DIR);
    path = name;
    for (int i = 0; i < 3; i++) {
        const qsa_weight_storage weights = i == 1 ? QSA_WEIGHTS_F32 : QSA_WEIGHTS_NATIVE;
        const qsa_residency residency = i == 2 ? QSA_RESIDENCY_LOADED : QSA_RESIDENCY_MAPPED;
        fail_at = 0;
        assert_int_equal(open_all(weights, residency), QSA_OK); /* what is allocated once for the process */
        uint64_t n = 1;
        for (;; n++) {
            const int64_t before = live;
            calls = 0;
            fail_at = n;
            const qsa_status status = open_all(weights, residency);
            fail_at = 0;
            assert_int_equal(live, before);
            if (status == QSA_OK)
                break;
            assert_int_equal(status, QSA_E_MEMORY);
            assert_true(strlen(qsa_engine_error()) > 0);
        }
        assert_in_range(n, 30, 10000); /* blocks of many kinds have failed */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_open_and_create_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
