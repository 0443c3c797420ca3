/* check.h - the whole test framework: a failed CHECK prints where and what, and ends the program. */
#ifndef NPUX_TESTS_CHECK_H
#define NPUX_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                  \
    do {                                                                             \
        if (!(cond)) {                                                               \
            fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #cond); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

#define CHECK_EQ(got, want)                                                                                  \
    do {                                                                                                     \
        long long got_ = (long long)(got), want_ = (long long)(want);                                        \
        if (got_ != want_) {                                                                                 \
            fprintf(stderr, "%s:%d: CHECK_EQ failed: %s is %lld, expected %lld\n", __FILE__, __LINE__, #got, \
                    got_, want_);                                                                            \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
