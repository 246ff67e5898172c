"""A cluster's names and addresses follow from its name, do not collide, and fit where they are used."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from tests.cluster.tool import host
from tests.cluster.tool.names import Addresses, BadName, Names
from tests.cluster.tool.report import ClusterError

LONGEST = "a" * 30


@pytest.mark.parametrize("name", ["", "Upper", "under_score", "-dash", "dash-", "7seven", "a" * 31, "../up", "a b"])
def test_a_name_that_cannot_be_used_everywhere_is_refused(name: str) -> None:
    with pytest.raises(BadName, match="cannot be a cluster's name"):
        Names(name)


def test_names_differ_from_cluster_to_cluster_and_fit() -> None:
    one, other = Names("one"), Names("other")
    assert one.home != other.home
    assert one.cgroup != other.cgroup
    assert one.interface != other.interface
    assert len(Names(LONGEST).interface) <= 15, "the kernel allows no longer name for an interface"


def test_two_checkouts_may_each_have_a_cluster_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Names("one")
    interface, cgroup, home = here.interface, here.cgroup, here.home
    monkeypatch.setattr("tests.cluster.tool.names.PROJECT", Path("/elsewhere"))
    assert here.interface != interface
    assert here.cgroup != cgroup
    assert here.home != home


def test_the_parts_of_a_block_do_not_overlap() -> None:
    addresses = Addresses(IPv4Network("10.200.0.0/16"))
    cable = IPv4Network(addresses.inside(addresses.host), strict=False)
    assert addresses.node in cable
    assert not addresses.pods.overlaps(addresses.services)
    assert not addresses.pods.overlaps(cable)
    assert not addresses.services.overlaps(cable)
    assert addresses.dns in addresses.services
    assert addresses.api_service in addresses.services


def test_a_block_that_is_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names("one")
    first, second = names.blocks()[:2]
    monkeypatch.setattr(host, "in_use", lambda _: [])
    assert host.free_block(names) == first
    monkeypatch.setattr(host, "in_use", lambda _: [next(first.subnets(new_prefix=24))])
    assert host.free_block(names) == second


def test_no_block_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "in_use", lambda _: [IPv4Network("10.0.0.0/8")])
    with pytest.raises(ClusterError, match="take another cluster down"):
        host.free_block(Names("one"))
