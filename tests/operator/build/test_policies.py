"""Who may reach the pods."""

from __future__ import annotations

from typing import Any

import pytest

from slate_operator.build.policies import network_policy
from slate_operator.names import Port, Role
from tests.operator.build.samples import SMALL, database_of


def clients(role: str, **spec: Any) -> Any:
    """Those of the Redis protocol; None for everybody."""
    policy = network_policy(database_of(SMALL | spec), role, "operators")
    (rule,) = [each for each in policy["spec"]["ingress"] if each["ports"][0].get("port") == Port.RESP]
    return rule.get("from")


def test_by_default_the_pods_of_the_namespace_are_let_in() -> None:
    for role in (Role.WRITER, Role.READER):
        assert clients(role) == [{"podSelector": {}}]


@pytest.mark.parametrize("type", ["NodePort", "LoadBalancer"])
def test_a_service_for_those_outside_lets_them_in(type: str) -> None:
    """They come from addresses that no selector names."""
    writer = {"service": {"type": type}}
    assert clients(Role.WRITER, writer=writer) is None
    assert clients(Role.READER, writer=writer) == [{"podSelector": {}}], "whose Service is of the cluster"
    named = [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert clients(Role.WRITER, writer=writer, networkPolicies={"allowFrom": named}) == named
