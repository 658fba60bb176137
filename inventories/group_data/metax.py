"""What this site wants of the nodes of the group "metax". Each key may be left out: no wish.

docs/policy.md describes them. Other keys are the site's own, and are left alone.
"""

# How far a run has to bring a node: "configured" or "ready".
goal = "configured"

# What a run may disturb: "none", "traffic", "service", "reboot", "firmware". Without this key:
# "none" and "traffic" on a node whose accelerators and RDMA ports are idle, else "none".
allow = ["none"]

# Accelerators of each node: fewer are a failure then, and not just remarked on.
# accelerators = 8

# PCI Express, bytes: MaxReadReq of the compute NICs, and the smallest MaxPayload on their paths.
max_read_request = 256
max_payload = 256

# RDMA devices that carry compute traffic. Without this key: those nearest to an accelerator.
# compute_nics = ["mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4"]

# RoCE addresses: version and family, and the index where the site pins one.
gid_version = "v2"
gid_family = "ipv4"
# gid_index = 3
# rdma_subnet = "10.101.0.0/16"

# RoCE quality of service: the whole ToS byte, or the DSCP alone, and the priority that carries it.
# traffic_class = 160
# dscp = 40
# roce_priority = 5
# mtu = 4200

# Known quirks to live with: shown as waived, and no longer in the way until that day.
# waive = [
#     {
#         "check": "pcie.max-payload",
#         "hosts": "c500-[003-004]",
#         "reason": "board revision A has no larger MaxPayload",
#         "until": "2027-06-30",
#     }
# ]
