/* Random lives: all verbs over up to 8 sequences and 3 layers, against the naive oracle.
 *
 * usage: test_life_walk                      the part that fits into every run of the tests
 *        test_life_walk mini|narrow SEED N   replays one life of N verbs
 *        test_life_walk soak MINI NARROW     that many verbs of each kind, over as many lives as needed */
#include "life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERBS_OF_A_LIFE = 2500 };

#ifdef LIFE_SHORT /* sanitizers take ten times as long */
static uint64_t mini_verbs = 2000, narrow_verbs = 30, replay_seed;
#else
static uint64_t mini_verbs = 10000, narrow_verbs = 300, replay_seed;
#endif
static bool replay;

static void live(life_rules (*rules_of)(uint64_t seed), uint64_t verbs)
{
    for (uint64_t seed = replay ? replay_seed : 1; verbs > 0; seed++) {
        const life_rules rules = rules_of(seed);
        uint64_t now = replay || verbs < VERBS_OF_A_LIFE ? verbs : VERBS_OF_A_LIFE;
        life *l = life_begin(&rules, seed, NULL, 0);
        for (uint64_t i = 0; i < now; i++)
            life_verb(l);
        life_end(l);
        verbs -= now;
    }
}

static void around_the_cut_of_12_tokens(void **state)
{
    (void)state;
    live(life_mini, mini_verbs);
}

static void around_the_cut_of_2052_tokens(void **state)
{
    (void)state;
    live(life_narrow, narrow_verbs);
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        bool soak = strcmp(argv[1], "soak") == 0, mini = strcmp(argv[1], "mini") == 0;
        replay = !soak;
        replay_seed = strtoull(argv[2], NULL, 10);
        uint64_t last = strtoull(argv[3], NULL, 10);
        mini_verbs = soak ? replay_seed : mini ? last : 0;
        narrow_verbs = soak ? last : mini ? 0 : last;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(around_the_cut_of_12_tokens),
        cmocka_unit_test(around_the_cut_of_2052_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
