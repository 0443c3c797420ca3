/* sim_findings.c - findings: counts, the first different texts, clearing, and the lines of ACLSIM_TELL. */
#include "sim/finding.c" /* a copy of its own: the simulator hides sim_find */
#include "tests/sim_util.h"

#include <unistd.h>

static void check_counts(void)
{
    char text[64];

    CHECK_EQ(aclsim_finding_count(NULL), 0);
    sim_find(SIM_FOUND_UNORDERED, "streams %d and %d", 1, 2);
    sim_find(SIM_FOUND_UNORDERED, "streams %d and %d", 3, 4);
    sim_find(SIM_FOUND_UNORDERED, "streams %d and %d", 1, 2);
    sim_find(SIM_FOUND_FREED, "freed");
    CHECK_EQ(aclsim_finding_count("unordered"), 3);
    CHECK_EQ(aclsim_finding_count("freed"), 1);
    CHECK_EQ(aclsim_finding_count("leak"), 0);
    CHECK_EQ(aclsim_finding_count(NULL), 4);
    CHECK_EQ(aclsim_finding_count("no-such-kind"), -1);
    OK(aclsim_finding_text("unordered", 1, text, sizeof(text)));
    CHECK(strcmp(text, "streams 3 and 4") == 0);
    CHECK_EQ(aclsim_finding_text("unordered", 2, text, sizeof(text)), -1);
    CHECK_EQ(aclsim_finding_text("no-such-kind", 0, text, sizeof(text)), -1);
    CHECK_EQ(aclsim_finding_text("unordered", 0, text, 8), 1);
    CHECK(strcmp(text, "streams") == 0);
    aclsim_clear_findings();
    CHECK_EQ(aclsim_finding_count(NULL), 0);
    CHECK_EQ(aclsim_finding_text("unordered", 0, text, sizeof(text)), -1);
}

static void check_many_texts(void)
{
    char text[16];

    for (int i = 0; i < 100; i++)
        sim_find(SIM_FOUND_UNALIGNED, "place %d", i);
    CHECK_EQ(aclsim_finding_count("unaligned"), 100);
    OK(aclsim_finding_text("unaligned", 31, text, sizeof(text)));
    CHECK(strcmp(text, "place 31") == 0);
    CHECK_EQ(aclsim_finding_text("unaligned", 32, text, sizeof(text)), -1);
    aclsim_clear_findings();
}

static void check_names(void)
{
    for (int kind = 0; kind < SIM_N_FOUND; kind++) {
        CHECK(sim_finding_name((enum sim_finding)kind) != NULL);
        sim_find((enum sim_finding)kind, "x");
        CHECK_EQ(aclsim_finding_count(sim_finding_name((enum sim_finding)kind)), 1);
    }
    aclsim_clear_findings();
}

static void *find_often(void *arg)
{
    for (int i = 0; i < 1000; i++)
        sim_find(SIM_FOUND_FREED, "%s %d", (const char *)arg, i % 8);
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[4];
    char text[16];

    for (int i = 0; i < 4; i++)
        OK(pthread_create(&threads[i], NULL, find_often, "same"));
    for (int i = 0; i < 4; i++)
        OK(pthread_join(threads[i], NULL));
    CHECK_EQ(aclsim_finding_count("freed"), 4000);
    OK(aclsim_finding_text("freed", 7, text, sizeof(text)));
    CHECK_EQ(aclsim_finding_text("freed", 8, text, sizeof(text)), -1);
    aclsim_clear_findings();
}

/* The first of each text is a line, and only that. */
static void check_tell(int out)
{
    char said[512];
    ssize_t n;

    sim_find(SIM_FOUND_PAGEABLE, "once");
    sim_find(SIM_FOUND_PAGEABLE, "once");
    sim_find(SIM_FOUND_IN_CALLBACK, "twice");
    n = read(out, said, sizeof(said) - 1);
    CHECK(n > 0);
    said[n] = '\0';
    CHECK(strcmp(said, "aclsim: found pageable: once\naclsim: found in-callback: twice\n") == 0);
}

int main(void)
{
    int ends[2], before;

    OK(setenv("ACLSIM_TELL", "1", 1));
    OK(pipe(ends));
    before = dup(STDERR_FILENO);
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    check_tell(ends[0]);
    OK(dup2(before, STDERR_FILENO) - STDERR_FILENO);
    tells = false;
    aclsim_clear_findings();
    check_counts();
    check_many_texts();
    check_names();
    check_threads();
    return 0;
}
