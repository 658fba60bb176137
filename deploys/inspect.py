"""Look at nodes and change nothing: ``pyinfra inventory.py deploys/inspect.py -y``."""

from rackready.deploy import inspect

inspect()
