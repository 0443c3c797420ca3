/* sim_env.c - the environment is read once, before anything else. */
#include "tests/sim_util.h"

int main(void)
{
    struct aclsim_link link;
    uint32_t count = 0;
    size_t free_bytes, total;

    OK(setenv("ACLSIM_DEVICES", "3", 1));
    OK(setenv("ACLSIM_DEVICE_MEMORY", "65536KiB", 1));
    OK(setenv("ACLSIM_LINK", "h2d=25e9,d2h=24e9,d2d=1e12,latency_us=8,submit_us=1.9,move=0", 1));
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 3);
    OK(setenv("ACLSIM_DEVICES", "4", 1));
    OK(setenv("ACLSIM_LINK", "h2d=1", 1));
    OK(aclrtSetDevice(2));
    CHECK_EQ(aclrtSetDevice(3), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(total, 65536 * 1024);
    CHECK_EQ(free_bytes, total);
    OK(aclsim_get_link(2, &link));
    CHECK_EQ(link.h2d_bytes_per_s, 25000000000);
    CHECK_EQ(link.d2h_bytes_per_s, 24000000000);
    CHECK_EQ(link.d2d_bytes_per_s, 1000000000000);
    CHECK_EQ(link.latency_ns, 8000);
    CHECK_EQ(link.submit_ns, 1900);
    CHECK_EQ(link.move_bytes, 0);
    OK(aclrtResetDevice(2));
    return 0;
}
