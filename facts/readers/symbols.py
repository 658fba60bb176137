"""``/proc/kallsyms``: which symbols the kernel and its modules have, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.modules import KernelSymbol, SymbolSearch
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import search_of

# ffffffffc0a51074 T ib_register_peer_memory_client<TAB>[ib_uverbs]
_SYMBOL = re.compile(
    r"(?:/proc/kallsyms:)?(?:\d{1,7}:)?([0-9a-f]{8,16}) ([a-zA-Z?]) ([\w.$]{1,512})"
    r"(?:\s+\[([\w-]{1,64})\])?$"
)
_MOST = 4096  # symbols that are kept: the whole table has some 200,000


def read_symbols(output: Output) -> Iterator[object]:
    """Lines of kallsyms; of a whole table only what has to do with RDMA is kept."""
    if output.status is not None and output.status > 1:
        return  # grep could not look
    kept = unknown = 0
    everything = not output.filters and output.program == "cat"
    for line in output.lines():
        match = _SYMBOL.match(line)
        if match is None:
            unknown += line not in ("#", "$")
            continue
        if everything and "peer_memory" not in line and "dmabuf" not in line:
            continue
        if kept < _MOST:
            kept += 1
            yield KernelSymbol(match[3], match[2], match[4] or "", int(match[1], 16))
    # Where words of others stand among the lines, or one is cut, not all need be shown.
    if not unknown:
        yield SymbolSearch(search_of(output))


READERS = (
    reader(
        "cat /proc/kallsyms",
        read_symbols,
        command=r"(?:cat|[efz]?grep|awk|less|head|tail)\s.*/proc/kallsyms",
        shape=r"^[0-9a-f]{16} [a-zA-Z] [\w.$]+(?:[\t ]+\[\w+\])?[ \t]*$",
    ),
)
