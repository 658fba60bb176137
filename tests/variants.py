"""Changes of a case that keep its meaning, so that its verdict has to stay as well.

Each takes the evidence as pairs of file name and text, and what is expected and wished as text;
what it renames there it renames here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Texts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Told:
    """A case: evidence, expected.json and policy.yaml, all as text."""

    texts: Texts
    expected: str
    policy: str

    def renamed(self, rename: Callable[[str], str]) -> Told:
        """The same with ``rename`` on everything."""
        texts = [(name, rename(text)) for name, text in self.texts]
        return Told(texts, rename(self.expected), rename(self.policy))

    def rewritten(self, rewrite: Callable[[str], str]) -> Told:
        """The same with ``rewrite`` on the evidence alone."""
        return Told([(n, rewrite(t)) for n, t in self.texts], self.expected, self.policy)


# --- Names and numbers --------------------------------------------------------------------------


def _digits(text: str) -> str:
    """Each digit one more: what was the beginning of another number still is."""
    return "".join(str((int(c) + 1) % 10) if c.isdigit() else c for c in text)


_RDMA = re.compile(r"\b(mlx5_|bnxt_re|qedr|irdma|erdma_)(\d+)\b")
_NETDEV = re.compile(r"\b(ens|eno|enp|eth|ibs|ibp)(\d+)")


def rename_devices(told: Told) -> Told:
    """Other numbers in the names of RDMA devices and interfaces."""

    def rename(text: str) -> str:
        text = _RDMA.sub(lambda match: match[1] + _digits(match[2]), text)
        return _NETDEV.sub(lambda match: match[1] + _digits(match[2]), text)

    return told.renamed(rename)


_BDF = re.compile(
    r"(?<![0-9a-f:.])((?:[0-9a-f]{4,8}:)?)([0-9a-f]{2})(:[01][0-9a-f]\.[0-7])(?![0-9a-f.])",
    re.IGNORECASE,
)
_WORD = re.compile(r'("(?:0000:)?)([0-9a-f]{2})(:00")')  # of expected.json
_XID = re.compile(r"(PCI:[0-9a-f]{4}:)([0-9a-f]{2})(:[0-9a-f]{2}\))", re.IGNORECASE)
_BUS = re.compile(r"((?:secondary|subordinate|primary)=)([0-9a-f]{2})\b")


def renumber_buses(told: Told) -> Told:
    """Other bus numbers of all PCI functions; bus 0 stays what it is."""

    def other(match: re.Match[str]) -> str:
        bus = int(match[2], 16)
        if bus == 0:
            return match[0]
        moved = f"{bus ^ 0x04:02x}"
        return match[1] + (moved.upper() if match[2].isupper() else moved) + _rest(match)

    def _rest(match: re.Match[str]) -> str:
        return match[3] if match.re.groups > 2 else ""

    def rename(text: str) -> str:
        for pattern in (_BDF, _XID, _BUS, _WORD):
            text = pattern.sub(other, text)
        return text

    return told.renamed(rename)


_IPV4 = re.compile(
    r"(?<![\d.])((?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.)(\d{1,3})(?=(?:\.\d{1,3})?\b(?!\.?\d{1,3}\b))"
)
_GID = re.compile(r"(ffff:(?:0a[0-9a-f]{2}|c0a8|ac1[0-9a-f]):)([0-9a-f]{2})([0-9a-f]{2})\b")


def renumber_subnets(told: Told) -> Told:
    """Other private subnets; which addresses share one stays as it was."""

    def rename(text: str) -> str:
        text = _IPV4.sub(lambda match: f"{match[1]}{(int(match[2]) + 16) % 256}", text)
        return _GID.sub(
            lambda match: f"{match[1]}{(int(match[2], 16) + 16) % 256:02x}{match[3]}", text
        )

    return told.renamed(rename)


# --- How it was pasted --------------------------------------------------------------------------

_PROMPT = re.compile(r"^([#$]) (?=[a-z/])(?!nThread|nccl|host)", re.MULTILINE)


def other_prompts(told: Told) -> Told:
    """Whole prompts where the case has bare ones."""
    prompts = {"#": "[root@gpu-07 ~]# ", "$": "ops@gpu-07:~$ "}
    return told.rewritten(lambda text: _PROMPT.sub(lambda match: prompts[match[1]], text))


def crlf(told: Told) -> Told:
    """As a Windows terminal saves it."""
    return told.rewritten(lambda text: text.replace("\n", "\r\n"))


def trailing_prompt(told: Told) -> Told:
    """The prompt that waits for the next command was copied too."""
    return told.rewritten(lambda text: text.rstrip("\n") + "\nroot@gpu-07:~# \n")


_UNRELATED = {
    "uptime.txt": "# uptime\n 10:11:12 up 41 days,  3:05,  2 users,  load average: 0.52, 0.58\n",
    "df.txt": """# df -h
Filesystem      Size  Used Avail Use% Mounted on
tmpfs           201G  2.9M  201G   1% /run
/dev/nvme0n1p2  879G  103G  731G  13% /
""",
    "free.txt": """# free -g
               total        used        free      shared  buff/cache   available
Mem:            2015          41        1961           0          12        1964
Swap:              0           0           0
""",
    "readme.txt": "The outputs in this folder are of Tuesday night, before the reboot.\n",
    "lsblk.txt": """$ lsblk
NAME        MAJ:MIN RM   SIZE RO TYPE MOUNTPOINTS
nvme0n1     259:0    0 894.3G  0 disk
├─nvme0n1p1 259:1    0     1G  0 part /boot/efi
└─nvme0n1p2 259:2    0 893.2G  0 part /
""",
}


def unrelated_outputs(told: Told) -> Told:
    """Other things that people also paste."""
    return _beside(told, _UNRELATED)


def _beside(told: Told, outputs: Mapping[str, str]) -> Told:
    """With these files beside the evidence of each host."""
    folders = {name.rpartition("/")[0] for name, _ in told.texts}
    more = [
        (f"{folder}/{name}" if folder else name, text)
        for folder in sorted(folders)
        for name, text in outputs.items()
    ]
    return Told([*told.texts, *more], told.expected, told.policy)


_HEALTHY = {
    "lspci-others.txt": """# lspci -vv -s 02:00.0
02:00.0 Non-Volatile memory controller: Samsung Electronics Co Ltd PM9A3
\tSubsystem: Samsung Electronics Co Ltd Device a801
\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+
\tLatency: 0, Cache Line Size: 64 bytes
\tNUMA node: 0
\tIOMMU group: 21
\tRegion 0: Memory at 9f800000 (64-bit, non-prefetchable) [size=32K]
\tCapabilities: [70] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0, Latency L0s unlimited, L1 unlimited
\t\t\tExtTag+ AttnBtn- AttnInd- PwrInd- RBE+ FLReset+ SlotPowerLimit 25W
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\t\tDevSta:\tCorrErr- NonFatalErr- FatalErr- UnsupReq- AuxPwr- TransPend-
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4, ASPM L1, Exit Latency L1 <64us
\t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+
\t\tLnkSta:\tSpeed 16GT/s, Width x4
\tKernel driver in use: nvme
\tKernel modules: nvme
""",
    "addresses-others.txt": """# ip -br addr
lo               UNKNOWN        127.0.0.1/8 ::1/128
eno8303          UP             198.51.100.7/24 fe80::ec0:cfff:fe11:2233/64
""",
    "ethtool-others.txt": """# ethtool eno8303
Settings for eno8303:
\tSupported ports: [ TP ]
\tSpeed: 1000Mb/s
\tDuplex: Full
\tAuto-negotiation: on
\tLink detected: yes
""",
    "services.txt": """# systemctl is-active sshd chronyd
active
active
""",
    "numa.txt": """# numactl -H
available: 2 nodes (0-1)
node 0 cpus: 0-63
node 0 size: 1031548 MB
node 0 free: 1010021 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
""",
}


def healthy_neighbours(told: Told) -> Told:
    """Outputs on other devices of each host, which are well."""
    return _beside(told, _HEALTHY)


def one_file(told: Told) -> Told:
    """All outputs that name their command in one file, host by host."""
    kept: list[tuple[str, str]] = []
    joined: dict[str, str] = {}
    for name, text in told.texts:
        folder = name.rpartition("/")[0]
        if re.match(r"[#$] [a-z/]", text) and not text.startswith(("# nccl", "# nThread")):
            joined[folder] = joined.get(folder, "") + text.rstrip("\n") + "\n"
        else:
            kept.append((name, text))
    more = [
        (f"{folder}/paste.txt" if folder else "paste.txt", text) for folder, text in joined.items()
    ]
    return Told([*kept, *more], told.expected, told.policy)


# A command behind a prompt; what nccl-tests and ssh-keyscan print is none.
_COMMAND = re.compile(r"^([#$] |\S{1,40}@\S{1,80}[#$] )([a-z][\w-]*)(?=\s|$)", re.MULTILINE)
_PROGRAMS = {
    program: f"{folder}/{program}"
    for folder, programs in {
        "/usr/bin": "cat dmesg dpkg env grep ibdev2netdev ibv_devinfo journalctl ls lspci lsmod "
        "mlnx_qos mlxconfig nvidia-smi readlink setpci show_gids stat systemctl",
        "/usr/sbin": "cma_roce_tos dcb ethtool ibstat ip modinfo modprobe rdma rmmod sysctl tc",
        "/opt/mxdriver/bin": "mx-smi",
        "/usr/local/PPU_SDK/bin": "ppu-smi",
    }.items()
    for program in programs.split()
}
_UNPRIVILEGED = re.compile(r"denied|not permitted|uid=[1-9]")


def whole_paths(told: Told) -> Told:
    """Programs by their whole path."""
    return told.rewritten(
        lambda text: _COMMAND.sub(lambda match: match[1] + _PROGRAMS.get(match[2], match[2]), text)
    )


def with_sudo(told: Told) -> Told:
    """By a user who may, but not where the case is what a user may not."""
    if any(_UNPRIVILEGED.search(text) for _, text in told.texts):
        return told

    def run(match: re.Match[str]) -> str:
        return f"{match[1]}sudo {match[2]}" if match[2] in _PROGRAMS else match[0]

    return told.rewritten(lambda text: _COMMAND.sub(run, text))


def coloured_prompts(told: Told) -> Told:
    """With the colours and the title that a terminal's session holds, kept by script(1)."""
    prompt = "\x1b]0;ops@gpu-07: ~\x07\x1b[01;32mops@gpu-07\x1b[00m:\x1b[01;34m~\x1b[00m"

    def kept(text: str) -> str:
        text = _PROMPT.sub(lambda match: f"{prompt}{match[1]} ", text).rstrip("\n")
        return (
            'Script started on 2026-11-28 10:11:12+08:00 [TERM="xterm"]\n'
            f'{text}\n\nScript done on 2026-11-28 10:12:12+08:00 [COMMAND_EXIT_CODE="0"]\n'
        )

    return told.rewritten(kept)


def fenced(told: Told) -> Told:
    """As in a ticket."""
    return told.rewritten(lambda text: f"On the node:\n\n```console\n{text.rstrip()}\n```\n")


def other_file_names(told: Told) -> Told:
    """Names that tell nothing, in another order."""
    texts = [
        (f"{name.rpartition('/')[0]}/out{99 - at}.txt".lstrip("/"), text)
        for at, (name, text) in enumerate(told.texts)
    ]
    return Told(sorted(texts), told.expected, told.policy)


# --- How a log was collected --------------------------------------------------------------------


def _tagged(told: Told, tag: str) -> Told:
    """A tag before each line of a job's log; one of a driver or of a test on one host has none."""

    def rewrite(name: str, text: str) -> str:
        of_job = re.search(r"nccl|log\.txt|all_reduce|low_latency", name) and text[:2] != "$ "
        return re.sub(r"^(?=.)", tag, text, flags=re.MULTILINE) if of_job else text

    texts = [(name, rewrite(name, text)) for name, text in told.texts]
    return Told(texts, told.expected, told.policy)


def srun_labels(told: Told) -> Told:
    return _tagged(told, "0: ")


def mpirun_tags(told: Told) -> Told:
    return _tagged(told, "[1,0]<stderr>:")


def kubectl_timestamps(told: Told) -> Told:
    return _tagged(told, "2026-03-13T22:26:02.123456789Z ")


_STAMP = re.compile(r"^\[ *\d+\.\d{6}\] ", re.MULTILINE)


def kernel_log_of_journal(told: Told) -> Told:
    """The kernel's log as journalctl prints it."""

    def rewrite(text: str) -> str:
        text = _STAMP.sub("Nov 28 10:11:12 gpu-07 kernel: ", text)
        return re.sub(r"^([#$]) dmesg\b(?: -T)?", r"\1 journalctl -k -b", text, flags=re.MULTILINE)

    return told.rewritten(rewrite)


# --- Another generation of the tool -------------------------------------------------------------


def older_tools(told: Told) -> Told:
    """Without what older versions of lspci, iproute2 and mx-smi did not print."""

    def rewrite(text: str) -> str:
        text = re.sub(r"^(\t+LnkSta:.*)", lambda m: m[1].replace(" (ok)", ""), text, flags=re.M)
        text = re.sub(r"^(\d+: .*) group default", r"\1", text, flags=re.M)
        text = re.sub(r"^    altname .*\n", "", text, flags=re.M)
        return re.sub(r"^(GPU#.*Available) \(UUID: [^)]*\)$", r"\1", text, flags=re.M)

    return told.rewritten(rewrite)


def tabs_to_blanks(told: Told) -> Told:
    """A terminal's copy of a table: blanks where the tool printed tabs."""
    return told.rewritten(
        lambda text: text.expandtabs(8) if text.lstrip("# a-z_\n").startswith("DEV\t") else text
    )


VARIANTS: tuple[Callable[[Told], Told], ...] = (
    rename_devices,
    renumber_buses,
    renumber_subnets,
    other_prompts,
    crlf,
    trailing_prompt,
    unrelated_outputs,
    one_file,
    older_tools,
    tabs_to_blanks,
    healthy_neighbours,
    whole_paths,
    with_sudo,
    coloured_prompts,
    fenced,
    other_file_names,
    srun_labels,
    mpirun_tags,
    kubectl_timestamps,
    kernel_log_of_journal,
)
