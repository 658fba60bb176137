from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rackready.catalog import ProfileError, load_profiles, read_profiles, rows
from rackready.document import Document, DocumentError
from rackready.facts.model import Accelerator, AcceleratorStack, Node, PciFunction, System
from rackready.judge import probe_wishes
from rackready.profile import PeerMemory, Profile, detect
from rackready.version import SdkVersion

HERE = Path(__file__).parent
FILES = sorted((HERE.parents[1] / "profiles").glob("*.yaml"))
BAD = yaml.safe_load((HERE / "bad.yaml").read_text())
DETECTION = yaml.safe_load((HERE / "detection.yaml").read_text())
OURS = {profile.name: profile for profile in load_profiles()}
TOYS = {profile.name: profile for profile in load_profiles(HERE / "toy") if profile.vendor == "Toy"}


def test_the_products() -> None:
    assert list(OURS) == [
        "Alibaba PPU",
        "MetaX",
        *(f"MetaX {name}" for name in ("C500", "C500X", "C550", "C588", "C600", "C600U", "N300")),
        "NVIDIA",
        "NVIDIA H200",
    ]
    generic = [name for name, profile in OURS.items() if profile.generic]
    assert generic == ["Alibaba PPU", "MetaX", "NVIDIA"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_number_has_a_source(path: Path) -> None:
    def bare(value: Any, place: str) -> Iterator[str]:
        if isinstance(value, dict):
            if "source" in value:
                return
            for key, inner in value.items():
                yield from bare(inner, f"{place}.{key}")
        elif isinstance(value, list):
            for inner in value:
                yield from bare(inner, place)
        elif isinstance(value, int | float):
            yield place

    assert not list(bare(yaml.safe_load(path.read_text()), path.stem))


def test_every_source_is_used() -> None:
    texts = [path.read_text() for path in FILES]
    for path in FILES:
        for name in yaml.safe_load(path.read_text()).get("sources", ()):
            used = re.compile(rf'source: "?{re.escape(name)}(?=[,"}}\n])')
            assert any(used.search(text) for text in texts), name


@pytest.mark.parametrize("name", OURS)
def test_sources_are_written_out(name: str) -> None:
    for claim in OURS[name].sourced():
        assert claim.source.startswith(tuple(OURS[name].sources.values()))


@pytest.mark.parametrize("name", OURS)
def test_an_order_of_accelerators_holds_each_of_them_once(name: str) -> None:
    profile = OURS[name]
    for group in profile.environment.values():
        for variables in group.values():
            if order := variables.value.get("MACA_VISIBLE_DEVICES"):
                numbers = sorted(int(number) for number in order.split(","))
                assert numbers == list(range(len(numbers)))


def test_a_product_replaces_a_value_as_a_whole() -> None:
    one, generic = TOYS["Toy One"].pcie.max_read_request, TOYS["Toy"].pcie.max_read_request
    assert one is not None
    assert (one.value, one.source, one.conflicts) == (1024, "a laboratory", ())
    assert generic is not None
    assert generic.source == "Toy manual, chapter 2"
    assert [conflict.value for conflict in generic.conflicts] == [256]


def test_both_families_reach_the_products() -> None:
    def scale_up(name: str) -> float:
        return OURS[name].bandwidth["p2p.sh"]["scale-up"].value

    assert scale_up("MetaX C500") == scale_up("MetaX C588") == 50
    assert scale_up("MetaX C600") == scale_up("MetaX C600U") == 25
    assert "scale-up" not in OURS["MetaX N300"].bandwidth["p2p.sh"]
    assert [name for name, profile in OURS.items() if "mxrdma" in profile.rdma] == [
        "MetaX C600",
        "MetaX N300",
    ]


def test_the_default_of_a_policy_key() -> None:
    profile = OURS["MetaX C500"]
    wanted = {
        "accelerators": 8,
        "max_read_request": 256,
        "max_payload": 256,
        "gid_index": 3,
        "traffic_class": 160,
    }
    for key, value in wanted.items():
        found = profile.default(key)
        assert found is not None
        assert found.value == value
    assert profile.default("mtu") is None
    assert profile.default("name") is None
    assert OURS["MetaX C600"].default("accelerators") is None


def test_a_kernel_that_is_listed_and_refuses_peer_memory() -> None:
    profile = OURS["MetaX C500"]
    (listed,) = profile.kernel("5.10.0-0.deb10.28-amd64")
    assert listed.support == "listed"
    assert listed.conflicts
    assert profile.peer_memory is not None
    assert profile.peer_memory.refuses("5.10.0-0.deb10.28-amd64")


@pytest.mark.parametrize(
    ("release", "refused"),
    [
        ("4.19.0-27-amd64", True),
        ("4.19.0-0.deb9.27-amd64", True),
        ("4.19.0-1.el7.elrepo.x86_64", False),
        ("4.19.0-27-arm64", False),
        ("5.10.0-0.deb10.24-amd64", False),
        ("5.10.0-0.deb10.280-amd64", False),
        ("5.15.0-72-generic", False),
        ("", False),
    ],
)
def test_kernels_that_refuse_peer_memory(release: str, refused: bool) -> None:
    peer_memory = OURS["MetaX"].peer_memory
    assert peer_memory is not None
    assert peer_memory.refuses(release) is refused


def test_a_kernel_that_works_is_an_exception_from_those_that_refuse() -> None:
    known = PeerMemory.model_validate(
        {
            "refused": {"value": ("4.19.0-*-amd64",), "source": "a", "certainty": "A"},
            "works": {"value": ("4.19.0-1?-amd64",), "source": "a", "certainty": "C"},
        },
        context={"sources": {"a": "b"}},
    )
    assert known.refuses("4.19.0-27-amd64")
    assert not known.refuses("4.19.0-17-amd64")


@pytest.mark.parametrize(
    ("release", "machine", "rows"),
    [
        ("6.6.104-41.oc9", None, ["opencloudos-9"]),
        ("6.6.104-41.oc9.x86_64", None, ["opencloudos-9"]),
        ("6.6.104-41.oc9.x86_64", "x86_64", ["opencloudos-9"]),
        ("6.6.104-41.oc9.aarch64", None, []),
        ("6.6.104-41.oc9.aarch64", "aarch64", []),
        ("4.18.0-240.el8.x86_64", "x86_64", ["centos-8"]),
        ("5.15.0-72-generic", None, ["ubuntu-22.04"]),
        ("5.15.0-72-generic", "x86_64", ["ubuntu-22.04"]),
        ("5.15.0-72-generic", "aarch64", []),
        ("5.15.0-7-generic", "x86_64", []),
        ("6.1.0-1-amd64", "x86_64", []),
        ("", "", []),
    ],
)
def test_kernels(release: str, machine: str | None, rows: list[str]) -> None:
    profile = OURS["MetaX C500"]
    assert profile.kernel(release, machine) == tuple(profile.kernels[row] for row in rows)


@pytest.mark.parametrize("name", [name for name in OURS if name.startswith("MetaX")])
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.8.2", True),
        ("3.8.1.6", False),
        ("20260806-1300", True),
        ("20260806-1299", False),
        ("unknown", None),
    ],
)
def test_dmabuf_of_every_product(name: str, version: str, expected: bool | None) -> None:
    assert OURS[name].milestones["dmabuf"].reached(SdkVersion.parse(version)) is expected


def test_the_ofed_versions_of_a_purpose() -> None:
    versions = OURS["MetaX C550"].ofed["deepep"]
    assert (versions.first, versions.last) == ("23.10", "25.10")


def test_what_a_site_demands_is_a_figure_of_its_own() -> None:
    figures = OURS["MetaX C500"].bandwidth
    floors = {
        (tool, name): figure.value
        for tool, names in figures.items()
        for name, figure in names.items()
        if name.endswith("-floor")
    }
    assert floors == {
        ("all_reduce_perf", "algorithm-floor"): 36.0,
        ("all_gather_perf", "algorithm-floor"): 73.0,
        ("reduce_scatter_perf", "algorithm-floor"): 72.0,
        ("alltoall_perf", "algorithm-floor"): 18.71,
        ("mxvs p2p", "scale-up-floor"): 60,
        ("mxvs p2p", "pcie-floor"): 40,
        ("mxvs pcie", "cpu-floor"): 55,
    }
    for tool, name in floors:
        assert (figures[tool][name].kind, figures[tool][name].certainty) == ("floor", "B")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.9.0", {"peers": True, "peers-before": False}),
        ("3.8.9", {"peers": False, "peers-before": True}),
        ("20260817-271", {"peers": True, "peers-before": False}),
        ("20260817-270", {"peers": False, "peers-before": True}),
        (None, {"peers": None, "peers-before": None}),
    ],
)
def test_variables_by_sdk_version(version: str | None, expected: dict[str, bool | None]) -> None:
    profile = OURS["MetaX C500"]
    group = profile.environment["deepep-internode"]
    parsed = SdkVersion.parse(version)
    assert {name: profile.applies(item, parsed) for name, item in group.items()} == expected


def test_a_milestone_of_one_line_tells_nothing_of_the_other() -> None:
    profile = OURS["MetaX C600"]
    provider = profile.environment["deepep"]["provider"]
    assert profile.applies(provider, SdkVersion.parse("3.9.0")) is True
    assert profile.applies(provider, SdkVersion.parse("20270101-1")) is None


def test_missing_facts() -> None:
    profile = OURS["MetaX C500"]
    assert profile.missing_facts(Node("n")) == profile.requires
    node = Node("n", system=System(kernel="5.15.0"), pci={}, rdma=(), net=(), modules={})
    assert profile.missing_facts(node) == ("stack.accelerators", "stack.driver_version")


def test_what_the_probe_is_asked_for() -> None:
    wishes = probe_wishes([*OURS.values(), *TOYS.values()])
    assert len(set(wishes.tools)) == len(wishes.tools)
    assert {"mx-smi", "toy-smi"} <= set(wishes.tools)
    assert {"/dev/mxcd", "/dev/dri", "/dev/nvidiactl", "/dev/toy0"} <= set(wishes.nodes)
    assert wishes.vendors == (0x10DE, 0x1AF4, 0x1DED, 0x9999)
    assert wishes.log.endswith("|toy: ")
    assert probe_wishes([]).log == ""


def node(models: list[str] | None, pci: list[str] | None) -> Node:
    accelerators = None
    if models is not None:
        accelerators = tuple(Accelerator(number, model) for number, model in enumerate(models))
    functions = None
    if pci is not None:
        functions = {}
        for number, text in enumerate(pci):
            ids, class_code = text.split()
            vendor, device = (int(part, 16) for part in ids.split(":"))
            bdf = f"0000:{number:02x}:00.0"
            functions[bdf] = PciFunction(bdf, vendor, device, int(class_code, 16))
    return Node("n", pci=functions, stack=AcceleratorStack(accelerators=accelerators))


@pytest.mark.parametrize("name", DETECTION)
def test_detection(name: str) -> None:
    case = DETECTION[name]
    found = detect(node(case.get("models"), case.get("pci")), OURS.values())
    assert {
        "profile": found.profile and found.profile.name,
        "by": found.by,
        "gaps": [gap.reason for gap in found.gaps],
    } == {"gaps": [], **case["is"]}


def test_a_vendor_is_added_with_files_alone() -> None:
    both = load_profiles(HERE / "toy")
    assert len(both) == len(OURS) + 2
    assert detect(node(["ONE-A"], None), both).profile == TOYS["Toy One"]
    assert detect(node(None, ["1af4:0001 120000"]), both).profile == TOYS["Toy One"]
    assert detect(node(None, ["1af4:0002 120000"]), both).profile == TOYS["Toy"]
    assert detect(node(None, ["9999:4001 038000"]), both).profile == OURS["MetaX C500"]


def test_a_file_of_the_site_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "metax-c500.yaml").write_text("name: Our C500\nextends: metax-c500-series\n")
    names = [profile.name for profile in load_profiles(tmp_path)]
    assert "Our C500" in names
    assert "MetaX C500" not in names


def test_rows() -> None:
    one = next(row for row in rows(TOYS.values()) if row.name == "Toy One")
    assert one.known_by == "ONE*, 1af4:0001"
    assert one.contested == 0
    generic = next(row for row in rows(TOYS.values()) if row.name == "Toy")
    assert generic.known_by == "1af4:*"
    assert (generic.values, generic.contested) == (one.values - 2, 1)


@pytest.mark.parametrize("name", BAD)
def test_bad_file(name: str, tmp_path: Path) -> None:
    shutil.copytree(HERE / "toy", tmp_path, dirs_exist_ok=True)
    (tmp_path / "toy-one.yaml").write_text(BAD[name]["text"])
    with pytest.raises(ProfileError) as caught:
        load_profiles(tmp_path)
    problems, wanted = caught.value.problems, BAD[name]["problems"]
    assert len(problems) == len(wanted), problems
    for words in wanted:
        assert any(words in problem for problem in problems), problems


def test_a_problem_of_a_base_is_told_once_and_with_its_own_line(tmp_path: Path) -> None:
    shutil.copytree(HERE / "toy", tmp_path, dirs_exist_ok=True)
    base = tmp_path / "toy.yaml"
    lines = base.read_text().splitlines()
    place = lines.index("pcie:")
    base.write_text("\n".join([*lines[: place + 1], "  speed: 3", *lines[place + 1 :]]))
    with pytest.raises(ProfileError) as caught:
        load_profiles(tmp_path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{base}:{place + 2}: unknown key 'speed'")


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file"):
        load_profiles(tmp_path / "absent")
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    with pytest.raises(ProfileError, match="not UTF-8"):
        load_profiles(tmp_path)


keys = st.sampled_from(
    [*Profile.model_fields, "extends", "value", "source", "certainty", "conflicts", "since"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | keys,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.dictionaries(keys, values)))
def test_any_documents_are_profiles_or_a_profile_error(data: dict[str, dict[str, Any]]) -> None:
    documents = {stem: Document(content, stem) for stem, content in data.items()}
    try:
        read_profiles(documents)
    except ProfileError as error:
        assert error.problems


@given(st.text())
def test_any_text_is_a_document_or_an_error(text: str) -> None:
    try:
        Document.from_text("name: " + text, "a.yaml")
        Document.from_text(text, "a.yaml")
    except DocumentError as error:
        assert all(problem.startswith("a.yaml:") for problem in error.problems)
