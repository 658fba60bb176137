"""Take back what a run changed: ``pyinfra inventory.py deploys/undo.py -y --data run=RUN``."""

from rackready.deploy import undo

undo()
