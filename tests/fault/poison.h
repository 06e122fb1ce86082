/* NaN into everything of a cache that nothing may read. */
#ifndef POISON_H
#define POISON_H

#include "world.h"

/* Between steps: free pages, slots without a token, lanes of groups that are not complete, and working memory. */
void poison_dead(qsa_cache *cache);

#endif
