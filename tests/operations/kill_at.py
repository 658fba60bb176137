"""Run a command and kill all its processes just before its N-th change of a folder.

    kill_at.py N ROOT COMMAND ...

What counts is every system call, of any process of the command, that creates, writes, renames,
removes or marks something below ROOT: their order is the same in each run, so N names one state
on disk. The last line of the output is "killed", or "survived" when there were less than N.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys

TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
# SYSGOOD | FORK | VFORK | CLONE | EXEC | EXITKILL
OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x100000
WALL = 0x40000000
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# System call: number on x86_64 and aarch64 (None: not there), then the index of its folder
# descriptor (None: there is none) and of its path; for the second table of its descriptor.
BY_PATH = {
    "open": (2, None, None, 0),
    "creat": (85, None, None, 0),
    "truncate": (76, 45, None, 0),
    "rename": (82, None, None, 1),
    "mkdir": (83, None, None, 0),
    "rmdir": (84, None, None, 0),
    "link": (86, None, None, 1),
    "unlink": (87, None, None, 0),
    "symlink": (88, None, None, 1),
    "chmod": (90, None, None, 0),
    "openat": (257, 56, 0, 1),
    "mkdirat": (258, 34, 0, 1),
    "unlinkat": (263, 35, 0, 1),
    "renameat": (264, 38, 2, 3),
    "linkat": (265, 37, 2, 3),
    "symlinkat": (266, 36, 1, 2),
    "fchmodat": (268, 53, 0, 1),
    "utimensat": (280, 88, 0, 1),
    "renameat2": (316, 276, 2, 3),
    "fchmodat2": (452, 452, 0, 1),
}
BY_DESCRIPTOR = {
    "write": (1, 64, 0),
    "pwrite64": (18, 68, 0),
    "writev": (20, 66, 0),
    "sendfile": (40, 71, 0),
    "ftruncate": (77, 46, 0),
    "fchmod": (91, 52, 0),
    "copy_file_range": (326, 285, 2),
}
FLAGS = {"open": 1, "openat": 2}


class SyscallInfo(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint8),  # 1: entering
        ("arch", ctypes.c_uint32),
        ("pointers", ctypes.c_uint64 * 2),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long

column = ("x86_64", "aarch64").index(platform.machine())
names = {
    numbers[column]: name
    for name, numbers in (BY_PATH | BY_DESCRIPTOR).items()
    if numbers[column] is not None
}


def ptrace(request: int, pid: int, address: int = 0, data: object = 0) -> None:
    if libc.ptrace(request, pid, address, data) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def text_at(pid: int, address: int) -> str:
    if address == 0:  # utimensat of the descriptor itself
        return ""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        # Up to the end of the page: the next one need not be there.
        data = os.pread(memory.fileno(), 4096 - address % 4096, address)
        if b"\0" not in data:
            data += os.pread(memory.fileno(), 4096, address + len(data))
    return os.fsdecode(data.split(b"\0")[0])


def descriptor(pid: int, number: int) -> str:
    number &= 0xFFFFFFFF
    folder = "cwd" if number == 0xFFFFFF9C else f"fd/{number}"  # AT_FDCWD
    try:
        return os.readlink(f"/proc/{pid}/{folder}")
    except OSError:
        return ""


def changed_path(pid: int) -> str:
    """What the system call that ``pid`` enters is about to change; "" for nothing."""
    info = SyscallInfo()
    size = ctypes.sizeof(info)
    ptrace(GET_SYSCALL_INFO, pid, size, ctypes.addressof(info))
    name = names.get(info.number, "")
    if info.op != 1 or not name:
        return ""
    if name in BY_DESCRIPTOR:
        return descriptor(pid, info.arguments[BY_DESCRIPTOR[name][2]])
    if name in FLAGS and not info.arguments[FLAGS[name]] & WRITING:
        return ""
    folder, path = BY_PATH[name][2:]
    start = descriptor(pid, info.arguments[folder] if folder is not None else 0xFFFFFF9C)
    return os.path.join(start, text_at(pid, info.arguments[path]))


def run(limit: int, root: str, command: list[str]) -> bool:
    """True when the command was killed before it ended."""
    first = os.fork()
    if first == 0:
        os.setsid()
        ptrace(TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execvp(command[0], command)
    os.waitpid(first, 0)
    ptrace(SETOPTIONS, first, 0, OPTIONS)
    ptrace(SYSCALL, first)
    count = 0
    while True:
        try:
            pid, status = os.waitpid(-1, WALL)
        except ChildProcessError:
            return count >= limit
        if not os.WIFSTOPPED(status) or count >= limit:
            continue
        signal_number = os.WSTOPSIG(status)
        if signal_number == signal.SIGTRAP | 0x80:
            count += changed_path(pid).startswith(root)
            if count == limit:
                os.killpg(first, signal.SIGKILL)
                continue
            signal_number = 0
        elif status >> 16 or signal_number == signal.SIGSTOP:
            signal_number = 0  # a new process, which begins stopped
        ptrace(SYSCALL, pid, 0, signal_number)


if __name__ == "__main__":
    print("killed" if run(int(sys.argv[1]), sys.argv[2], sys.argv[3:]) else "survived")
