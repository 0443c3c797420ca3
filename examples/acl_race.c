/* A program for ACL with a mistake that hardware forgives most of the time: the download on the second stream
 * does not wait for the upload on the first. Build it with -DFIXED for the right program.
 *
 *     npu-xfer sim sdk ./sim-sdk
 *     cc examples/acl_race.c -I sim-sdk/include -L sim-sdk/lib64 -lascendcl -o acl_race
 *     npu-xfer sim run --mode adversarial --check -- ./acl_race
 */
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"

#define TRY(call)                                      \
    do {                                               \
        aclError code_ = (call);                       \
        if (code_ != ACL_SUCCESS) {                    \
            fprintf(stderr, "%s: %d\n", #call, code_); \
            return 1;                                  \
        }                                              \
    } while (0)

int main(void)
{
    enum { NBYTES = 1 << 20 };
    void *src, *dst, *device;
    aclrtStream up, down;
    aclrtEvent uploaded;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&up));
    TRY(aclrtCreateStream(&down));
    TRY(aclrtCreateEventWithFlag(&uploaded, ACL_EVENT_SYNC));
    TRY(aclrtMalloc(&device, NBYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    TRY(aclrtMallocHost(&src, NBYTES));
    TRY(aclrtMallocHost(&dst, NBYTES));
    memset(src, 7, NBYTES);
    memset(dst, 0, NBYTES);

    TRY(aclrtMemcpyAsync(device, NBYTES, src, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE, up));
    TRY(aclrtRecordEvent(uploaded, up));
#ifdef FIXED
    TRY(aclrtStreamWaitEvent(down, uploaded));
#endif
    TRY(aclrtMemcpyAsync(dst, NBYTES, device, NBYTES, ACL_MEMCPY_DEVICE_TO_HOST, down));
    TRY(aclrtSynchronizeStream(down));
    printf("the bytes are %s\n", memcmp(src, dst, NBYTES) == 0 ? "right" : "wrong");

    TRY(aclrtSynchronizeStream(up));
    TRY(aclrtFreeHost(dst));
    TRY(aclrtFreeHost(src));
    TRY(aclrtFree(device));
    TRY(aclrtDestroyEvent(uploaded));
    TRY(aclrtDestroyStream(down));
    TRY(aclrtDestroyStream(up));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    return 0;
}
