"""The rules of the house that a machine can hold."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAPPED = ("deploys", "facts", "operations", "profiles", "templates")

# What may import what: a module imports from its own or an earlier group.
ORDER = (
    ("facts.parts", "facts.model", "finding", "fold", "change", "document", "version"),
    ("facts.readers", "facts.commands"),
    ("facts.capture", "facts.mask", "facts.paste"),
    ("profile", "policy", "wishes", "catalog"),
    ("wiring",),
    ("check", "checks"),
    ("judge", "explain", "diagnose"),
    ("plan", "undo", "remedies"),
    ("facts.probe", "operations"),
    ("report",),
    ("run", "node_run", "recorder"),
    ("deploy", "deploys", "connect"),
)
# These stand beside the path from evidence to verdict: commands of their own, and the test bench.
BESIDE = ("__main__", "cli", "session", "collect", "preflight", "roster", "retry", "emulator")
PYINFRA = (
    "facts.probe",
    "operations",
    "run",
    "recorder",
    "connect",
    "session",
    "collect",
    "deploy",
    "node_run",
    "emulator",
    "deploys",
)


def sources() -> dict[str, Path]:
    """Module name without ``rackready.`` -> its file."""
    found = {}
    for path in sorted(ROOT.joinpath("rackready").rglob("*.py")):
        found[path.relative_to(ROOT / "rackready")] = path
    for folder in MAPPED:
        for path in sorted(ROOT.joinpath(folder).rglob("*.py")):
            found[path.relative_to(ROOT)] = path
    return {
        ".".join(name.with_suffix("").parts).removesuffix(".__init__"): path
        for name, path in found.items()
    }


def imports(path: Path) -> Iterator[str]:
    """Full names of what a file imports, also within its functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def group(module: str) -> int | None:
    return next((n for n, modules in enumerate(ORDER) if within(module, modules)), None)


def test_import_order() -> None:
    wrong = []
    for module, path in sources().items():
        own = group(module)
        for name in imports(path):
            other = group(name.removeprefix("rackready."))
            ours = name.startswith("rackready.")
            if ours and own is not None and other is not None and other > own:
                wrong.append(f"{module} imports {name}")
    assert not wrong


def test_every_module_has_its_place() -> None:
    lost = [name for name in sources() if group(name) is None and not within(name, BESIDE)]
    assert lost in ([], ["__init__"])


def test_pyinfra_is_imported_only_where_it_belongs() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in sources().items()
        if not within(module, PYINFRA)
        for name in imports(path)
        if within(name, ("pyinfra", "pyinfra_cli"))
    ]
    assert not wrong


def test_no_module_has_a_second_name() -> None:
    paths = [*sources().values(), *ROOT.joinpath("tests").rglob("*.py")]
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in imports(path)
        if within(name, MAPPED)
    ]
    assert not wrong
    assert not [name for name in sys.modules if within(name, MAPPED)]


def test_mapped_folders_are_no_regular_packages() -> None:
    assert not [path for folder in MAPPED for path in ROOT.joinpath(folder).rglob("__init__.py")]


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in [*sources().values(), *ROOT.joinpath("facts").glob("*.sh")]
        if (lines := len(path.read_text().splitlines())) > 480
    }
    assert not long


def test_command_starts_without_pyinfra() -> None:
    code = "import sys, rackready.cli; sys.exit('pyinfra' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


MAX_READ_REQUEST = "templates/usr/local/lib/rackready/max-read-request"


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff() -> None:
    run(sys.executable, "-m", "ruff", "check", ".")


def test_mypy() -> None:
    """Strict, in a folder of links where every module lies where its name says."""
    folder = ROOT / "build" / "mypy"
    shutil.rmtree(folder / "rackready", ignore_errors=True)
    folder.joinpath("rackready").mkdir(parents=True)
    for path in [*ROOT.joinpath("rackready").iterdir(), *(ROOT / name for name in MAPPED)]:
        folder.joinpath("rackready", path.name).symlink_to(path)
    config = ROOT / "pyproject.toml"
    run(sys.executable, "-m", "mypy", "--config-file", config, "-p", "rackready", cwd=folder)


def shell_scripts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [
        path
        for path in sorted(ROOT / name for name in listed)
        if path.is_file()
        and (path.suffix == ".sh" or re.match(rb"#!.*\b(ba|da|)sh\b", path.read_bytes()[:80]))
    ]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck")
def test_shellcheck() -> None:
    scripts = shell_scripts()
    assert scripts
    run("shellcheck", *scripts)


def test_on_node_scripts_have_one_search_path() -> None:
    """They can't share a file; the folders of vendors are last, and in the probe alone."""
    blocks = []
    for name in ("facts/probe.sh", "operations/converge.sh", MAX_READ_REQUEST):
        text = ROOT.joinpath(name).read_text()
        (block,) = re.findall(r"^( *)path=\n(.*?^\1PATH=\$path)\n", text, re.MULTILINE | re.DOTALL)
        blocks.append(re.sub(rf"^{block[0]}", "", block[1], flags=re.MULTILINE))
        vendors = re.findall(r".*\bopt/.*/bin.*", text)
        assert bool(vendors) is (name == "facts/probe.sh")
        assert all(line.lstrip().startswith("PATH=$PATH:") for line in vendors)
    assert len(set(blocks)) == 1


def test_readme_is_short() -> None:
    assert len(ROOT.joinpath("README.md").read_text().splitlines()) <= 150


def test_every_dependency_is_explained() -> None:
    text = ROOT.joinpath("pyproject.toml").read_text()
    blocks = re.findall(r"^(?:dependencies|test) = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    wanted = re.findall(r'^\s*"([A-Za-z0-9-]+)', "".join(blocks), re.MULTILINE)
    page = ROOT.joinpath("docs", "dependencies.md").read_text()
    explained = re.findall(r"^\| ([A-Za-z0-9-]+) \| ", page, re.MULTILINE)
    assert sorted(explained) == sorted(wanted)
