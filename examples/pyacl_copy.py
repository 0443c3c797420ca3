"""pyACL code as it is written for CANN. Without CANN:  npu-xfer sim run -- python3 examples/pyacl_copy.py"""

import acl  # CANN's pyACL, or npu_xfer.acl under `npu-xfer sim run`
import numpy as np

ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEM_MALLOC_HUGE_FIRST = 1, 2, 0


def check(ret: int) -> None:
    if ret != 0:
        raise RuntimeError(f"ACL returned {ret}: {acl.get_recent_err_msg()}")


check(acl.init())
check(acl.rt.set_device(0))
stream, ret = acl.rt.create_stream()
check(ret)
array = np.arange(1 << 20, dtype=np.float32)
nbytes = array.nbytes
device, ret = acl.rt.malloc(nbytes, ACL_MEM_MALLOC_HUGE_FIRST)
check(ret)
host, ret = acl.rt.malloc_host(nbytes)
check(ret)
check(acl.rt.memcpy(device, nbytes, acl.util.numpy_to_ptr(array), nbytes, ACL_MEMCPY_HOST_TO_DEVICE))
check(acl.rt.memcpy_async(host, nbytes, device, nbytes, ACL_MEMCPY_DEVICE_TO_HOST, stream))
check(acl.rt.synchronize_stream(stream))
back = np.frombuffer(acl.util.ptr_to_bytes(host, nbytes), dtype=np.float32)
print("equal:", np.array_equal(array, back))
check(acl.rt.free_host(host))
check(acl.rt.free(device))
check(acl.rt.destroy_stream(stream))
check(acl.rt.reset_device(0))
check(acl.finalize())
