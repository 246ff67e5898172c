"""Clones, copies, destroying, undeleting and restoring, as a user does them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slate_engine.cli import session as sessions
from tests.unit.cli.conftest import Slate, done, facts

SOME_ID = "01740ee5-6459-44af-9a45-85deb6e468e3"


def objects(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# --- clones and copies -----------------------------------------------------------------------------------------------


def test_a_clone_shares_and_goes_its_own_way(filled: Slate, tmp_path: Path) -> None:
    done(filled("create-checkpoint", "-n", "then"))
    done(filled("put", "--takeover", "k0001", "changed"))
    made = facts(filled("--output", "json", "create-clone", "--from", "db@then", path="clone"))
    assert (made["shared_ssts"], [parent["path"] for parent in made["parents"]]) == (1, ["db"])
    assert facts(filled("--output", "json", "create-clone", "--from", "db@then", path="clone")) == made, "repeatable"
    assert not (tmp_path / "store" / "clone" / "compacted").exists(), "no SST was copied"
    assert filled("get", "k0001", path="clone").stdout == "v1\n"
    done(filled("put", "--takeover", "k0001", "of the clone", path="clone"))
    assert filled("get", "k0001").stdout == "changed\n"
    assert "clone of db" in done(filled("status", path="clone")).stdout
    assert "cloned to clone" in done(filled("status")).stdout
    assert "sound" in done(filled("verify", path="clone")).stdout
    assert "shown of db, in place: 1 SST" in done(filled("explain", path="clone")).stdout
    (sst,) = (tmp_path / "store" / "db" / "compacted").iterdir()
    assert facts(filled("--output", "json", "read-sst", sst.stem, path="clone"))["object"] == f"db/compacted/{sst.name}"


def test_a_finished_clone_of_an_older_state_is_refused(filled: Slate) -> None:
    made = ["--output", "json", "create-clone", "--from", "db"]
    done(filled(*made, path="clone"))
    first = facts(filled(*made, "--id", SOME_ID, path="named"))
    done(filled("put", "--takeover", "k0001", "changed"))
    for again in (
        filled(*made, path="clone"),
        filled(*made, path="named"),
        filled(*made, "--id", SOME_ID, path="clone"),
    ):
        assert again.exit_code == 1
        assert "there is a finished clone of 'db' already" in again.stderr
        assert "choose another path, or destroy that database" in again.stderr
    assert facts(filled(*made, "--id", SOME_ID, path="named")) == first, "the same request is harmless to repeat"
    assert filled("get", "k0001", path="named").stdout == "v1\n"
    wrong = filled(*made, "--id", "some", path="x")
    assert wrong.exit_code == 2
    assert "uuidgen" in wrong.stderr


def test_a_clone_of_some_keys_and_of_nothing(filled: Slate) -> None:
    done(filled("create-clone", "--from", "db", "--start", "k1", "--end", "k2", path="some"))
    assert filled("get", "k1500", path="some").stdout == "v1500\n"
    assert filled("get", "k2400", path="some").exit_code == 3
    absent = filled("create-clone", "--from", "nowhere", path="x")
    assert absent.exit_code == 3
    assert "'nowhere'" in absent.stderr
    assert filled("create-clone", "--from", "db@never", path="x").exit_code == 3
    assert filled("create-clone", "--from", "@never", path="x").exit_code == 2
    assert filled("create-clone", "--from", "db", path="db").exit_code == 1
    assert filled("create-clone", path="x").exit_code == 2


def test_a_copy_shares_nothing(filled: Slate, tmp_path: Path) -> None:
    done(filled("copy", "archive/db"))
    done(filled("copy", "db", "--to-store", f"file://{tmp_path}/other"))
    assert filled("copy", "archive/db").exit_code == 1, "there is a database already"
    done(filled("destroy", "--hard", "--yes"))
    assert filled("get", "k0042", path="archive/db").stdout == "v42\n"
    there = filled("--store", f"file://{tmp_path}/other", "get", "k0042")
    assert there.stdout == "v42\n"


# --- destroying ------------------------------------------------------------------------------------------------------


def test_destroy_softly_and_undelete(filled: Slate) -> None:
    done(filled("create-checkpoint", "-n", "kept"))
    at = facts(filled("--output", "json", "destroy", "--yes"))["destroyed_at"]
    assert facts(filled("--output", "json", "destroy", "--soft", "--yes"))["destroyed_at"] == at
    for verb in (["get", "k0001"], ["put", "--takeover", "a", "b"], ["create-checkpoint"], ["scan"]):
        refused = filled(*verb)
        assert refused.exit_code == 1, verb
        assert "was destroyed at" in refused.stderr
    assert "`slate undelete` brings it back" in done(filled("status")).stdout
    assert "destroyed" in done(filled("list-databases")).stdout
    assert "can be undeleted until" in done(filled("gc")).stdout
    assert "is back" in done(filled("undelete")).stdout
    assert "nothing had to be done" in done(filled("undelete")).stdout
    assert filled("get", "k0001").stdout == "v1\n"
    assert [each["name"] for each in facts(filled("--output", "json", "list-checkpoints"))] == ["kept"]


def test_destroy_hard_names_what_holds_it_and_leaves_neighbours_alone(filled: Slate, tmp_path: Path) -> None:
    done(filled("copy", "db2"))
    neighbours = objects(tmp_path / "store" / "db2")
    done(filled("create-checkpoint", "-n", "kept"))
    before = objects(tmp_path / "store" / "db")
    refused = filled("destroy", "--hard", "--yes")
    assert refused.exit_code == 1
    assert "(kept)" in refused.stderr
    assert objects(tmp_path / "store" / "db") == before
    done(filled("delete-checkpoint", "--id", "kept"))
    gone = facts(filled("--output", "json", "destroy", "--hard", "--yes"))
    assert gone["deleted_objects"] > 5
    assert not objects(tmp_path / "store" / "db")
    assert objects(tmp_path / "store" / "db2") == neighbours
    assert filled("destroy", "--hard", "--yes").exit_code == 3


def test_a_folder_without_a_database_is_not_destroyed(slate: Slate, tmp_path: Path) -> None:
    (tmp_path / "store" / "photos").mkdir(parents=True)
    (tmp_path / "store" / "photos" / "cat.jpg").write_bytes(b"meow")
    for path in ("photos", ""):
        for words in (["destroy", "--yes"], ["destroy", "--hard", "--yes"], ["gc"], ["restore", "x", "--yes"]):
            assert slate(*words, path=path).exit_code == 3, (path, words)
    assert objects(tmp_path / "store") == {"photos/cat.jpg": b"meow"}


def test_nothing_is_destroyed_without_a_yes(filled: Slate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done(filled("create-checkpoint", "-n", "then"))
    before = objects(tmp_path / "store")
    for words in (["destroy"], ["restore", "then"]):
        result = filled(*words, input="y\n")
        assert result.exit_code == 1
        assert "give --yes" in result.stderr
    done(filled("delete-checkpoint", "--id", "then"))
    before = objects(tmp_path / "store")
    monkeypatch.setattr(sessions, "at_a_terminal", lambda: True)
    assert "nothing was done" in filled("destroy", input="n\n").stderr
    assert "nothing was done" in filled("destroy", input="").stderr, "the end of input is no yes"
    assert "nothing was done" in filled("destroy", "--hard", input="y\n").stderr, "for good, y is not enough"
    assert objects(tmp_path / "store") == before
    asked = filled("destroy", "--hard", input="db\n")
    assert "There is no way back" in asked.stderr
    assert asked.exit_code == 0
    assert not objects(tmp_path / "store")


def test_a_destroyed_clone_releases_its_parent(filled: Slate) -> None:
    done(filled("create-clone", "--from", "db", path="clone"))
    assert filled("destroy", "--hard", "--yes").exit_code == 1
    done(filled("destroy", "--hard", "--yes", path="clone"))
    done(filled("destroy", "--hard", "--yes"))
    assert "no databases" in filled("list-databases").stdout


# --- restoring -------------------------------------------------------------------------------------------------------


def test_restore_goes_back_and_can_be_taken_back(filled: Slate) -> None:
    done(filled("create-checkpoint", "-n", "then"))
    done(filled("put", "--takeover", "k0001", "changed"))
    restored = facts(filled("--output", "json", "restore", "then", "--yes", "--keep", "1day"))
    assert filled("get", "k0001").stdout == "v1\n"
    done(filled("restore", restored["kept"], "--yes"))
    assert filled("get", "k0001").stdout == "changed\n"
    assert filled("restore", "never", "--yes").exit_code == 3
    assert "sound" in done(filled("verify")).stdout
