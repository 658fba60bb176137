"""rackready makes racks of AI accelerator nodes ready for work, and proves it.

In a checkout the packages facts, operations, ... lie beside this folder, in a wheel inside it:
either way they are imported as ``rackready.facts``, never under a second name.
"""

from pathlib import Path

__version__ = "0.1.0"

if (_checkout := Path(__file__).parents[1]).joinpath("pyproject.toml").exists():
    __path__.append(str(_checkout))
