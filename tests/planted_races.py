"""Programs with one bug of order each, and the same programs without it, for tests/test_sim_races.py.

Each runs in adversarial mode with ten seeds, in one process. Prints JSON: {program: {"planted" or "correct":
[[whether wrong bytes were seen, the texts of the findings], ...]}}.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from support import pattern

from npu_xfer import acl, sim

if TYPE_CHECKING:
    from collections.abc import Callable

H2D, D2H, D2D = 1, 2, 3
NBYTES = 4096
SEEDS = range(10)


def ok(code: int) -> None:
    assert code == 0, (code, acl.get_recent_err_msg())


def made(result: tuple[int, int]) -> int:
    ok(result[1])
    return result[0]


class World:
    """One stream or two, memory of both kinds, and an end that waits for everything."""

    def __init__(self) -> None:
        self.streams = [made(acl.rt.create_stream()) for _ in range(2)]
        self.events: list[int] = []
        self.device = [made(acl.rt.malloc(NBYTES, 0)) for _ in range(2)]
        self.pinned = [made(acl.rt.malloc_host(NBYTES)) for _ in range(2)]

    def array(self, address: int) -> np.ndarray[Any, Any]:
        return acl.util.ptr_to_numpy(address, (NBYTES,), np.dtype(np.uint8).num)

    def copy(self, dst: int, src: int, kind: int, stream: int = 0) -> None:
        ok(acl.rt.memcpy_async(dst, NBYTES, src, NBYTES, kind, self.streams[stream]))

    def wait(self, stream: int = 0) -> None:
        ok(acl.rt.synchronize_stream(self.streams[stream]))

    def ends_well(self) -> bool:
        """Waits, where a copy of freed memory may have failed."""
        return all(acl.rt.synchronize_stream(stream) == 0 for stream in self.streams)

    def order(self, first: int, second: int) -> None:
        self.events.append(made(acl.rt.create_event()))
        ok(acl.rt.record_event(self.events[-1], self.streams[first]))
        ok(acl.rt.stream_wait_event(self.streams[second], self.events[-1]))

    def holds(self, device: int, expected: np.ndarray[Any, Any]) -> bool:
        return sim.peek(device, NBYTES) == expected.tobytes()

    def close(self) -> None:
        for stream in self.streams:
            ok(acl.rt.synchronize_stream(stream))
            ok(acl.rt.destroy_stream(stream))
        for event in self.events:
            ok(acl.rt.destroy_event(event))
        for address in self.device:
            ok(acl.rt.free(address))
        for address in self.pinned:
            ok(acl.rt.free_host(address))


# Each returns whether the bytes that arrived are the right ones.


def source_overwritten(world: World, planted: bool) -> bool:
    source, first = world.array(world.pinned[0]), pattern(NBYTES, 1)
    source[:] = first
    world.copy(world.device[0], world.pinned[0], H2D)
    if not planted:
        world.wait()
    source[100] ^= 0xFF
    world.wait()
    return world.holds(world.device[0], first)


def slab_reused(world: World, planted: bool) -> bool:
    """One slab for two uploads; right is to take it again when the first copy has ended."""
    slab, parts = world.array(world.pinned[0]), [pattern(NBYTES, 2), pattern(NBYTES, 3)]
    for device, part in zip(world.device, parts, strict=True):
        slab[:] = part
        world.copy(device, world.pinned[0], H2D)
        if not planted:
            world.wait()
    world.wait()
    return all(world.holds(device, part) for device, part in zip(world.device, parts, strict=True))


def wait_event_missing(world: World, planted: bool) -> bool:
    source, target, data = world.array(world.pinned[0]), world.array(world.pinned[1]), pattern(NBYTES, 4)
    source[:], target[:] = data, 0
    world.copy(world.device[0], world.pinned[0], H2D, 0)
    if not planted:
        world.order(0, 1)
    world.copy(world.pinned[1], world.device[0], D2H, 1)
    world.wait(1)
    return bool(np.array_equal(target, data))


def inside_unordered(world: World, planted: bool) -> bool:
    """The same between two copies that the host looks at much later."""
    source, data = world.array(world.pinned[0]), pattern(NBYTES, 5)
    source[:] = data
    world.copy(world.device[0], world.pinned[0], H2D, 0)
    if not planted:
        world.order(0, 1)
    world.copy(world.device[1], world.device[0], D2D, 1)
    world.wait(1)
    world.wait(0)
    return world.holds(world.device[1], data)


def result_read_early(world: World, planted: bool) -> bool:
    source, target, data = world.array(world.pinned[0]), world.array(world.pinned[1]), pattern(NBYTES, 6)
    source[:], target[:] = data, 0
    world.copy(world.device[0], world.pinned[0], H2D)
    world.copy(world.pinned[1], world.device[0], D2H)
    if not planted:
        world.wait()
    return bool(np.array_equal(target, data))


def device_freed(world: World, planted: bool) -> bool:
    source, data = world.array(world.pinned[0]), pattern(NBYTES, 7)
    source[:] = data
    world.copy(world.device[0], world.pinned[0], H2D)
    if not planted:
        world.wait()
    ok(acl.rt.free(world.device.pop(0)))
    return world.ends_well()


def device_source_freed(world: World, planted: bool) -> bool:
    source, target, data = world.array(world.pinned[0]), world.array(world.pinned[1]), pattern(NBYTES, 8)
    source[:] = data
    world.copy(world.device[0], world.pinned[0], H2D)
    world.wait()
    world.copy(world.pinned[1], world.device[0], D2H)
    if not planted:
        world.wait()
    ok(acl.rt.free(world.device.pop(0)))
    return world.ends_well() and bool(np.array_equal(target, data))


def pinned_freed(world: World, planted: bool) -> bool:
    data = pattern(NBYTES, 9)
    world.array(world.pinned[0])[:] = data
    world.copy(world.device[0], world.pinned[0], H2D)
    if not planted:
        world.wait()
    ok(acl.rt.free_host(world.pinned.pop(0)))
    return world.ends_well() and world.holds(world.device[0], data)


def registered_source_overwritten(world: World, planted: bool) -> bool:
    """Memory of numpy itself, page-locked by registering it."""
    whole = np.zeros(3 * NBYTES, np.uint8)
    start = -whole.ctypes.data % NBYTES
    source, first = whole[start : start + NBYTES], pattern(NBYTES, 10)
    source[:] = first
    address = acl.util.numpy_to_ptr(source)
    made(acl.rt.host_register(address, NBYTES, 0))
    world.copy(world.device[0], address, H2D)
    if not planted:
        world.wait()
    source[:] = 0
    world.wait()
    ok(acl.rt.host_unregister(address))
    return world.holds(world.device[0], first)


def source_refilled_by_device(world: World, planted: bool) -> bool:
    """A download into memory that another stream still uploads from."""
    slab, data = world.array(world.pinned[0]), pattern(NBYTES, 11)
    slab[:] = data
    sim.poke(world.device[1], bytes(NBYTES))
    world.copy(world.device[0], world.pinned[0], H2D, 0)
    if not planted:
        world.order(0, 1)
    world.copy(world.pinned[0], world.device[1], D2H, 1)
    world.wait(1)
    world.wait(0)
    return world.holds(world.device[0], data)


def fill_unordered(world: World, planted: bool) -> bool:
    ok(acl.rt.memset_async(world.device[0], NBYTES, 7, NBYTES, world.streams[0]))
    if not planted:
        world.order(0, 1)
    world.copy(world.pinned[0], world.device[0], D2H, 1)
    world.wait(1)
    return bool((world.array(world.pinned[0]) == 7).all())


def wait_before_record(world: World, planted: bool) -> bool:
    """A wait takes the record that was submitted before it; one submitted later orders nothing."""
    data = pattern(NBYTES, 12)
    world.array(world.pinned[0])[:] = data
    event = made(acl.rt.create_event_ex_with_flag(1))
    world.events.append(event)
    ok(acl.rt.record_event(event, world.streams[0]))
    if planted:
        ok(acl.rt.stream_wait_event(world.streams[1], event))
    world.copy(world.device[0], world.pinned[0], H2D, 0)
    ok(acl.rt.record_event(event, world.streams[0]))
    if not planted:
        ok(acl.rt.stream_wait_event(world.streams[1], event))
    world.copy(world.pinned[1], world.device[0], D2H, 1)
    world.wait(1)
    return bool(np.array_equal(world.array(world.pinned[1]), data))


# What orders as well as waiting for the stream does.


def _polled(world: World) -> None:
    while acl.rt.stream_query(world.streams[0])[0] != 0:
        pass


def _event_waited(world: World) -> None:
    world.order(0, 1)
    ok(acl.rt.synchronize_event(world.events[-1]))


def _through_another_stream(world: World) -> None:
    world.order(0, 1)
    world.wait(1)


def _device_waited(world: World) -> None:
    ok(acl.rt.synchronize_device())


def waited_otherwise(world: World, planted: bool) -> bool:
    slab, right = world.array(world.pinned[0]), True
    for n, wait in enumerate((_polled, _event_waited, _through_another_stream, _device_waited)):
        data = pattern(NBYTES, 20 + n)
        slab[:] = data
        world.copy(world.device[0], world.pinned[0], H2D)
        if not planted:
            wait(world)
        slab[:] = 0
        world.wait()
        right = right and world.holds(world.device[0], data)
    return right


PROGRAMS: list[Callable[[World, bool], bool]] = [
    source_overwritten,
    slab_reused,
    wait_event_missing,
    inside_unordered,
    result_read_early,
    device_freed,
    device_source_freed,
    pinned_freed,
    registered_source_overwritten,
    source_refilled_by_device,
    fill_unordered,
    wait_before_record,
    waited_otherwise,
]


def run(program: Callable[[World, bool], bool], seed: int, planted: bool) -> tuple[bool, list[str]]:
    sim.set_mode("adversarial", seed=seed)
    sim.clear_findings()
    ok(acl.rt.set_device(0))
    world = World()
    right = program(world, planted)
    world.close()
    ok(acl.rt.reset_device(0))
    return not right, [f"{found.kind}: {text}" for found in sim.findings() for text in found.texts]


if __name__ == "__main__":
    ok(acl.init())
    print(
        json.dumps(
            {
                program.__name__: {
                    name: [run(program, seed, name == "planted") for seed in SEEDS]
                    for name in ("planted", "correct")
                }
                for program in PROGRAMS
            }
        )
    )
