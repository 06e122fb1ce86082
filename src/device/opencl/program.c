/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the kernels, once per driver, source and options: a built program can be cached in a file.
 *
 * A file is a header and the driver's binary, named by a digest of everything that the binary depends on. If
 * anything is wrong with it, the program is built again. A file that cannot be written is not an error: the cache
 * only saves time. */
#include "base/hash.h"
#include "device/opencl/opencl.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct file_head {
    char magic[8];
    uint64_t key, size_bytes, digest; /* of the binary */
} file_head;
_Static_assert(sizeof(file_head) == 32, "the head reaches a file");

static const char MAGIC[8] = {'Q', 'S', 'A', 'C', 'L', '1', 0, 0};
enum { PATH_LIMIT = 4096, LOG_LIMIT = 4096 };

static uint64_t digest_of(const void *bytes, size_t size)
{
    qsa_hash hash;
    qsa_hash_begin(&hash);
    qsa_hash_add(&hash, bytes, size);
    return qsa_hash_end(&hash);
}

/* Hashes the texts with their terminators, so that different lists have different keys. */
static uint64_t key_of(const qsa_opencl_device *device, const char *source, const char *options)
{
    const char *const texts[] = {source, options, device->info.description, device->info.driver};
    qsa_hash hash;
    qsa_hash_begin(&hash);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        qsa_hash_add(&hash, texts[i], strlen(texts[i]) + 1);
    return qsa_hash_end(&hash);
}

static bool path_of(const qsa_opencl_device *device, uint64_t key, char *out)
{
    if (device->program_folder == NULL)
        return false;
    int n = snprintf(out, PATH_LIMIT, "%s/opencl-%016" PRIx64 ".bin", device->program_folder, key);
    return n > 0 && n < PATH_LIMIT;
}

/* The first line of the compiler's log. */
static qsa_status build_failed(const qsa_opencl_device *device, cl_program program, cl_int code)
{
    char log[LOG_LIMIT] = "";
    device->api.clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    log[strcspn(log, "\r\n")] = 0;
    return qsa_fail(QSA_E_DEVICE, "opencl: the kernels do not build (%d): %s", (int)code, log);
}

static qsa_status build(const qsa_opencl_device *device, const char *options, cl_program program)
{
    cl_int code = device->api.clBuildProgram(program, 1, &device->id, options, NULL, NULL);
    return code == CL_SUCCESS ? QSA_OK : build_failed(device, program, code);
}

/* ---- the file ---- */

/* The binary, if the file is valid and its own; NULL otherwise. */
static uint8_t *read_file(const char *path, uint64_t key, uint64_t limit, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    file_head head;
    uint8_t *binary = NULL;
    if (fread(&head, sizeof head, 1, file) == 1 && memcmp(head.magic, MAGIC, sizeof MAGIC) == 0 && head.key == key &&
        head.size_bytes > 0 && head.size_bytes <= limit)
        binary = qsa_allocate(&qsa_default_allocator, head.size_bytes);
    if (binary != NULL && (fread(binary, 1, head.size_bytes, file) != head.size_bytes || fgetc(file) != EOF ||
                           digest_of(binary, head.size_bytes) != head.digest)) {
        qsa_release(&qsa_default_allocator, binary, head.size_bytes);
        binary = NULL;
    }
    fclose(file);
    *out_size = binary == NULL ? 0 : head.size_bytes;
    return binary;
}

/* Writes a temporary file beside it and renames that, so that the file is always complete. */
static void write_file(const char *path, uint64_t key, const uint8_t *binary, size_t size)
{
    static atomic_uint number; /* several processes and threads may write the same file at once */
    char temporary[PATH_LIMIT + 64];
    snprintf(temporary, sizeof temporary, "%s.%ld.%u", path, (long)getpid(), atomic_fetch_add(&number, 1));
    FILE *file = fopen(temporary, "wb");
    if (file == NULL)
        return;
    file_head head = {.key = key, .size_bytes = size, .digest = digest_of(binary, size)};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    bool written = fwrite(&head, sizeof head, 1, file) == 1 && fwrite(binary, 1, size, file) == size;
    if (fclose(file) != 0 || !written || rename(temporary, path) != 0)
        remove(temporary);
}

enum { BINARY_LIMIT = 64 << 20 };

static bool take_kept(const qsa_opencl_device *device, const char *path, uint64_t key, const char *options,
                      cl_program *out)
{
    size_t size;
    uint8_t *binary = read_file(path, key, BINARY_LIMIT, &size);
    if (binary == NULL)
        return false;
    const unsigned char *bytes = binary;
    cl_int code, loaded;
    cl_program program =
        device->api.clCreateProgramWithBinary(device->context, 1, &device->id, &size, &bytes, &loaded, &code);
    qsa_release(&qsa_default_allocator, binary, size);
    if (code != CL_SUCCESS)
        return false;
    if (build(device, options, program) != QSA_OK) {
        device->api.clReleaseProgram(program);
        return false;
    }
    *out = program;
    return true;
}

static void keep(const qsa_opencl_device *device, const char *path, uint64_t key, cl_program program)
{
    size_t size = 0;
    if (device->api.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) != CL_SUCCESS ||
        size == 0 || size > BINARY_LIMIT)
        return;
    uint8_t *binary = qsa_allocate(&qsa_default_allocator, size);
    if (binary == NULL)
        return;
    if (device->api.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        write_file(path, key, binary, size);
    qsa_release(&qsa_default_allocator, binary, size);
}

qsa_status qsa_opencl_build(const qsa_opencl_device *device, const char *source, const char *options, cl_program *out)
{
    const uint64_t key = key_of(device, source, options);
    char path[PATH_LIMIT];
    const bool kept = path_of(device, key, path);
    if (kept && take_kept(device, path, key, options, out))
        return QSA_OK;
    cl_int code;
    cl_program program = device->api.clCreateProgramWithSource(device->context, 1, &source, NULL, &code);
    QSA_TRY(qsa_opencl_check(code, "clCreateProgramWithSource"));
    qsa_status status = build(device, options, program);
    if (status != QSA_OK) {
        device->api.clReleaseProgram(program);
        return status;
    }
    if (kept)
        keep(device, path, key, program);
    *out = program;
    return QSA_OK;
}
