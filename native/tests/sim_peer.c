/* sim_peer.c - access between devices: one direction at a time, on the chips that have it. */
#include "tests/sim_util.h"

static int status_of(int32_t from, int32_t to)
{
    int32_t status = 9;

    OK(aclrtDevicePeerAccessStatus(from, to, &status));
    return status;
}

static void access_has_one_direction(void)
{
    int32_t can = 9;

    OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
    CHECK_EQ(can, 1);
    OK(aclrtSetDevice(0));
    CHECK_EQ(status_of(0, 1), 0);
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_EQ(status_of(0, 1), 1);
    CHECK_EQ(status_of(1, 0), 0);
    CHECK_EQ(status_of(0, 2), 0);
    OK(aclrtDeviceEnablePeerAccess(2, 0));
    OK(aclrtDeviceDisablePeerAccess(1));
    OK(aclrtDeviceDisablePeerAccess(1));
    CHECK_EQ(status_of(0, 1), 0);
    CHECK_EQ(status_of(0, 2), 1);
    OK(aclrtResetDevice(0));
    CHECK_EQ(status_of(0, 2), 0); /* gone with the device */
}

static void arguments_are_checked(void)
{
    int32_t can;

    CHECK_EQ(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtDeviceEnablePeerAccess(1, 1), ACL_ERROR_FEATURE_UNSUPPORTED);
    CHECK_EQ(aclrtDeviceDisablePeerAccess(1), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtDeviceEnablePeerAccess(3, 0), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtDeviceDisablePeerAccess(0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtDeviceCanAccessPeer(&can, 1, 1), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtDeviceCanAccessPeer(&can, 0, 3), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtDeviceCanAccessPeer(&can, -1, 0), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtDeviceCanAccessPeer(NULL, 0, 1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtDevicePeerAccessStatus(0, 3, &can), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtDevicePeerAccessStatus(0, 1, NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtResetDevice(0));
}

static void some_chips_have_none(const char *profile)
{
    int32_t can = 9;

    OK(aclsim_set_profile(profile));
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclrtDeviceCanAccessPeer(&can, 0, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtDeviceDisablePeerAccess(1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(status_of(0, 1), 0);
    CHECK_EQ(can, 9);
    OK(aclrtResetDevice(0));
}

int main(void)
{
    OK(aclsim_set_device_count(3));
    access_has_one_direction();
    arguments_are_checked();
    some_chips_have_none("310b");
    some_chips_have_none("310p-rc");
    return 0;
}
