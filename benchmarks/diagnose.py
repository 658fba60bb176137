"""How long a diagnosis takes: of one pasted case, of many captures, of a large log, of garbage.

``python benchmarks/diagnose.py``; docs/performance.md holds the results. Wall time, with the start
of Python; the largest memory is that of the whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calibration import calibrate

from rackready.catalog import load_profiles
from rackready.facts.capture import probe_script
from rackready.judge import probe_wishes

ROOT = Path(__file__).parents[1]
CASE = ROOT / "tests" / "cases" / "08-mps-128"
CAPTURES = 1000
_RUN = """
import resource, sys
from rackready.cli import main
try:
    main(sys.argv[1:])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, file=sys.stderr)
"""


def run(*arguments: str) -> tuple[float, int]:
    """Wall seconds and MiB of a run of ``rackready``, the best of three."""
    best = (float("inf"), 0)
    for _ in range(3):
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - begun
        memory = int(done.stderr.split()[-1])
        best = min(best, (seconds, memory))
    return best


def capture(folder: str) -> str:
    """What the probe says of an emulated node with 8 accelerators."""
    os.environ["RACKREADY_EMULATOR_DIR"] = folder
    from rackready.emulator.tree import build

    tree = build("bench", "c500x8-4nic", {})
    environment = os.environ | {"RACKREADY_ROOT": str(tree), "RACKREADY_EMULATED": "1"}
    return subprocess.run(
        ["sh", "-s"],
        input=probe_script(probe_wishes(load_profiles()), transport=False),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        case = Path(folder, CASE.name)
        case.mkdir()
        for file in CASE.glob("*.txt"):
            case.joinpath(file.name).write_bytes(file.read_bytes())
        many = Path(folder, "many")
        text = capture(folder)
        for number in range(CAPTURES):
            host = many / f"n{number:04}"
            host.mkdir(parents=True)
            host.joinpath("n.capture").write_text(text)
        log = Path(folder, "log")
        log.mkdir()
        line = "h100-{0}:{1}:{1} [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
        with log.joinpath("nccl.log").open("w") as file:
            for number in range(400_000):
                file.write(line.format(number % 64, number))
        garbage = Path(folder, "garbage")
        garbage.mkdir()
        row = bytes(32 + (n * 7919) % 94 for n in range(199)) + b"\n"
        with garbage.joinpath("garbage.txt").open("wb") as binary:
            for _ in range(500):
                binary.write(row * 1000)
        loop = calibrate()
        print(f"calibration loop {loop * 1000:.1f} ms; capture {len(text) // 1024} KiB")
        for name, path in (
            ("one pasted case", case),
            (f"{CAPTURES} captures", many),
            (f"a log of {log.joinpath('nccl.log').stat().st_size >> 20} MiB", log),
            ("100 MB of garbage", garbage),
        ):
            seconds, memory = run("diagnose", str(path), "--json")
            print(f"{name:<24} {seconds:6.2f} s  {memory:4} MiB")


if __name__ == "__main__":
    main()
