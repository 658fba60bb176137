"""The nodes that missed the goal, as an inventory and for --limit."""

from __future__ import annotations

from pathlib import Path

from run.conftest import Rack

from rackready.retry import groups

WRONG = {"emulated": "c500x8-2dual", "faults": {"max_read_request": {"mlx5_1": 4096}}, "allow": []}


def test_the_run_that_missed_nodes_is_repeated_for_them(rack: Rack) -> None:
    inventory = rack.inventory(
        [
            ("@emulated/missed", {"emulated": "c500x8-2dual", "gid_index": 5}),
            ("@emulated/reached", {"emulated": "c500x8-2dual"}),
            ("@emulated/held", WRONG),
        ]
    )
    outcome = rack.run(inventory)
    assert outcome.retry == ["@emulated/missed", "@emulated/held"]
    assert outcome.folder is not None
    again = rack.run(outcome.folder / "retry.py")
    assert list(again.nodes) == ["missed", "held"]  # with their data
    assert "stands at index 3, wanted 5" in str(again.nodes["missed"])
    assert again.nodes["held"]["changed"] == []
    options = [word for name in outcome.retry for word in ("--limit", name)]
    limited = rack.run(inventory, "metax_node", *options)
    assert list(limited.nodes) == ["missed", "held"]
    assert again.folder is not None
    once_more = rack.run(again.folder / "retry.py", "metax_node", "--data", "allow=none")
    assert once_more.nodes["held"]["reached_goal"]
    assert once_more.retry == ["@emulated/missed"]


def test_groups_and_their_data_come_along(tmp_path: Path) -> None:
    (tmp_path / "rack.py").write_text(
        "from os.path import join\n"
        "metax = [('a', {'x': 1}), 'b']\n"
        "spare = (['c', 'a'], {'y': 2, 'z': 2})\n"
        "_hidden = ['b']\n"
        "number = 7\n"
    )
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data/spare.py").write_text("z = 3\n")
    (tmp_path / "group_data/rack.py").write_text("goal = 'configured'\n")
    (tmp_path / "group_data/all.py").write_text("mtu = 4200\n")
    assert groups(str(tmp_path / "rack.py"), ["a"]) == {
        "metax": ([("a", {"x": 1})], {}),
        "spare": (["a"], {"y": 2, "z": 3}),
        "rack": (["a"], {"goal": "configured"}),
        "all": (["a"], {"mtu": 4200}),
    }


def test_hosts_that_came_from_no_file() -> None:
    assert groups("a,b,@emulated/c", ["b"]) == {"retry": ["b"]}


def test_policy_in_a_file(rack: Rack) -> None:
    policy = rack.folder / "site.yaml"
    policy.write_text("gid_index: 5\n")
    inventory = rack.inventory(
        [
            ("@emulated/by-file", {"emulated": "c500x8-2dual"}),
            ("@emulated/by-data", {"emulated": "c500x8-2dual", "gid_index": 3}),
        ]
    )
    outcome = rack.run(inventory, "inspect", "--data", f"policy={policy}")
    assert not outcome.nodes["by-file"]["reached_goal"]
    assert outcome.nodes["by-data"]["reached_goal"]
    policy.write_text("gid_index: 3\ngid_idnex: 3\n")
    wrong = rack.run(inventory, "inspect", "--data", f"policy={policy}")
    for node in wrong.nodes.values():
        assert f"{policy}:2: unknown key 'gid_idnex'; did you mean 'gid_index'" in node["error"]
