"""Take away all of rackready's files: ``pyinfra inventory.py deploys/remove.py -y``."""

from rackready.deploy import remove

remove()
