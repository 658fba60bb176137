"""An inventory of the nodes that missed the goal, with all data of the inventory they come from.

pyinfra takes ``runs/RUN/retry.py`` in place of the inventory of that run. ``runs/RUN/retry`` holds
the same names, one a line, for ``--limit``.
"""

from __future__ import annotations

import runpy
from collections.abc import Collection
from pathlib import Path
from typing import Any

Groups = dict[str, Any]

_FILE = '''\
"""Nodes of {inventory} that missed the goal in run {run}.

pyinfra {path} deploys/{deploy}.py -y
"""

from rackready.retry import groups

globals().update(
    groups(
        {inventory!r},
        {names},
    )
)
'''


def inventory_text(
    inventory: str, names: Collection[str], run: str, deploy: str, path: Path
) -> str:
    """The text of ``retry.py``."""
    lines = "".join(f"            {name!r},\n" for name in names)
    listed = f"[\n{lines}        ]" if names else "[]"
    return _FILE.format(inventory=inventory, run=run, deploy=deploy, path=path, names=listed)


def groups(inventory: str, names: Collection[str]) -> Groups:
    """
    The groups of an inventory file, each with those of its hosts that ``names`` holds.

    Data that lie beside that file (``group_data/``) come with them, since pyinfra looks for them
    beside the inventory it was given. An inventory that is no file, but a list of hosts, has no
    data: the names are all there is.
    """
    path = Path(inventory)
    if not path.is_file():
        return {"retry": list(names)}
    beside = _group_data(path.parent / "group_data")
    found: Groups = {}
    for group, value in runpy.run_path(inventory).items():
        hosts, data = value if isinstance(value, tuple) and len(value) == 2 else (value, {})
        if group.startswith("_") or not isinstance(hosts, list) or not isinstance(data, dict):
            continue
        kept = [host for host in hosts if (host[0] if isinstance(host, tuple) else host) in names]
        found[group] = (kept, {**data, **beside.pop(group, {})})
    everybody = list(dict.fromkeys(names))
    for group in (path.stem, "all"):  # groups that pyinfra makes of the file itself
        if group in beside and group not in found:
            found[group] = (everybody, beside[group])
    return found


def _group_data(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        path.stem: {
            key: value
            for key, value in runpy.run_path(str(path)).items()
            if not key.startswith("__")
        }
        for path in sorted(folder.glob("*.py"))
    }
