"""Bring MetaX nodes to their goal: ``pyinfra inventory.py deploys/metax_node.py -y``."""

from rackready.deploy import onboard

onboard()
