"""kubectl's flags are found wherever they stand; everything else is left alone."""

from __future__ import annotations

import pytest

from slate_operator.plugin.flags import split


@pytest.mark.parametrize(
    ("words", "flags", "rest"),
    [
        (["status", "orders", "-n", "shop"], ["-n", "shop"], ["status", "orders"]),
        (["-nshop", "status"], ["-n", "shop"], ["status"]),
        (["--context=dev", "status", "--as", "me"], ["--context=dev", "--as", "me"], ["status"]),
        (["connect", "orders", "--", "-n", "5"], [], ["connect", "orders", "--", "-n", "5"]),
        (["logs", "orders", "-f", "--tail=5"], [], ["logs", "orders", "-f", "--tail=5"]),
        (["status", "--insecure-skip-tls-verify"], ["--insecure-skip-tls-verify"], ["status"]),
        (["status", "-n"], ["-n"], ["status"]),
    ],
)
def test_flags_are_found(words: list[str], flags: list[str], rest: list[str]) -> None:
    found, left = split(words)
    assert list(found.words) == flags
    assert left == rest


@pytest.mark.parametrize("words", [["-n", "shop"], ["--namespace=shop"], ["--namespace", "shop"], ["-nshop"]])
def test_the_namespace_is_known(words: list[str]) -> None:
    assert split(["status", *words])[0].namespace == "shop"
    assert split(["status"])[0].namespace is None
