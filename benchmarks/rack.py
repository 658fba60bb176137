"""What a run costs the controller: emulated nodes, each behind a login of a real sshd.

``python benchmarks/rack.py [HOSTS...]``; docs/performance.md holds the results. Controller and all
nodes share this machine, so the wall time is mostly that of the nodes; the processor time is the
controller's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calibration import calibrate

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from sshd import running  # noqa: E402

PYINFRA = Path(sys.executable).with_name("pyinfra")


def run(inventory: Path, environment: dict[str, str]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds of the controller, exit status."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [PYINFRA, inventory, "deploys/metax_node.py", "-y"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, process.returncode


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [1, 10, 50]
    loop = calibrate()
    print(f"calibration loop {loop * 1000:.1f} ms")
    print("hosts  run     wall s  controller s  loops/host  exec/host  sftp/host")
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.environ["RACKREADY_EMULATOR_DIR"] = str(folder / "trees")
            from rackready.emulator.tree import build

            environment = dict(os.environ, RACKREADY_RUNS=str(folder / "runs"))
            with running(folder) as sshd:
                hosts = []
                for number in range(size):
                    tree = build(
                        f"node{number}", "c500x8-2dual", {"max_read_request": {"mlx5_1": 4096}}
                    )
                    enter = f"export RACKREADY_ROOT={tree} RACKREADY_EMULATED=1"
                    hosts.append(
                        (f"node{number}", sshd.host(f'{enter}; sh -c "$SSH_ORIGINAL_COMMAND"'))
                    )
                inventory = folder / "inventory.py"
                inventory.write_text(f"rack = {hosts!r}\n")
                for kind in ("first", "second"):
                    log = sshd.log
                    wall, processor, status = run(inventory, environment)
                    assert status == 0, f"exit status {status}"
                    new = sshd.log.removeprefix(log)
                    execs = new.count("Starting session: forced-command") / size
                    sftps = new.count("subsystem request for sftp") / size
                    print(
                        f"{size:5}  {kind:<6}  {wall:6.2f}  {processor:12.2f}"
                        f"  {processor / size / loop:10.1f}  {execs:9.1f}  {sftps:9.1f}"
                    )


if __name__ == "__main__":
    main()
