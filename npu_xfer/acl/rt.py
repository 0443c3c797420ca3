"""acl.rt: devices, contexts, streams, events, notifies, memory, copies, callbacks, under pyACL's names."""

from __future__ import annotations

from typing import Any

from npu_xfer.acl import _callbacks, _devices, _events, _memory, _streams
from npu_xfer.acl._call import absent
from npu_xfer.acl._callbacks import *  # noqa: F403  # one name space, as in pyACL
from npu_xfer.acl._devices import *  # noqa: F403  # the same
from npu_xfer.acl._events import *  # noqa: F403  # the same
from npu_xfer.acl._memory import *  # noqa: F403  # the same
from npu_xfer.acl._streams import *  # noqa: F403  # the same

__all__: list[str] = []
__all__ += _devices.__all__
__all__ += _streams.__all__
__all__ += _events.__all__
__all__ += _memory.__all__
__all__ += _callbacks.__all__


def __getattr__(name: str) -> Any:
    raise absent("acl.rt", name)
