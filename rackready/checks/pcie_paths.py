"""Which PCI functions count: compute NICs, accelerators, and the bridges above them."""

from __future__ import annotations

from rackready.check import View
from rackready.facts.model import PciFunction
from rackready.facts.parts.pci_names import ACCELERATOR, BRIDGE, DISPLAY, NETWORK
from rackready.wiring import card

HEADER = 64  # bytes of config space that anybody may read
_PCI_BRIDGE = BRIDGE << 8 | 0x04
_VGA = DISPLAY << 8  # with a monitor, or of a management controller


def compute_functions(view: View) -> list[PciFunction]:
    """Functions of the compute NICs in BDF order: all of a card, its virtual functions included."""
    functions = view.node.pci or {}
    own = {port.bdf for port in view.wiring.compute if port.bdf}
    if not view.node.probed and not own and all(f.class_code is None for f in functions.values()):
        # Nothing but registers was pasted: who reads them of a function means that one.
        return [function for _, function in sorted(functions.items()) if function.express]
    cards = {card(bdf) for bdf in own & functions.keys() if not functions[bdf].physfn}
    return [
        function
        for bdf, function in sorted(functions.items())
        if (
            function.class_code >> 16 == NETWORK
            if function.class_code is not None
            else bdf in own and not view.node.probed
        )
        and (bdf in own or card(function.physfn or bdf) in cards)
    ]


def accelerators(view: View) -> set[str]:
    """
    BDFs of the accelerators.

    In a paste also of those that no profile knows: by their class, without virtual functions.
    """
    found = set(view.wiring.accelerators)
    if not view.node.probed:
        found |= {
            bdf
            for bdf, function in (view.node.pci or {}).items()
            if function.class_code is not None
            and function.class_code >> 16 in (DISPLAY, ACCELERATOR)
            and function.class_code >> 8 != _VGA
            and not function.is_virtual
        }
    return found


def is_bridge(function: PciFunction) -> bool:
    return function.class_code is not None and function.class_code >> 8 == _PCI_BRIDGE


def bridges_of(view: View, function: PciFunction) -> tuple[str, ...]:
    """Bridges above a function, by its place in sysfs or by the buses below each bridge."""
    if function.bridges is not None:
        return function.bridges
    domain, bus, _ = function.bdf.split(":")
    return tuple(
        sorted(
            bdf
            for bdf, other in (view.node.pci or {}).items()
            if other.buses
            and bdf.startswith(f"{domain}:")
            and other.buses[0] <= int(bus, 16) <= other.buses[1]
        )
    )


def is_denied(function: PciFunction) -> bool:
    """True where no more than the header of the config space could be read."""
    return bool(function.responds) and function.config_bytes <= HEADER and not function.express
