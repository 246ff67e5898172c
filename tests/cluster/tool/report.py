"""What the tool says to whoever runs it: steps as they go, and failures with their cause instead of a stack trace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


class ClusterError(RuntimeError):
    """A step failed. The message says which, why, and what to do; it is all that the user sees."""


def say(text: str) -> None:
    # Not sys.stderr: a fixture may bring a cluster up while pytest captures, and whoever waits should see why.
    print(f"[cluster] {text}", file=sys.__stderr__, flush=True)


def tail(log: Path, lines: int = 25) -> str:
    """The end of a log, ready to stand in a message."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return f"  (no log at {log})"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or f"  ({log} is empty)"


def run(
    step: str,
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: float = 120.0,
) -> str:
    """The output of a command that is one step of something larger; ``step`` names it if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env=env, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"could not {step}: there is no program {words[0]}; install it") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"could not {step}: `{' '.join(words[:6])} …` did not end in {timeout:g} s") from error
    if done.returncode != 0:
        end = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).splitlines()[-25:])
        raise ClusterError(f"could not {step}: `{' '.join(words[:6])} …` ended with code {done.returncode}\n{end}")
    return done.stdout
