"""The files that rows come from and go to, so that Ctrl-C neither hangs nor leaves half a file."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO

from slate_engine.errors import InvalidError

LOOK_UP_SECONDS = 0.2
"""How often a reader of a pipe that gives nothing looks whether it is still wanted."""


class PatientInput(io.RawIOBase):
    """Standard input that can be abandoned: a thread that waits for a pipe could not be stopped otherwise."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.wanted = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while self.wanted:
            ready, _, _ = select.select([self._descriptor], [], [], LOOK_UP_SECONDS)
            if ready:
                data = os.read(self._descriptor, len(buffer))
                buffer[: len(data)] = data
                return len(data)
        return 0


def _pipe(stream: TextIO) -> int | None:
    """The descriptor of what one may have to wait for; None for a file, or what a program has put in its place."""
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:
        return None
    return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor


@contextmanager
def input_file(file: str) -> Iterator[IO[bytes]]:
    """The file, or standard input for ``-``."""
    if file == "-":
        descriptor = _pipe(sys.stdin)
        if descriptor is None:
            yield sys.stdin.buffer
            return
        patient = PatientInput(descriptor)
        try:
            yield io.BufferedReader(patient, 1 << 16)
        finally:
            patient.wanted = False
        return
    try:
        opened = open(file, "rb")  # noqa: SIM115 - the error is caught here, not what happens while it is used
    except OSError as error:
        raise InvalidError(f"{file} cannot be read: {error.strerror}") from None
    with opened:
        yield opened


@contextmanager
def output_file(file: str, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """The file, which appears only when it is complete; or standard output for ``-``."""
    if file == "-":
        yield sys.stdout.buffer
        return
    target = Path(file)
    if target.exists() and not overwrite:
        raise InvalidError(f"{file} exists already; choose another name, or give --overwrite")
    part = target.with_name(target.name + ".part")
    try:
        opened = part.open("wb")
    except OSError as error:
        raise InvalidError(f"{file} cannot be written: {error.strerror}") from None
    try:
        with opened:
            yield opened
        part.replace(target)
    except OSError as error:
        raise InvalidError(f"{file} cannot be written: {error.strerror}") from None
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
