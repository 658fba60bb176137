"""What should be: the site's policy over the profile of the product, each wish with its origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rackready.policy import Policy
from rackready.profile import Profile

T = TypeVar("T")


@dataclass(frozen=True)
class Wish(Generic[T]):
    """A wanted value. ``site`` is True when the site's policy names it, else a profile does."""

    value: T
    site: bool
    origin: str  # "site policy", or the source that the profile gives
    contested: bool = False  # another source of the profile says otherwise: no ground to fail


@dataclass(frozen=True)
class Wishes:
    """All wishes for one node; None = no wish, so no verdict on that point."""

    gid_version: Wish[str]
    gid_family: Wish[str]
    accelerators: Wish[int] | None = None
    max_read_request: Wish[int] | None = None
    max_payload: Wish[int] | None = None
    gid_index: Wish[int] | None = None
    traffic_class: Wish[int] | None = None
    dscp: Wish[int] | None = None
    mtu: Wish[int] | None = None
    compute_nics: Wish[tuple[str, ...]] | None = None
    rdma_subnet: Wish[str] | None = None
    roce_priority: Wish[int] | None = None


def wishes_of(policy: Policy, profile: Profile | None) -> Wishes:
    """Each wish of the site, and where it has none, that of the profile with its source."""

    def wish(key: str) -> Wish[Any] | None:
        if policy.is_wish(key):
            return Wish(getattr(policy, key), True, "site policy")
        default = profile.default(key) if profile else None
        if profile is not None and default is not None:
            origin = f"profile {profile.name}: {default.source}"
            return Wish(default.value, False, origin, bool(default.conflicts))
        return None

    return Wishes(
        gid_version=wish("gid_version") or Wish(policy.gid_version, False, "default"),
        gid_family=wish("gid_family") or Wish(policy.gid_family, False, "default"),
        accelerators=wish("accelerators"),
        max_read_request=wish("max_read_request"),
        max_payload=wish("max_payload"),
        gid_index=wish("gid_index"),
        # A site that names a DSCP leaves the two ECN bits open: the profile's byte is no wish then.
        traffic_class=None
        if policy.dscp is not None and policy.traffic_class is None
        else wish("traffic_class"),
        dscp=wish("dscp"),
        mtu=wish("mtu"),
        compute_nics=wish("compute_nics"),
        rdma_subnet=wish("rdma_subnet"),
        roce_priority=wish("roce_priority"),
    )
