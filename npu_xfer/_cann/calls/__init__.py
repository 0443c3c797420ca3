"""The methods of `npu_xfer._cann.runtime.Runtime`, one module a theme; each is a class over `base.Calls`."""
