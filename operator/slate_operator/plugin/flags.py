"""The flags of kubectl that say which cluster is meant and who asks. They may stand anywhere, as they may with kubectl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_WITH_VALUE = frozenset(
    {
        *("--namespace", "-n", "--context", "--kubeconfig", "--cluster", "--user", "--server", "-s", "--token"),
        *("--as", "--as-group", "--as-uid", "--certificate-authority", "--client-certificate", "--client-key"),
        *("--tls-server-name", "--request-timeout", "--cache-dir"),
    }
)
_ALONE = frozenset({"--insecure-skip-tls-verify", "--disable-compression"})


@dataclass(frozen=True, slots=True)
class Flags:
    """What is handed on to kubectl as it is."""

    words: tuple[str, ...] = ()

    @property
    def namespace(self) -> str | None:
        """The one that was asked for, if one was."""
        for before, word in zip(("", *self.words), self.words, strict=False):
            if before in ("-n", "--namespace"):
                return word
            name, equals, value = word.partition("=")
            if equals and name in ("-n", "--namespace"):
                return value
        return None


def split(words: Sequence[str]) -> tuple[Flags, list[str]]:
    """kubectl's own flags, and everything else. What stands behind ``--`` is nobody's business but the verb's."""
    taken: list[str] = []
    rest: list[str] = []
    remaining = iter(words)
    for word in remaining:
        name, equals, _ = word.partition("=")
        if word == "--":
            rest += [word, *remaining]
        elif name in _ALONE or (equals and name in _WITH_VALUE):
            taken.append(word)
        elif word in _WITH_VALUE:
            taken += [word, *(value for value in [next(remaining, None)] if value is not None)]
        elif word.startswith("-n") and not word.startswith("--"):  # -nshop
            taken += ["-n", word[2:]]
        else:
            rest.append(word)
    return Flags(tuple(taken)), rest
