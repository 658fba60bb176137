"""What puts findings right: for each check that has one, the stage that a plan is made of."""

from __future__ import annotations

from rackready.plan import Remedy
from rackready.remedies import pcie

REMEDIES: dict[str, Remedy] = {pcie.CHECK: pcie.keep_max_read_request}
