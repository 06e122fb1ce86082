/* Snapshots in files: what is no file, what is no snapshot, disks that are full, and kill -9 in the middle of a save.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "mini.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MODEL = 42, PATH_BYTES = 512, KILLS = 40 };

typedef struct folder {
    char path[PATH_BYTES / 2], file[PATH_BYTES];
    qsa_cache *cache;
    qsa_seq seq;
    uint64_t state;
} folder;

/* On demand, a file system where every file has a name. */
static bool names_only;

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);

int __wrap_openat(int folder, const char *path, int flags, ...)
{
    if (names_only && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_openat(folder, path, flags, 0666);
}

static int enter(void **state)
{
    folder *f = test_alloc(1, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/qsa-snapshot-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    snprintf(f->file, sizeof f->file, "%s/state.qsa", f->path);
    const qsa_config config = mini_config();
    f->cache = mini_create(&config);
    mini_ok(qsa_seq_open(f->cache, &f->seq));
    mini_feed(f->cache, f->seq, 0, 100, 1, NULL);
    f->state = mini_state(f->cache, &f->seq, 1);
    *state = f;
    return 0;
}

static int enter_with_names_only(void **state)
{
    names_only = true;
    return enter(state);
}

static int count_entries(const folder *f, bool remove)
{
    DIR *directory = opendir(f->path);
    assert_non_null(directory);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[2 * PATH_BYTES];
        if (entry->d_name[0] == '.')
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", f->path, entry->d_name);
        if (remove && unlink(path) != 0)
            rmdir(path);
    }
    closedir(directory);
    return n;
}

static int leave(void **state)
{
    folder *f = *state;
    names_only = false;
    count_entries(f, true);
    rmdir(f->path);
    qsa_cache_destroy(f->cache);
    free(f);
    return 0;
}

static qsa_status save(const folder *f, const char *path)
{
    return qsa_snapshot_save(f->cache, &f->seq, 1, NULL, 0, MODEL, path);
}

static void load_refused(folder *f, const char *path, qsa_status expected, const char *words)
{
    qsa_snapshot snapshot = {.n_sections = 77};
    qsa_status status = qsa_snapshot_load(f->cache, MODEL, path, &snapshot);
    if (status != expected || strstr(qsa_error_detail(), words) == NULL)
        fail_msg("%s: expected %s with \"%s\", found %s: %s", path, qsa_status_name(expected), words,
                 qsa_status_name(status), qsa_error_detail());
    assert_int_equal(snapshot.n_sections, 77);
    assert_true(mini_state(f->cache, &f->seq, 1) == f->state);
    assert_int_equal(qsa_snapshot_inspect_file(path, &snapshot), expected);
}

static void save_refused(const folder *f, const char *path, const char *words)
{
    qsa_status status = save(f, path);
    if (status != QSA_E_IO || strstr(qsa_error_detail(), words) == NULL)
        fail_msg("%s: expected QSA_E_IO with \"%s\", found %s: %s", path, words, qsa_status_name(status),
                 qsa_error_detail());
    assert_true(mini_state(f->cache, &f->seq, 1) == f->state);
}

/* The file is whole, and holds what `f` holds. */
static void holds_the_state(folder *f)
{
    qsa_snapshot snapshot;
    mini_ok(qsa_snapshot_load(f->cache, MODEL, f->file, &snapshot));
    assert_true(mini_digest(f->cache, snapshot.sequences[0]) == mini_digest(f->cache, f->seq));
    mini_ok(qsa_seq_close(f->cache, snapshot.sequences[0]));
    qsa_snapshot_free(&snapshot);
}

static void a_file_is_saved_again_and_again(void **state)
{
    folder *f = *state;
    for (int i = 0; i < 3; i++) {
        mini_ok(save(f, f->file));
        holds_the_state(f);
        assert_int_equal(count_entries(f, false), 1); /* nothing is left beside it */
    }
    qsa_snapshot snapshot;
    mini_ok(qsa_snapshot_inspect_file(f->file, &snapshot));
    assert_null(snapshot.sequences);
    assert_int_equal(snapshot.infos[0].tokens, 100);
    struct stat info;
    assert_int_equal(stat(f->file, &info), 0);
    assert_int_equal(info.st_size, snapshot.size_bytes);
    qsa_snapshot_free(&snapshot);
}

static void what_is_not_a_file_is_refused(void **state)
{
    folder *f = *state;
    char path[2 * PATH_BYTES];
    load_refused(f, f->file, QSA_E_IO, "No such file");
    load_refused(f, f->path, QSA_E_IO, "not a regular file");
    save_refused(f, f->path, "not a regular file");
    snprintf(path, sizeof path, "%s/no/state.qsa", f->path);
    load_refused(f, path, QSA_E_IO, "No such file");
    save_refused(f, path, "cannot create");
    snprintf(path, sizeof path, "%s/pipe", f->path);
    assert_int_equal(mkfifo(path, 0600), 0);
    load_refused(f, path, QSA_E_IO, "not a regular file"); /* and does not wait for a writer */
    save_refused(f, path, "not a regular file");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    load_refused(f, "/dev/null", QSA_E_IO, "not a regular file");
    save_refused(f, "/dev/null", "not a regular file");
    load_refused(f, "", QSA_E_IO, "cannot open");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    save_refused(f, path, "cannot create"); /* a name that is too long */
    qsa_snapshot snapshot;
    assert_int_equal(save(f, NULL), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_load(f->cache, MODEL, NULL, &snapshot), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_load(NULL, MODEL, f->file, &snapshot), QSA_E_ARGUMENT);
    assert_int_equal(qsa_snapshot_inspect_file(f->file, NULL), QSA_E_ARGUMENT);
}

static void append_to(const char *path, const char *text)
{
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void what_is_not_a_snapshot_is_refused(void **state)
{
    folder *f = *state;
    append_to(f->file, "");
    load_refused(f, f->file, QSA_E_FORMAT, "ends too early");
    append_to(f->file, "GGUF and so on, more than a head long");
    load_refused(f, f->file, QSA_E_FORMAT, "not a qsa snapshot");
    mini_ok(save(f, f->file));
    append_to(f->file, "x");
    load_refused(f, f->file, QSA_E_FORMAT, "goes on after the end");
    mini_ok(save(f, f->file));
    struct stat info;
    assert_int_equal(stat(f->file, &info), 0);
    assert_int_equal(truncate(f->file, info.st_size - 1), 0);
    load_refused(f, f->file, QSA_E_FORMAT, "ends too early");
}

static void a_read_only_folder_is_refused(void **state)
{
    folder *f = *state;
    const uid_t user = geteuid(), nobody = 65534;
    mini_ok(save(f, f->file));
    assert_int_equal(chmod(f->path, 0555), 0);
    assert_int_equal(user == 0 ? seteuid(nobody) : 0, 0); /* root may write everywhere */
    save_refused(f, f->file, "Permission denied");
    assert_int_equal(user == 0 ? seteuid(user) : 0, 0);
    assert_int_equal(chmod(f->path, 0700), 0);
    holds_the_state(f);
}

/* A disk that is full after some bytes, as the limit of a file's size makes it: the old file stays. */
static void a_full_disk_leaves_the_old_file(void **state)
{
    folder *f = *state;
    mini_ok(save(f, f->file));
    struct stat info;
    assert_int_equal(stat(f->file, &info), 0);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < (rlim_t)info.st_size; limit += 1021) {
        const struct rlimit small = {limit, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        qsa_status status = save(f, f->file);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(status, QSA_E_IO);
        assert_non_null(strstr(qsa_error_detail(), "cannot write"));
        assert_int_equal(count_entries(f, false), 1);
    }
    holds_the_state(f);
    mini_ok(save(f, f->file)); /* with room again */
    holds_the_state(f);
}

static void a_temporary_file_of_another_saver_is_left_alone(void **state)
{
    folder *f = *state;
    char path[2 * PATH_BYTES];
    for (int i = 0; i < 64; i++) { /* whatever number is next */
        snprintf(path, sizeof path, "%s/qsa.%ld.%d.tmp", f->path, (long)getpid(), i);
        append_to(path, "another's");
    }
    mini_ok(save(f, f->file));
    holds_the_state(f);
    assert_int_equal(count_entries(f, false), 65);
}

/* As long as a folder allows, a new file and one that is there. */
static void a_name_of_255_bytes_is_saved(void **state)
{
    folder *f = *state;
    for (size_t n = 240; n <= 255; n++) {
        snprintf(f->file, sizeof f->file, "%s/%0*d", f->path, (int)n, 0);
        for (int round = 0; round < 2; round++) {
            mini_ok(save(f, f->file));
            holds_the_state(f);
        }
    }
    assert_int_equal(count_entries(f, false), 16);
    char longer[2 * PATH_BYTES];
    snprintf(longer, sizeof longer, "%s/%0256d", f->path, 0);
    assert_int_equal(save(f, longer), QSA_E_IO);
    assert_int_equal(count_entries(f, false), 16);
}

/* Killed by the kernel in the middle of a write: what kill -9 does, at a known moment. */
static void a_killed_save_leaves_nothing_beside_it(void **state)
{
    folder *f = *state;
    for (int round = 0; round < 2; round++) { /* a new file, and one that is there */
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const struct rlimit small = {4096, 4096};
            signal(SIGXFSZ, SIG_DFL);
            setrlimit(RLIMIT_FSIZE, &small);
            (void)save(f, f->file);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
        assert_int_equal(count_entries(f, false), round);
        mini_ok(save(f, f->file));
        holds_the_state(f);
    }
}

static void save_without_end(const folder *f)
{
    for (;;)
        if (save(f, f->file) != QSA_OK)
            _exit(1);
}

/* A child saves in a loop and is killed at some moment. At every such moment the file is a whole snapshot. */
static void a_killed_save_leaves_a_whole_file(void **state)
{
    folder *f = *state;
    mini_ok(save(f, f->file));
    for (int i = 0; i < KILLS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            save_without_end(f);
        const struct timespec pause = {0, (long)(golden_bits64(9, (uint64_t)i) % 12000000)};
        nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status)); /* it did not end by itself: no save failed */
        holds_the_state(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_saved_again_and_again, enter, leave),
        cmocka_unit_test_setup_teardown(what_is_not_a_file_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(what_is_not_a_snapshot_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(a_read_only_folder_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_old_file, enter, leave),
        cmocka_unit_test_setup_teardown(a_temporary_file_of_another_saver_is_left_alone, enter, leave),
        cmocka_unit_test_setup_teardown(a_name_of_255_bytes_is_saved, enter, leave),
        cmocka_unit_test_setup_teardown(a_killed_save_leaves_a_whole_file, enter, leave),
        cmocka_unit_test_setup_teardown(a_killed_save_leaves_nothing_beside_it, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_is_saved_again_and_again, enter_with_names_only, leave),
        cmocka_unit_test_setup_teardown(what_is_not_a_file_is_refused, enter_with_names_only, leave),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_old_file, enter_with_names_only, leave),
        cmocka_unit_test_setup_teardown(a_temporary_file_of_another_saver_is_left_alone, enter_with_names_only, leave),
        cmocka_unit_test_setup_teardown(a_name_of_255_bytes_is_saved, enter_with_names_only, leave),
        cmocka_unit_test_setup_teardown(a_killed_save_leaves_a_whole_file, enter_with_names_only, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
