/* profile.h - what one chip, form and CANN release does differently from another.
 *
 * Threads: written before the first call of any ACL function returns, or by a control function while no
 * device is set; read by any. Locks:   none. Owns: nothing. Invariant: every number has its source beside the
 * table in profile.c, or the word "assumed".
 */
#ifndef ACLSIM_PROFILE_H
#define ACLSIM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

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

struct sim_profile {
    char name[32]; /* "a2-ep-9.1" */
    enum sim_chip chip;
    enum sim_form form;
    enum sim_gen gen;
    const char *soc_name;
    const char *cann_version;
    int32_t acl_version[3];
    uint32_t queue_depth;  /* outstanding tasks per stream; at most SIM_RING */
    uint32_t max_streams;  /* per device */
    uint32_t max_events;   /* per device, of the kind that takes a hardware id at creation */
    uint32_t ticks_per_ms; /* event time stamps */
    uint64_t chunk_bytes;  /* one H2D or D2H task moves at most this */
    uint64_t chunk_d2d_bytes;
    uint64_t chunk_peer_bytes; /* D2D between devices */
    bool zero_count_ok;        /* aclrtMemcpyAsync of 0 bytes is success, not 107000 */
    bool corrects_kind;        /* a kind that does not fit the locations is replaced where it can be */
    bool old_locations;        /* log lines number locations 1 to 4 instead of 0 to 4 */
    bool pageable_waits;       /* pageable memory drains the stream and blocks; false: copied later */
    bool alignment_documented; /* both sides on multiples of 64 bytes */
    bool has_host_register;
    bool has_batch_copy;
    bool has_stream_abort;
    bool has_task_abort;
    bool has_op_wait_timeout;
    bool has_2d_d2d;        /* aclrtMemcpy2dAsync inside a device */
    bool needs_peer_access; /* copies between devices */
};

#endif
