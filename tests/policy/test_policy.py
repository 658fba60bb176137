from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rackready.change import Risk
from rackready.policy import Policy, PolicyError

HERE = Path(__file__).parent
GOOD = yaml.safe_load((HERE / "good.yaml").read_text())
BAD = yaml.safe_load((HERE / "bad.yaml").read_text())
WAIVE = {"check": "pcie.max-payload", "reason": "BIOS", "until": "2030-06-30"}


def from_text(folder: Path, text: str) -> Policy:
    path = folder / "policy.yaml"
    path.write_text(text)
    return Policy.from_file(path)


def waiving(**more: Any) -> Policy:
    return Policy.from_data({"waive": [WAIVE | more]}, "test")


@pytest.mark.parametrize("name", GOOD)
def test_good_file(name: str, tmp_path: Path) -> None:
    policy = from_text(tmp_path, GOOD[name]["file"])
    plain = policy.model_dump(mode="json")
    assert {key: plain[key] for key in GOOD[name]["is"]} == GOOD[name]["is"]
    said = set(Policy.model_fields) - {"allow", "goal", "waive"}
    assert sorted(key for key in said if policy.is_wish(key)) == GOOD[name]["wishes"]


@pytest.mark.parametrize("name", BAD)
def test_bad_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        from_text(tmp_path, BAD[name]["file"])
    problems, wanted = caught.value.problems, BAD[name]["problems"]
    assert len(problems) == len(wanted), problems
    for problem, words in zip(problems, wanted, strict=True):
        assert words in problem


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="No such file"):
        Policy.from_file(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"goal: \xe9\n")
    with pytest.raises(PolicyError, match="not UTF-8"):
        Policy.from_file(tmp_path / "latin.yaml")


def test_data_of_a_host_holds_keys_of_the_site() -> None:
    data = {
        "max_read_request": 256,
        "ntp": "pool",  # two letters from mtu
        "rack": "r1",
        "users": ["a"],
        "_sudo": True,
        "ssh_user": "root",
        "ssh_port": 22,
        7: 8,
        "compute_nics": ("mlx5_0",),
    }
    policy = Policy.from_data(data, "group_data/metax.py")
    assert policy.max_read_request == 256
    assert policy.compute_nics == ("mlx5_0",)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("max_read_requst", "max_read_request"),
        ("max-read-request", "max_read_request"),
        ("MTU", "mtu"),
        ("mut", "mtu"),
        ("trafic_clas", "traffic_class"),
        ("gid_idx", "gid_index"),
        ("gid", ""),
        ("compute_nic", "compute_nics"),
        ("waiver", "waive"),
        ("dscq", "dscp"),
        ("dcsq", ""),
        ("goals", "goal"),
        ("mtx", "mtu"),
        ("ntp", ""),
    ],
)
def test_near_miss_in_the_data_of_a_host(key: str, meant: str) -> None:
    if not meant:
        Policy.from_data({key: 1}, "c1")
        return
    with pytest.raises(PolicyError) as caught:
        Policy.from_data({key: 1}, "c1")
    assert caught.value.problems == (f"c1: unknown key {key!r}; did you mean {meant!r}?",)


def test_lists_as_a_command_line_gives_them() -> None:
    policy = Policy.from_data({"allow": "none, traffic", "compute_nics": "mlx5_0"}, "c1")
    assert policy.allow == (Risk.NONE, Risk.TRAFFIC)
    assert policy.compute_nics == ("mlx5_0",)


def test_hexadecimal_numbers_as_a_command_line_gives_them() -> None:
    data = {"traffic_class": "0xa0", "gid_index": "0x3", "mtu": "0X1068", "rack": "0x1"}
    policy = Policy.from_data(data, "c1")
    assert (policy.traffic_class, policy.gid_index, policy.mtu) == (160, 3, 4200)
    for wrong in ("0x100", "a0", "0x", "0xa0 ", "-0x1", "160", "0xfffffffff"):
        with pytest.raises(PolicyError, match="traffic_class"):
            Policy.from_data({"traffic_class": wrong}, "c1")


def test_all_problems_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.from_data({"mtus": 1, "dscp": 64, "gid_index": "x"}, "c1")
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), b"x", float("nan"), pytest.param(10**5000, id="huge")],
)
def test_data_that_is_no_plain_data(value: object) -> None:
    with pytest.raises(PolicyError):
        Policy.from_data({"mtu": value}, "c1")


def test_data_that_holds_itself() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(PolicyError):
        Policy.from_data({"waive": loop}, "c1")


@pytest.mark.parametrize(
    ("hosts", "covered", "others"),
    [
        ("*", ["c500-001", "@emulated/x"], []),
        ("c500-[001-003,007]", ["c500-001", "c500-007"], ["c500-1", "c500-004"]),
        ("c500-*,login?", ["c500-9", "login1"], ["c600-1", "login10"]),
        ("@emulated/bios", ["@emulated/bios"], ["bios"]),
        ("a,b", ["a", "b"], ["a,b", "c[1"]),
    ],
)
def test_hosts_of_a_waiver(hosts: str, covered: list[str], others: list[str]) -> None:
    policy = waiving(hosts=hosts)
    for host in covered:
        assert policy.waiver_for("pcie.max-payload", host, date(2026, 1, 1))
        assert not policy.waiver_for("pcie.other", host, date(2026, 1, 1))
    for host in others:
        assert not policy.waiver_for("pcie.max-payload", host, date(2026, 1, 1))


def test_a_waiver_holds_through_its_last_day() -> None:
    policy = waiving()
    last, next_day = date(2030, 6, 30), date(2030, 7, 1)
    assert policy.waiver_for("pcie.max-payload", "c1", last)
    assert not policy.expired_waiver_for("pcie.max-payload", "c1", last)
    assert not policy.waiver_for("pcie.max-payload", "c1", next_day)
    assert policy.expired_waiver_for("pcie.max-payload", "c1", next_day)
    assert not policy.expired_waiver_for("pcie.max-payload", "c1", date(2026, 1, 1))


def test_a_waiver_in_force_stands_before_an_expired_one() -> None:
    later = WAIVE | {"until": "2031-01-01", "reason": "still"}
    policy = Policy.from_data({"waive": [WAIVE, later]}, "test")
    found = policy.waiver_for("pcie.max-payload", "c1", date(2030, 12, 1))
    assert found is not None
    assert found.reason == "still"
    assert not policy.expired_waiver_for("pcie.max-payload", "c1", date(2030, 12, 1))


def test_a_waiver_of_an_unknown_check_names_the_nearest() -> None:
    policy = waiving(check="pcie.max-paylod")
    with pytest.raises(PolicyError, match=r"did you mean 'pcie\.max-payload'"):
        policy.require_checks(["pcie.max-payload", "pcie.max-read-request"])
    waiving().require_checks(["pcie.max-payload"])


def test_consent() -> None:
    asked = [(risk, idle) for risk in Risk for idle in (False, True)]
    silent = {(risk, idle) for risk, idle in asked if Policy().allows(risk, idle)}
    assert silent == {(Risk.NONE, False), (Risk.NONE, True), (Risk.TRAFFIC, True)}
    policy = Policy.from_data({"allow": ["none", "service"]}, "c1")
    assert {risk for risk, idle in asked if policy.allows(risk, idle)} == {Risk.NONE, Risk.SERVICE}
    assert not any(Policy.from_data({"allow": []}, "c1").allows(risk, True) for risk in Risk)


pieces = (
    "mtu waive allow : - [ ] { } &a *a !!int ? 1 = << ' \" \\ | > % # 2026-13-01 0x 1:30 .nan ,"
)
yaml_text = st.text() | st.lists(
    st.sampled_from([" ", "\n", "- ", ": ", *pieces.split()]), max_size=20
).map("".join)


@given(yaml_text)
@example("a: !!timestamp x")
@example("? {a: b}\n: c")
@example('mtu: "\\ud800"')
@example("[" * 5000)
@example("mtu: " + "9" * 5000)
def test_any_file_is_a_policy_or_a_policy_error(tmp_path_factory: Any, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        Policy.from_file(path)
    except PolicyError as error:
        assert error.problems
        assert all(problem.startswith(str(path)) for problem in error.problems)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(Policy.model_fields)) | st.text(), plain))
def test_any_data_is_a_policy_or_a_policy_error(data: dict[str, Any]) -> None:
    try:
        Policy.from_data(data, "c1")
    except PolicyError as error:
        assert error.problems


@given(st.text(alphabet="c[]0123456789-,*?@^!&/%{}:. ", min_size=1, max_size=12), st.text())
def test_any_hosts_of_a_waiver(hosts: str, host: str) -> None:
    try:
        policy = waiving(hosts=hosts)
    except PolicyError:
        return
    policy.waiver_for("pcie.max-payload", host, date(2026, 1, 1))
