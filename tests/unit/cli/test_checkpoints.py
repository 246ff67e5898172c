"""Verbs on checkpoints: what RFC-0004 prints, and what becomes of them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from uuid import uuid4

import pytest

from slate_engine.errors import ClosedError, CloseReason
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from tests.unit.cli.conftest import Slate, done, facts

RFC = {
    "create-checkpoint": (
        "Create a new checkpoint pointing to the database's current state",
        "-l, --lifetime LIFETIME Optionally specify a lifetime for the created checkpoint. You can specify the lifetime in "
        'a human-friendly format that uses years/days/min/s, e.g. "7days 30min 10s". The checkpoint\'s expiry time will be '
        "set to the current wallclock time plus the specified lifetime. If the lifetime is not specified, then the "
        "checkpoint is set with no expiry and must be explicitly removed",
        "-s, --source UUID Optionally specify an existing checkpoint to use as the base for the newly created checkpoint. "
        "If not provided then the checkpoint will be taken against the latest manifest.",
    ),
    "refresh-checkpoint": (
        "Refresh an existing checkpoint's expiry time. This command will look for an existing checkpoint and update its "
        "expiry time using the specified lifetime",
        "-i, --id ID The UUID of the checkpoint (e.g. 01740ee5-6459-44af-9a45-85deb6e468e3)",
        "-l, --lifetime LIFETIME Optionally specify a new lifetime for the checkpoint. You can specify the lifetime in a "
        'human-friendly format that uses years/days/min/s, e.g. "7days 30min 10s". The checkpoint\'s expiry time will be '
        "set to the current wallclock time plus the specified lifetime. If the lifetime is not specified, then the "
        "checkpoint is updated with no expiry and must be explicitly removed",
    ),
    "delete-checkpoint": (
        "Delete an existing checkpoint",
        "-i, --id ID The UUID of the checkpoint (e.g. 01740ee5-6459-44af-9a45-85deb6e468e3)",
    ),
    "list-checkpoints": ("List the current checkpoints of the db.",),
}


@pytest.mark.parametrize("verb", RFC)
def test_the_help_is_that_of_the_rfc(slate: Slate, verb: str) -> None:
    unwrapped = re.sub(r"(?<=\w)-\s+", "-", done(slate(verb, "--help")).stdout)
    help = re.sub(r"\s+", " ", unwrapped)
    for text in RFC[verb]:
        assert text in help


def test_a_checkpoint_keeps_what_was_there(filled: Slate) -> None:
    made = facts(filled("--output", "json", "create-checkpoint", "-n", "before", "-l", "7days 30min 10s"))
    done(filled("put", "--takeover", "k0001", "changed"))
    assert filled("get", "k0001").stdout == "changed\n"
    for name in ("before", made["id"], made["id"][:8]):
        assert filled("get", "k0001", "--checkpoint", name).stdout == "v1\n"
    assert filled("get", "k0001", "-c", "never").exit_code == 3
    (listed,) = facts(filled("--output", "json", "list-checkpoints"))
    assert listed == made
    assert "in 7days" in done(filled("list-checkpoints")).stdout


def test_refresh_and_delete(filled: Slate) -> None:
    made = facts(filled("--output", "json", "create-checkpoint", "--name", "mine"))
    assert made["expires_at"] is None
    assert facts(filled("--output", "json", "refresh-checkpoint", "-i", made["id"], "-l", "1h"))["expires_at"]
    assert "never" in done(filled("refresh-checkpoint", "--id", "mine")).stdout
    assert "is deleted" in done(filled("delete-checkpoint", "--id", made["id"])).stdout
    assert "nothing had to be done" in done(filled("delete-checkpoint", "--id", made["id"])).stdout
    assert filled("refresh-checkpoint", "--id", made["id"]).exit_code == 3
    assert filled("delete-checkpoint", "--id", "mine").exit_code == 3
    assert "no checkpoints" in done(filled("list-checkpoints")).stdout


def test_a_given_id_makes_repeating_harmless(filled: Slate) -> None:
    id = str(uuid4())
    first = facts(filled("--output", "json", "create-checkpoint", "--id", id, "-n", "once"))
    assert facts(filled("--output", "json", "create-checkpoint", "--id", id, "-n", "once")) == first
    copy = facts(filled("--output", "json", "create-checkpoint", "--source", id))
    assert copy["manifest_id"] == first["manifest_id"]
    assert filled("create-checkpoint", "--source", str(uuid4())).exit_code == 3
    assert filled("create-checkpoint", "--source", "nonsense").exit_code == 2
    assert len(facts(filled("--output", "json", "list-checkpoints"))) == 2
    assert len(facts(filled("--output", "json", "list-checkpoints", "-n", "once"))) == 1


def test_with_log_keeps_rows_that_the_manifest_does_not_know_of(slate: Slate, tmp_path: Path) -> None:
    done(slate("put", "k", "v"))
    done(slate("create-checkpoint", "-n", "after a close"))
    assert slate("get", "k", "-c", "after a close").stdout == "v\n"
    asyncio.run(write_and_die(tmp_path / "store"))
    done(slate("create-checkpoint", "-n", "without"))
    done(slate("create-checkpoint", "-n", "with", "--with-log"))
    assert slate("get", "l", "-c", "with").stdout == "v\n"
    assert slate("get", "l", "-c", "without").exit_code == 3


async def write_and_die(folder: Path) -> None:
    """A row that is durable in the WAL. The manifest does not know of it, as after a kill."""
    runtime = SystemRuntime(threads=1)
    files = DatabaseFiles(open_store(f"file://{folder}", runtime=runtime), "db", runtime)
    writer = await Writer.open(files, WriterOptions())
    await (await writer.write([Change(b"l", b"v")])).durable()
    writer.stop(ClosedError("killed", CloseReason.UNKNOWN))


def test_two_checkpoints_of_one_name_are_told_apart_by_id(filled: Slate) -> None:
    for _ in range(2):
        done(filled("create-checkpoint", "-n", "twin"))
    result = filled("get", "k0001", "-c", "twin")
    assert result.exit_code == 2
    assert "by its id" in result.stderr
