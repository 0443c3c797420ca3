/* fault_api.c - fault rules from outside: as text, from a file, and in the short forms.
 *
 * Threads: any. Locks: none of its own. Owns: each thread's latest error text.
 * Invariant: a text is armed whole or not at all.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local char why[512];

static int64_t arm(const struct sim_rule *added, uint32_t n)
{
    int64_t id = sim_fault_arm(added, n);

    if (id < 0)
        snprintf(why, sizeof(why), "%d rules are armed, which is the most; clear some", (int)SIM_MAX_RULES);
    return id;
}

int sim_config_faults(const char *text)
{
    struct sim_rule *parsed = malloc(SIM_MAX_RULES * sizeof(*parsed));
    char *file = NULL;
    int n = -1;

    why[0] = '\0';
    if (text[0] == '@') {
        file = sim_rules_file(text + 1, why, sizeof(why));
        text = file;
    }
    if (parsed != NULL && text != NULL)
        n = sim_rules_parse(text, parsed, SIM_MAX_RULES, why, sizeof(why));
    if (n > 0 && arm(parsed, (uint32_t)n) < 0)
        n = -1;
    free(file);
    free(parsed);
    return n < 0 ? -1 : 0;
}

int64_t aclsim_add_fault(const char *rule)
{
    struct sim_rule parsed;
    int n;

    sim_once();
    why[0] = '\0';
    n = rule != NULL ? sim_rules_parse(rule, &parsed, 1, why, sizeof(why)) : 0;
    if (n == 0)
        snprintf(why, sizeof(why), "there is no entry in the text");
    return n == 1 ? arm(&parsed, 1) : -1;
}

const char *aclsim_fault_error(void)
{
    return why;
}

int64_t aclsim_fail_copy(int32_t device, int direction, uint64_t nth, int32_t code)
{
    char text[128];
    int n;

    if (device < -1 || device >= SIM_MAX_DEVICES || direction < -1 || direction >= ACLSIM_N_DIRECTIONS)
        return -1;
    n = snprintf(text, sizeof(text), "copy code=%d nth=%llu", code, (unsigned long long)nth);
    if (device >= 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " device=%d", device);
    if (direction >= 0)
        snprintf(text + n, sizeof(text) - (size_t)n, " direction=%s", sim_dir_names[direction]);
    return aclsim_add_fault(text);
}

int64_t aclsim_fail_call(const char *name, uint64_t nth, int32_t code)
{
    char text[160];

    if (sim_fn_by_name(name) < 0)
        return -1;
    snprintf(text, sizeof(text), "call name=%s code=%d nth=%llu", name, code, (unsigned long long)nth);
    return aclsim_add_fault(text);
}
