/* tools/read_snapshot.py, written from docs/SNAPSHOT.md alone, finds in a real snapshot what the library put there: it
 * computes the digest of every sequence from the file. Skipped where there is no Python. */
#define _XOPEN_SOURCE 700
#include "mini.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MODEL = 0x1234, LINE_BYTES = 256, OUTPUT_BYTES = 8192, SEQUENCES = 5 };

static char path[] = "/tmp/qsa-second-reader-XXXXXX";

/* Runs the reader; its output, and its exit status. */
static int read_with_python(char output[OUTPUT_BYTES])
{
    char command[1024];
    snprintf(command, sizeof command, "python3 '%s' '%s' 2>&1", QSA_SECOND_READER, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(output, 1, OUTPUT_BYTES - 1, pipe);
    output[n] = 0;
    return WEXITSTATUS(pclose(pipe));
}

static void expect_line(const char *output, const char *line)
{
    if (strstr(output, line) == NULL)
        fail_msg("the line \"%s\" is missing in:\n%s", line, output);
}

/* Sequences that share pages, shifted, evicted, windowed, empty, and never fed. */
static void make_sequences(qsa_cache *cache, qsa_seq seqs[SEQUENCES])
{
    for (int i = 0; i < 2; i++)
        mini_ok(qsa_seq_open(cache, &seqs[i]));
    mini_feed(cache, seqs[0], 5, 301, 1, NULL);
    mini_ok(qsa_seq_fork(cache, seqs[0], 5 + 150, &seqs[2]));
    mini_feed(cache, seqs[2], 155, 9, 2, NULL);
    mini_ok(qsa_seq_shift(cache, seqs[2], 1000));
    mini_ok(qsa_seq_evict(cache, seqs[2], 1005 + 68));
    mini_ok(qsa_seq_window(cache, seqs[2], 200));
    mini_ok(qsa_seq_fork(cache, seqs[0], 5, &seqs[3]));
    mini_ok(qsa_seq_copy(cache, seqs[2], &seqs[4]));
    mini_ok(qsa_seq_evict(cache, seqs[4], 1005 + 71));
}

static void check_reading(qsa_config config)
{
    qsa_cache *cache = mini_create(&config);
    qsa_seq seqs[SEQUENCES];
    make_sequences(cache, seqs);
    const qsa_section sections[2] = {{3, "three", 5}, {4, NULL, 0}};
    mini_ok(qsa_snapshot_save(cache, seqs, SEQUENCES, sections, 2, MODEL, path));
    char output[OUTPUT_BYTES], line[LINE_BYTES];
    if (read_with_python(output) != 0)
        fail_msg("%s", output);
    expect_line(output, "model 0000000000001234, 3 layers");
    expect_line(output, "host section 3: 5 bytes");
    expect_line(output, "host section 4: 0 bytes");
    if (strstr(output, "checksums were not compared") != NULL)
        print_message("%s", strstr(output, "checksums were not compared"));
    for (int i = 0; i < SEQUENCES; i++) {
        qsa_seq_info info;
        mini_ok(qsa_seq_query(cache, seqs[i], &info));
        int n = snprintf(line, sizeof line, "sequence %d: [%lld, %lld) frame %lld window %llu digest ", i,
                         (long long)info.anchor, (long long)info.frontier, (long long)info.rotary_frame,
                         (unsigned long long)info.window);
        if (strstr(output, "checksums were not compared") == NULL)
            snprintf(line + n, sizeof line - (size_t)n, "%016llx", (unsigned long long)mini_digest(cache, seqs[i]));
        expect_line(output, line);
    }
    qsa_cache_destroy(cache);
}

static void the_second_reader_computes_the_library_s_digests(void **state)
{
    (void)state;
    for (int types = 0; types < 8; types++) {
        qsa_config config = mini_config();
        config.kv_heads = 1 + (uint32_t)types % 2;
        config.kv_type = (qsa_kv_type)(types / 2);
        config.head_dim = config.kv_type == QSA_KV_Q8_0 ? 32 : 8;
        config.profile = types & 2 ? QSA_PROFILE_F32 : QSA_PROFILE_BF16;
        check_reading(config);
    }
}

static void change_byte(long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(byte ^ 4, file);
    assert_int_equal(fclose(file), 0);
}

static void the_second_reader_refuses_what_is_damaged(void **state)
{
    (void)state;
    static const long places[] = {0, 8, 24, -1, -9};
    char output[OUTPUT_BYTES];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        change_byte(places[i]);
        int status = read_with_python(output);
        if (status == 0 && strstr(output, "checksums were not compared") == NULL)
            fail_msg("byte %ld is wrong and the reader took it", places[i]);
        change_byte(places[i]);
    }
    assert_int_equal(read_with_python(output), 0);
}

int main(void)
{
    if (system("python3 -c 'pass' >/dev/null 2>&1") != 0)
        return 77;
    int descriptor = mkstemp(path);
    if (descriptor < 0)
        return 1;
    close(descriptor);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_reader_computes_the_library_s_digests),
        cmocka_unit_test(the_second_reader_refuses_what_is_damaged),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
