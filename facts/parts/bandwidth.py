"""What bandwidth tests measured: of collectives, of RDMA, between accelerators, of diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


@dataclass(frozen=True)
class Point:
    """One size of a collective test; GB/s (10^9). ``None`` = the tool did not say."""

    size: int  # bytes
    algorithm: float | None = None  # algbw, out of place
    bus: float | None = None  # busbw, out of place
    wrong: int | None = None  # elements with a wrong value; None also where not checked
    in_place_bus: float | None = None
    in_place_wrong: int | None = None


@dataclass(frozen=True)
class Collective:
    """One run of a collective test of the nccl-tests family."""

    IDENTITY: ClassVar = ()

    test: str | None = None  # "all_reduce"
    points: tuple[Point, ...] = ()
    ranks: int | None = None
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()  # different names of the accelerators: "NVIDIA H200"
    out_of_bounds: int | None = None
    verdict: str | None = None  # "OK", "FAILED" of the line "Out of bounds values"
    average: float | None = None  # "Avg bus bandwidth", GB/s
    validated: bool | None = None  # False: the test was told not to look at the data
    failure: str | None = None  # the line with which a test gave up


@dataclass(frozen=True)
class RdmaPoint:
    """One size of perftest. Gb/s (10^9 bits); latencies in microseconds."""

    size: int  # bytes
    average: float | None = None
    peak: float | None = None
    typical_latency: float | None = None


@dataclass(frozen=True)
class RdmaTest:
    """One run of perftest: ``ib_write_bw`` and its kin."""

    IDENTITY: ClassVar = ()

    test: str  # "ib_write_bw"
    device: str | None = None  # RDMA device: "mlx5_0"
    points: tuple[RdmaPoint, ...] = ()
    bidirectional: bool = False
    accelerator: int | None = None  # as the test counts them; None = memory of the host
    accelerator_address: str | None = None  # BDF of it
    accelerators: tuple[str, ...] = ()  # BDFs of all that the test listed, as it counts them
    option: str | None = None  # how the accelerator is chosen: "--use_cuda"
    link: str | None = None  # "Ethernet", "IB"
    gid_index: int | None = None
    mtu: int | None = None  # bytes, of the path
    queue_pairs: int | None = None
    relaxed_ordering: str | None = None  # "ON", "OFF", "Unsupported"
    limited: bool = False  # the test was told to send slowly
    gids: tuple[str, ...] = ()  # of the local and the remote side; eight groups of four hex digits
    failure: str | None = None  # the first line that tells of a failed verb


@dataclass(frozen=True)
class Transfer:
    """Copies from one end to another; GB/s (10^9)."""

    source: str  # "GPU#0", "CPU"
    target: str  # "GPU#1", "BOARD#0"
    effective: float
    link: str | None = None  # "metaxlink", "pcie"
    raw: float | None = None
    size: int | None = None  # bytes
    valid: bool | None = None  # whether the data arrived as they were; says nothing of the speed


@dataclass(frozen=True)
class CopyTest:
    """One table of a copy test."""

    IDENTITY: ClassVar = ()

    tool: str  # "mxvs", "gdrcopy", "TransferBench"
    title: str  # "MXVS P2P TEST"
    transfers: tuple[Transfer, ...] = ()


@dataclass(frozen=True)
class Board:
    """An accelerator as a copy test lists it, and its PCIe link: GT/s and lanes."""

    IDENTITY: ClassVar = (("index",),)

    index: int
    model: str | None = None
    bdf: str | None = None
    driver: str | None = None
    firmware: str | None = None
    speed: float | None = None
    width: int | None = None
    speed_max: float | None = None
    width_max: int | None = None


@dataclass(frozen=True)
class Diagnostic:
    """
    One test of a vendor's own diagnosis. ``accelerators`` is open where all are meant.

    ``whole``: all results of this run were shown, so that none failed where none is told.
    """

    IDENTITY: ClassVar = (("tool", "name", "result"),)

    tool: str  # "dcgmi diag"
    name: str
    result: str  # "Pass", "Fail", "Warn", "Skip"
    accelerators: tuple[str, ...] = ()
    detail: str | None = None
    whole: bool | None = None


def _empty() -> Mapping[str, float]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ExpertTest:
    """Dispatch and combine of a mixture-of-experts library; ``best``: GB/s by what was tuned."""

    IDENTITY: ClassVar = ()

    passed: int | None = None  # tests of the data; None = none was told
    failed: int | None = None
    best: Mapping[str, float] = field(default_factory=_empty)
