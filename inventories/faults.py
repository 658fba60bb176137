"""Emulated nodes that a run can't bring to their goal: it says what is wrong with each, and why."""

faulty = [
    # The kernel does not let the accelerator's driver have the peer memory interface.
    ("@emulated/peer-memory", {"emulated": "c500x8-4nic", "faults": {"peer_memory": "refused"}}),
    # A second link-local address has pushed the IPv4 GIDs from 2 and 3 to 4 and 5.
    (
        "@emulated/gid",
        {"emulated": "c500x8-4nic", "faults": {"gid": "extra-link-local"}, "gid_index": 3},
    ),
    (
        "@emulated/traffic-class",
        {"emulated": "c500x8-4nic", "faults": {"traffic_class": "missing"}, "traffic_class": 160},
    ),
    ("@emulated/bios-unwaived", {"emulated": "c500x8-4nic", "faults": {"max_payload": 128}}),
    ("@emulated/unreachable", {"emulated": "c500x8-4nic", "faults": {"unreachable": True}}),
    ("@emulated/garbage", {"emulated": "c500x8-4nic", "faults": {"garbage": True}}),
]
