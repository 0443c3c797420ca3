/* profile.h - what one chip, form and CANN release does differently from another.
 *
 * Threads: written before the first call of any ACL function returns, or with sim.mu held while no device is
 *          set; read by any.
 * Locks:   none for reading. Owns: nothing.
 * Invariant: every number has its source beside the table in profile.c, or the word "assumed".
 */
#ifndef ACLSIM_PROFILE_H
#define ACLSIM_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aclsim_link;

#define SIM_PROFILE_FORMS                                                                            \
    "a chip (910, 310p, 310b, a2, a3, 950), a form (ep, rc) and a release (8.0, 8.3, 8.5, 9.0, 9.1)" \
    " joined by '-', such as a2-ep-9.1; what is missing is taken from that"

enum sim_chip {
    SIM_CHIP_910,
    SIM_CHIP_310P,
    SIM_CHIP_310B,
    SIM_CHIP_A2,
    SIM_CHIP_A3,
    SIM_CHIP_950,
    SIM_N_CHIPS
};
enum sim_form { SIM_FORM_EP, SIM_FORM_RC, SIM_N_FORMS };
/* Generations in order, so that they compare; the last one stands for 9.1 and everything later. */
enum sim_gen { SIM_GEN_8_0, SIM_GEN_8_3, SIM_GEN_8_5, SIM_GEN_9_0, SIM_GEN_9_1, SIM_N_GENS };
/* Between host and device; the numbers of ACL_DEV_ATTR_HD_CONNECT_TYPE. */
enum sim_connect { SIM_CONNECT_PCIE = 0, SIM_CONNECT_HCCS = 1, SIM_CONNECT_UB = 2 };

struct sim_profile {
    char name[32]; /* "a2-ep-9.1" */
    enum sim_chip chip;
    enum sim_form form;
    enum sim_gen gen;
    enum sim_connect connect;
    const char *soc_name;
    const char *cann_version;
    int32_t acl_version[3];
    uint32_t queue_depth;  /* outstanding tasks per stream; at most SIM_RING */
    uint32_t max_streams;  /* per device */
    uint32_t max_events;   /* per device: hardware ids */
    uint32_t max_notifies; /* per device */
    uint32_t ticks_per_ms; /* event time stamps; does not always divide 1000000 */
    uint64_t chunk_bytes;  /* one H2D or D2H task moves at most this */
    uint64_t chunk_d2d_bytes;
    uint64_t chunk_peer_bytes; /* D2D between devices */
    uint32_t n_aicore;
    uint32_t n_vector; /* 0: no vector cores of their own */
    uint32_t n_aicpu;
    uint32_t npu_arch;
    uint64_t l2_bytes;
    uint32_t simd_stack_max;   /* bytes; 0: the chip has no device limits */
    bool zero_count_ok;        /* aclrtMemcpyAsync of 0 bytes is success, not 107000 */
    bool corrects_kind;        /* a kind that does not fit the locations is replaced where it can be */
    bool old_locations;        /* log lines number locations 1 to 4 instead of 0 to 4 */
    bool pageable_waits;       /* pageable memory drains the stream and blocks; false: copied later */
    bool alignment_documented; /* both sides on multiples of 64 bytes */
    bool has_host_register;
    bool has_batch_copy;
    bool has_stream_abort; /* and aclrtStreamStop */
    bool has_task_abort;   /* and the memory error calls */
    bool has_op_wait_timeout;
    bool has_2d_d2d;        /* aclrtMemcpy2dAsync inside a device */
    bool needs_peer_access; /* copies between devices */
    bool has_peer_access;   /* the calls that ask for it */
    bool has_memcpy_desc;   /* aclrtMemcpyAsyncWithDesc and its two companions */
    bool has_memcpy_offset; /* aclrtMemcpyAsyncWithOffset */
    bool has_memset_d32;    /* false: success, and nothing is filled */
    bool has_value_wait;    /* aclrtValueWrite and aclrtValueWait */
    bool has_compute_attr;  /* the overflow switch and the custom tag of a stream */
    bool has_ipc_event;
    bool has_usage_info; /* aclrtGetMemUsageInfo */
    bool has_identity;   /* aclrtDeviceGetUuid and, on PCIe, the PCI bus id */
};

extern struct sim_profile sim_profile;

/* Reads ACLSIM_PROFILE the first time; needs nothing else of the library. */
void sim_profile_once(void);
/* What is wrong with ACLSIM_PROFILE, or "". */
const char *sim_profile_fault(void);
/* False for a name that is unknown or a combination that does not exist, with the reason in why. */
bool sim_profile_parse(const char *text, struct sim_profile *out, char *why, size_t n_why);
/* sim.mu held and no device set, or before there are threads. */
void sim_profile_use(const struct sim_profile *profile);
/* The chip's usual link, for "link=chip". */
void sim_profile_link(struct aclsim_link *link);

#endif
