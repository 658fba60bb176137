"""A fixed piece of work, so that figures of different machines can be compared."""

from __future__ import annotations

import time


def calibrate() -> float:
    """Seconds of the fastest of ten loops of pure Python: dictionaries, strings, arithmetic."""
    times = []
    for _ in range(10):
        begun = time.perf_counter()
        table: dict[str, int] = {}
        for number in range(50_000):
            key = f"{number % 997:x}"
            table[key] = table.get(key, 0) + number * 3 % 7
        times.append(time.perf_counter() - begun)
    return min(times)
