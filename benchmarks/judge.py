"""How long it takes to read and judge the capture of one node with 8 accelerators.

``python benchmarks/judge.py``; docs/performance.md holds the results.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import date

from calibration import calibrate

from rackready.catalog import load_profiles
from rackready.facts.capture import probe_script, read_capture
from rackready.facts.readers.node import read_node
from rackready.judge import judge, probe_wishes
from rackready.policy import Policy

REPEATS = 50


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of many repeats."""
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    profiles = load_profiles()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RACKREADY_EMULATOR_DIR"] = folder
        from rackready.emulator.tree import build

        tree = build("bench", "c500x8-4nic", {})
        environment = os.environ | {"RACKREADY_ROOT": str(tree), "RACKREADY_EMULATED": "1"}
        script = probe_script(probe_wishes(profiles), transport=False)
        begun = time.perf_counter()
        text = subprocess.run(
            ["sh", "-s"],
            input=script,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        probe = time.perf_counter() - begun
    loop = calibrate()
    capture = read_capture(text, "bench")
    today = date.today()
    figures = {
        "read the capture": best(lambda: read_capture(text, "bench")),
        "make the node of it": best(lambda: read_node("bench", capture.evidence)),
        "read, make the node, wire, check": best(
            lambda: judge("bench", read_capture(text, "bench"), profiles, Policy(), today)
        ),
    }
    print(f"calibration loop {loop * 1000:.1f} ms; capture {len(text) // 1024} KiB")
    print(f"probe on an emulated node {probe:.2f} s (1 s of it between two readings of counters)")
    for name, seconds in figures.items():
        print(f"{name:<34} {seconds * 1000:6.1f} ms  {seconds / loop:5.2f} loops")


if __name__ == "__main__":
    main()
