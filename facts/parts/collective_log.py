"""What the logs of collective libraries tell: which network they took, and what failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class NetworkUse:
    """
    What one process group's log says of the network that it uses.

    ``transports`` counts channels by their kind: "P2P/CUMEM", "NET/IB/GDRDMA", "NET/Socket".
    """

    IDENTITY: ClassVar = ()

    library: str  # "NCCL", "MCCL", "PCCL"
    versions: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()  # "IB", "Socket", "AWS Libfabric"
    transports: Mapping[str, int] | None = None
    plugins_missing: tuple[str, ...] = ()  # "libnccl-net.so"
    no_ib_device: bool = False
    no_verbs: bool = False  # its library for RDMA could not be opened
    nodes: int | None = None  # by its own word, or by the hosts that its lines name, if several
    devices: tuple[str, ...] = ()  # RDMA devices that it took: "mlx5_0"


@dataclass(frozen=True)
class LogFailure:
    """
    A failure that a log tells; ``kind`` is one of the reader's, ``values`` are its details.

    ``count`` lines were alike.
    """

    IDENTITY: ClassVar = ()

    kind: str
    host: str  # "" = the line names none
    values: tuple[str, ...]
    text: str
    count: int = 1


@dataclass(frozen=True)
class FabricDomain:
    """A domain that libfabric offers (``fi_info``)."""

    IDENTITY: ClassVar = (("provider", "fabric", "domain", "endpoint"),)

    provider: str
    fabric: str
    domain: str
    endpoint: str = ""


@dataclass(frozen=True)
class FabricFailure:
    """libfabric has nothing to offer; ``text`` is what it said."""

    IDENTITY: ClassVar = ()

    provider: str
    text: str


@dataclass(frozen=True)
class FabricTest:
    """A ping-pong over libfabric: how many sizes got through, and the best in MB/s."""

    IDENTITY: ClassVar = ()

    sizes: int
    best: float


@dataclass(frozen=True)
class NetworkPlugin:
    """A folder that holds the library's network plugin."""

    IDENTITY: ClassVar = (("folder",),)

    folder: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class LibraryPath:
    """The folders of LD_LIBRARY_PATH, as ``echo`` printed them."""

    IDENTITY: ClassVar = ((),)

    folders: tuple[str, ...]
