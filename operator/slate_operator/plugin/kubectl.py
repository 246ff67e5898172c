"""The cluster, through kubectl itself.

Whoever runs this plugin has kubectl, and kubectl knows how to get in: exec plugins, proxies, impersonation, whatever is in
the kubeconfig. So it is asked, rather than a second client that would know less.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slate_operator.names import GROUP
from slate_operator.plugin.flags import Flags

Body = dict[str, Any]


class Failed(Exception):
    """It did not work; the message says what to do. ``code`` is what the command ends with."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the flags that the user gave."""

    flags: Flags = field(default_factory=Flags)
    program: str = "kubectl"

    def words(self, *words: str) -> list[str]:
        """The whole command line."""
        program = shutil.which(self.program)
        if program is None:
            raise Failed("kubectl is not on the search path (PATH); install it, or add its folder", 127)
        return [program, *words, *self.flags.words]

    def run(self, *words: str, stdin: str | None = None) -> str:
        """What one call prints."""
        ended = subprocess.run(self.words(*words), input=stdin, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise Failed(explained(ended.stderr))
        return ended.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A call that goes on until whoever started it ends it."""
        return subprocess.Popen(
            self.words(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def get(self, *words: str) -> Body:
        found: Body = json.loads(self.run("get", *words, "-o", "json"))
        return found

    def find(self, kind: str, name: str) -> Body | None:
        """The object, or None if there is none."""
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def items(self, *words: str) -> list[Body]:
        return list(self.get(*words)["items"])

    def create(self, body: Body) -> Body:
        made: Body = json.loads(self.run("create", "-f", "-", "-o", "json", stdin=json.dumps(body)))
        return made

    def patch(self, kind: str, name: str, patch: Body) -> None:
        self.run("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    @property
    def namespace(self) -> str:
        """The one that is meant: the flag's, else the context's, else ``default``."""
        if self.flags.namespace:
            return self.flags.namespace
        shown = self.run("config", "view", "--minify", "-o", "jsonpath={..namespace}")
        return shown.strip() or "default"


def explained(stderr: str) -> str:
    """What kubectl complained about, with what to do where we know more than kubectl does."""
    text = "\n".join(line.removeprefix("error: ") for line in stderr.strip().splitlines() if not line.startswith("E"))
    text = text or stderr.strip()
    if "the server doesn't have a resource type" in text or "could not find the requested resource" in text:
        return f"{text}\nThis cluster does not know the kinds of {GROUP}: install Slatekeeper's chart, or its CRDs"
    return text


def kind(plural: str) -> str:
    """A kind with its group, for others have clones and checkpoints too."""
    return f"{plural}.{GROUP}"


def together(kinds: Sequence[str]) -> str:
    return ",".join(kind(each) for each in kinds)
