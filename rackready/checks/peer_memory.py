"""Peer memory: may the RDMA driver reach the memory of the accelerators?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rackready.check import Cases, View, case, check
from rackready.checks.peer_module import given_addresses
from rackready.finding import Verdict
from rackready.version import SdkVersion

_REFUSED = re.compile(
    r"failing symbol_get of non-GPLONLY symbol (\w*register_peer_memory_client)\b"
)
_NOT_DETECTED = re.compile(r"[Pp]eer memory client interface was not detected")
_ATTEMPT = re.compile(r"initialize peer memory client")


@check(
    "peer-memory.registration",
    ok=Verdict.OK,
    symbol_refused=Verdict.FAIL,
    not_registered=Verdict.FAIL,
    unknown=Verdict.ERROR,
    dmabuf=Verdict.WARN,
)
def registration(view: View) -> Cases:
    """
    Only the log since the driver's last attempt counts: a reload may have cured it.

    An SDK that knows dma-buf may do without; whether kernel and NIC driver let it is not seen here.
    """
    node = view.node
    if node.probed:
        if view.profile is None or view.profile.peer_memory is None:
            return  # this vendor has no such mechanism
        if not view.wiring.accelerators or not node.rdma:
            return
    log = node.kernel_log or ()
    attempts = [at for at, line in enumerate(log) if _ATTEMPT.search(line)]
    since = log[attempts[-1] :] if attempts else log
    symbols = sorted({match[1] for line in since if (match := _REFUSED.search(line))})
    if node.stack.peer_memory:
        yield case("ok", "driver")
    elif symbols and any(not item.path for item in given_addresses(node)):
        return  # it was loaded with the addresses, and looks none up
    elif symbols:
        yield case(
            "symbol-refused",
            "driver",
            symbols=" and ".join(symbols),
            kernel=node.system.kernel or "unknown",
            observed="refused",
        )
    elif not node.probed and node.stack.peer_memory is None and _said_no(view, since):
        dmabuf = _knows_dmabuf(view)
        sdk = node.stack.sdk_version
        kind = "dmabuf" if dmabuf else "not-registered"
        yield case(kind, "driver", observed="not registered", sdk_version=sdk)
    elif _knows_dmabuf(view) and (node.probed or node.stack.peer_memory is False):
        observed = "not registered" if node.stack.peer_memory is False else "not known"
        yield case("dmabuf", "driver", observed=observed, sdk_version=node.stack.sdk_version)
    elif node.stack.peer_memory is False:
        yield case("not-registered", "driver", observed="not registered")
    elif node.probed:
        yield case("unknown", "driver")


def _said_no(view: View, log: Sequence[str]) -> bool:
    """The log says that the driver found no peer memory, and it was given no addresses since."""
    given = any(not item.path for item in given_addresses(view.node))
    return not given and any(_NOT_DETECTED.search(line) for line in log)


def _knows_dmabuf(view: View) -> bool:
    milestone = view.profile.milestones.get("dmabuf") if view.profile else None
    version = SdkVersion.parse(view.node.stack.sdk_version or "")
    return milestone is not None and milestone.reached(version) is True
