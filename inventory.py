"""The embedded rack: emulated nodes that a run brings to their goal, on this machine alone.

A real rack looks like inventories/example.py.
"""

rack = [
    ("@emulated/healthy", {"emulated": "c500x8-4nic"}),
    # One function of a dual-port card asks for too much at once: the run puts it right.
    (
        "@emulated/max-read-request",
        {"emulated": "c500x8-2dual", "faults": {"max_read_request": {"mlx5_1": 4096}}},
    ),
    # Only the BIOS can change this one. The site lives with it, and says why.
    (
        "@emulated/bios-max-payload",
        {
            "emulated": "c500x8-4nic",
            "faults": {"max_payload": 128},
            "waive": [
                {
                    "check": "pcie.max-payload",
                    "reason": "this BIOS has no larger MaxPayload; asked for with the next update",
                    "until": "2099-12-31",
                }
            ],
        },
    ),
]
