"""A real rack: copy this file and group_data/, and put your nodes in.

``rackready inventory`` writes such a file from a CSV table, a node set or Slurm's list of hosts.
"""

metax = [
    # A name that SSH knows is enough ...
    "c500-001",
    # ... or say how to reach the node. These keys are pyinfra's.
    (
        "c500-002",
        {
            "ssh_hostname": "192.0.2.12",
            "ssh_user": "admin",
            "ssh_port": 22,
            "_sudo": True,
        },
    ),
    # What holds for one node only goes beside its name; see group_data/metax.py for the keys.
    (
        "c500-003",
        {
            "waive": [
                {
                    "check": "pcie.max-payload",
                    "reason": "board revision A has no larger MaxPayload",
                    "until": "2027-06-30",
                }
            ],
        },
    ),
]
