/* profile.c - the table of chips and releases, and which functions a release lacks.
 *
 * Threads: see profile.h; sim_profile_once is a pthread_once.
 * Locks:   none. Owns: the current profile and the flags of lacking functions.
 * Invariant: sim_lacks says for every function whether its first release is later than the profile's.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Queue depths and event clocks: the chips' device properties in the open runtime (CANN 9.1). Streams, events
 * and notifies per device: aclrtCreateStream, aclrtCreateEvent and aclrtCreateNotify, CANN 9.1 docs. NPU
 * architecture: aclrtDevAttr, same. Core counts: those of the named model; the 950 ones, AI CPUs and L2 sizes
 * are assumed. Rates of links are assumed for all chips: about what one PCIe or HCCS port of the usual board
 * carries, and half of the memory bandwidth for copies inside a device. */
struct chip {
    const char *name, *alias, *soc_name;
    enum sim_gen first;
    enum sim_connect connect; /* A3 by HCCS and 950 by UB: assumed, boards with PCIe exist */
    bool has_rc;              /* the chip also runs the application itself */
    uint32_t queue_depth, max_streams, max_events, max_notifies, ticks_per_ms;
    uint32_t n_aicore, n_vector, n_aicpu, npu_arch, l2_mib;
    uint32_t simd_stack_max; /* aclrtDeviceLimit, CANN 9.1 docs */
};

static const struct chip chips[SIM_N_CHIPS] = {
    [SIM_CHIP_910] = {"910", "910a", "Ascend910A", SIM_GEN_8_0, SIM_CONNECT_PCIE, false, 2042, 2048, 65535,
                      1024, 1000000, 32, 0, 14, 1001, 32, 0},
    [SIM_CHIP_310P] = {"310p", "310p3", "Ascend310P3", SIM_GEN_8_0, SIM_CONNECT_PCIE, true, 2042, 1024, 1023,
                       1024, 1000000, 8, 7, 7, 2002, 16, 0},
    [SIM_CHIP_310B] = {"310b", "310b1", "Ascend310B1", SIM_GEN_8_0, SIM_CONNECT_PCIE, true, 2010, 512, 65536,
                       2048, 48000, 1, 0, 3, 3002, 4, 0},
    [SIM_CHIP_A2] = {"a2", "910b", "Ascend910B3", SIM_GEN_8_0, SIM_CONNECT_PCIE, false, 2013, 1984, 65536,
                     8192, 50000, 20, 40, 6, 2201, 192, 196608},
    [SIM_CHIP_A3] = {"a3", "910c", "Ascend910_9362", SIM_GEN_8_0, SIM_CONNECT_HCCS, false, 2013, 1984, 65536,
                     8192, 50000, 24, 48, 6, 2201, 192, 196608},
    /* Released with CANN 8.5, the first open runtime that has its properties. */
    [SIM_CHIP_950] = {"950", "950dt", "Ascend950DT_95A1", SIM_GEN_8_5, SIM_CONNECT_UB, false, 2014, 1984,
                      65536, 65535, 1000000, 36, 72, 6, 3510, 128, 131072},
};

static const struct {
    double host_bytes_per_s, d2d_bytes_per_s;
    uint32_t latency_ns;
} links[SIM_N_CHIPS] = {
    [SIM_CHIP_910] = {25e9, 5e11, 10000}, [SIM_CHIP_310P] = {12e9, 1e11, 12000},
    [SIM_CHIP_310B] = {3e9, 25e9, 15000}, [SIM_CHIP_A2] = {25e9, 8e11, 8000},
    [SIM_CHIP_A3] = {50e9, 8e11, 6000},   [SIM_CHIP_950] = {100e9, 1e12, 4000},
};

static const char *const form_names[SIM_N_FORMS] = {"ep", "rc"};

/* ACL version: 1.15.0 of 9.0 and 1.17.0 of the newest are in their public headers; the others are assumed. */
static const struct {
    const char *name, *cann_version;
    int32_t acl_minor;
} gens[SIM_N_GENS] = {[SIM_GEN_8_0] = {"8.0", "8.0.0", 12},
                      [SIM_GEN_8_3] = {"8.3", "8.3.RC1", 13},
                      [SIM_GEN_8_5] = {"8.5", "8.5.0", 14},
                      [SIM_GEN_9_0] = {"9.0", "9.0.0", 15},
                      [SIM_GEN_9_1] = {"9.1", "9.1.0", 17}};

static const char *const since[SIM_N_FN] = {
#define ACL_FN(result, name, need, since, parameters) since,
#include "acl/symbols.def"
#undef ACL_FN
};

struct sim_profile sim_profile;
atomic_bool sim_lacks[SIM_N_FN];

static char env_fault[512];

/* The generation that first has a function of this release: 8.1 to 8.3 and their candidates are 8.3, and
 * everything after 9.1 is the last one. */
static enum sim_gen gen_of(const char *release)
{
    char *end;
    unsigned long major = strtoul(release, &end, 10), minor = strtoul(end + 1, NULL, 10);
    unsigned long version = major * 100 + minor;

    if (version <= 800)
        return SIM_GEN_8_0;
    if (version <= 803)
        return SIM_GEN_8_3;
    if (version <= 805)
        return SIM_GEN_8_5;
    return version <= 900 ? SIM_GEN_9_0 : SIM_GEN_9_1;
}

static void fill(struct sim_profile *p, enum sim_chip chip, enum sim_form form, enum sim_gen gen)
{
    const struct chip *c = &chips[chip];
    bool training = chip == SIM_CHIP_A2 || chip == SIM_CHIP_A3 || chip == SIM_CHIP_950;
    uint64_t unit = UINT64_C(64) << 20; /* one task over PCIe or HCCS; 256 MiB over UB (open runtime) */

    if (c->connect == SIM_CONNECT_UB)
        unit *= 4;
    *p = (struct sim_profile){
        .chip = chip,
        .form = form,
        .gen = gen,
        .connect = c->connect,
        .soc_name = c->soc_name,
        .cann_version = gens[gen].cann_version,
        .acl_version = {1, gens[gen].acl_minor, 0},
        .queue_depth = c->queue_depth,
        .max_streams = c->max_streams,
        .max_events = c->max_events,
        .max_notifies = c->max_notifies,
        .ticks_per_ms = c->ticks_per_ms,
        .chunk_bytes = unit,
        .chunk_d2d_bytes = UINT64_C(4) << 30,
        .chunk_peer_bytes = unit,
        .n_aicore = c->n_aicore,
        .n_vector = c->n_vector,
        .n_aicpu = c->n_aicpu,
        .npu_arch = c->npu_arch,
        .l2_bytes = (uint64_t)c->l2_mib << 20,
        .simd_stack_max = c->simd_stack_max,
        /* Releases: what the tags of the open runtime and the release's own copy of the docs say. 8.3 and
         * earlier are closed: their log lines are public, that a mismatch is an error follows from these. */
        .zero_count_ok = gen >= SIM_GEN_9_1,
        .corrects_kind = gen >= SIM_GEN_8_5,
        .old_locations = gen <= SIM_GEN_8_3,
        .pageable_waits = gen >= SIM_GEN_8_5,
        .alignment_documented = gen <= SIM_GEN_9_0,
        /* Chips: the product tables of the functions' pages, CANN 9.1 docs. */
        .has_host_register = training,
        .has_batch_copy = training,
        .has_stream_abort = training,
        .has_task_abort = training,
        .has_op_wait_timeout = chip != SIM_CHIP_310P,
        .has_2d_d2d = training,
        .needs_peer_access = chip != SIM_CHIP_A3,
        .has_peer_access = chip != SIM_CHIP_310B && form == SIM_FORM_EP,
        .has_memcpy_desc = chip != SIM_CHIP_910 && chip != SIM_CHIP_310P,
        .has_memcpy_offset = chip != SIM_CHIP_310B && chip != SIM_CHIP_310P,
        .has_memset_d32 = training,
        .has_value_wait = training,
        .has_compute_attr = training,
        .has_ipc_event = chip == SIM_CHIP_A2 || chip == SIM_CHIP_A3, /* of the 950, the PR but not the DT */
        .has_usage_info = chip != SIM_CHIP_950,
        .has_identity = training,
    };
    snprintf(p->name, sizeof(p->name), "%s-%s-%s", c->name, form_names[form], gens[gen].name);
}

/* --- names --- */

enum { PART_CHIP, PART_FORM, PART_GEN, N_PARTS };

static bool read_part(const char *word, int parts[N_PARTS], char *why, size_t n_why)
{
    int kind = -1, value = 0;

    for (int i = 0; i < SIM_N_CHIPS; i++)
        if (strcasecmp(word, chips[i].name) == 0 || strcasecmp(word, chips[i].alias) == 0) {
            kind = PART_CHIP;
            value = i;
        }
    for (int i = 0; i < SIM_N_FORMS; i++)
        if (strcasecmp(word, form_names[i]) == 0) {
            kind = PART_FORM;
            value = i;
        }
    for (int i = 0; i < SIM_N_GENS; i++)
        if (strcmp(word, gens[i].name) == 0) {
            kind = PART_GEN;
            value = i;
        }
    if (strcasecmp(word, "classic") == 0) {
        kind = PART_GEN;
        value = SIM_GEN_8_0;
    }
    if (kind < 0)
        snprintf(why, n_why, "%.64s is no chip, form or release", word);
    else if (parts[kind] >= 0)
        snprintf(why, n_why, "%.64s names a second %s", word,
                 kind == PART_CHIP ? "chip" : (kind == PART_FORM ? "form" : "release"));
    else
        parts[kind] = value;
    return kind >= 0 && parts[kind] == value && *why == '\0';
}

bool sim_profile_parse(const char *text, struct sim_profile *out, char *why, size_t n_why)
{
    int parts[N_PARTS] = {-1, -1, -1};
    char copy[128], *save = NULL;
    bool any = false;

    *why = '\0';
    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
        snprintf(why, n_why, "it is too long");
        return false;
    }
    for (char *word = strtok_r(copy, "-, ", &save); word != NULL; word = strtok_r(NULL, "-, ", &save)) {
        any = true;
        if (!read_part(word, parts, why, n_why))
            return false;
    }
    if (!any) {
        snprintf(why, n_why, "it is empty");
        return false;
    }
    if (parts[PART_CHIP] < 0)
        parts[PART_CHIP] = SIM_CHIP_A2;
    if (parts[PART_FORM] < 0)
        parts[PART_FORM] = SIM_FORM_EP;
    if (parts[PART_GEN] < 0)
        parts[PART_GEN] = SIM_GEN_9_1;
    if (parts[PART_FORM] == SIM_FORM_RC && !chips[parts[PART_CHIP]].has_rc)
        snprintf(why, n_why, "the %s has no rc form: only 310p and 310b run the application themselves",
                 chips[parts[PART_CHIP]].name);
    else if ((enum sim_gen)parts[PART_GEN] < chips[parts[PART_CHIP]].first)
        snprintf(why, n_why, "the %s came with CANN %s", chips[parts[PART_CHIP]].name,
                 gens[chips[parts[PART_CHIP]].first].name);
    if (*why != '\0')
        return false;
    fill(out, (enum sim_chip)parts[PART_CHIP], (enum sim_form)parts[PART_FORM],
         (enum sim_gen)parts[PART_GEN]);
    return true;
}

/* --- the current profile --- */

void sim_profile_use(const struct sim_profile *profile)
{
    sim_profile = *profile;
    for (int fn = 0; fn < SIM_N_FN; fn++)
        atomic_store_explicit(&sim_lacks[fn], gen_of(since[fn]) > profile->gen, memory_order_relaxed);
}

aclError sim_lack(enum sim_fn fn)
{
    return sim_fail(ACL_ERROR_API_NOT_SUPPORT, "EH0006",
                    "%s first comes with CANN %s, and the simulated release is %s (profile %s): choose a "
                    "newer profile, or ask aclsim_has_function first",
                    sim_fn_name(fn), since[fn], sim_profile.cann_version, sim_profile.name);
}

void sim_profile_link(struct aclsim_link *link)
{
    double d2d = links[sim_profile.chip].d2d_bytes_per_s;
    /* In RC form host and device share their memory, so every copy is one inside the device. */
    double host = sim_profile.form == SIM_FORM_RC ? d2d : links[sim_profile.chip].host_bytes_per_s;

    *link = (struct aclsim_link){.h2d_bytes_per_s = (uint64_t)host,
                                 .d2h_bytes_per_s = (uint64_t)host,
                                 .d2d_bytes_per_s = (uint64_t)d2d,
                                 .latency_ns = links[sim_profile.chip].latency_ns,
                                 .submit_ns = 1900, /* assumed */
                                 .move_bytes = 1};
}

static void read_env(void)
{
    const char *text = getenv("ACLSIM_PROFILE");
    struct sim_profile profile;
    char why[160];

    fill(&profile, SIM_CHIP_A2, SIM_FORM_EP, SIM_GEN_9_1);
    if (text != NULL && *text != '\0' && !sim_profile_parse(text, &profile, why, sizeof(why))) {
        snprintf(env_fault, sizeof(env_fault),
                 "aclsim: ACLSIM_PROFILE=%.100s is not valid (%s); accepted: " SIM_PROFILE_FORMS, text, why);
        fprintf(stderr, "%s\n", env_fault);
    }
    sim_profile_use(&profile);
}

void sim_profile_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_env);
}

const char *sim_profile_fault(void)
{
    return env_fault;
}

int aclsim_has_function(const char *name)
{
    int fn = sim_fn_by_name(name);

    sim_profile_once();
    if (fn < 0)
        return -1;
    return atomic_load_explicit(&sim_lacks[fn], memory_order_relaxed) ? 0 : 1;
}
