"""Bytes that can be told apart: each seed and each place gives another 8-byte word.

Filling and checking go through one small block, so that checking an array needs no second one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

__all__ = ["fill", "first_difference"]

_STEP = 0x9E3779B97F4A7C15  # odd, so that 2**64 words pass before one repeats
_SEED_STEP = 0xD1B54A32D192ED03
_MASK = (1 << 64) - 1
_N_WORDS = 1 << 17
_BLOCK_NBYTES = 8 * _N_WORDS
_BASE: NDArray[np.uint64] = np.arange(_N_WORDS, dtype=np.uint64) * np.uint64(_STEP)


def _write(block: Bytes, start: int, seed: int) -> None:
    """The pattern from byte `start`, a multiple of 8, on; `block` has at most _BLOCK_NBYTES."""
    offset = np.uint64((start // 8 * _STEP + seed * _SEED_STEP) & _MASK)
    n_words = -(-block.nbytes // 8)
    if block.nbytes % 8 == 0:
        np.add(_BASE[:n_words], offset, out=block.view(np.uint64))
    else:
        block[:] = (_BASE[:n_words] + offset).view(np.uint8)[: block.nbytes]


def fill(array: Bytes, seed: int) -> None:
    """Writes the seed's pattern into a contiguous 1-d array of bytes."""
    for start in range(0, array.nbytes, _BLOCK_NBYTES):
        _write(array[start : start + _BLOCK_NBYTES], start, seed)


def first_difference(array: Bytes, seed: int) -> int | None:
    """Place of the first byte that is not the seed's pattern; None when all are."""
    scratch = np.empty(_BLOCK_NBYTES, dtype=np.uint8)
    for start in range(0, array.nbytes, _BLOCK_NBYTES):
        block = array[start : start + _BLOCK_NBYTES]
        expected = scratch[: block.nbytes]
        _write(expected, start, seed)
        if not np.array_equal(expected, block):
            return start + int(np.flatnonzero(expected != block)[0])
    return None
