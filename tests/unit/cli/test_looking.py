"""Verbs that look at a database and care for it: status, read-…, explain, verify, gc."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slate_engine.format.bloom import BloomFilter
from tests.unit.cli.conftest import Slate, done, facts, lines


def on_disk(tmp_path: Path) -> set[str]:
    folder = tmp_path / "store" / "db"
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_status_draws_the_levels(filled: Slate) -> None:
    shown = done(filled("status")).stdout
    assert "█" in shown
    assert "k0000 … 0xff00" in shown
    found = facts(filled("--output", "json", "status", "--prices", "r2"))
    assert found["prices"] == "Cloudflare R2"
    (tree,) = found["trees"]
    assert [(level["level"], level["ssts"]) for level in tree["levels"]] == [("L0", 1)]
    assert found["wal"]["files"] == 0
    done(filled("put", "--takeover", "a", "b"))
    assert facts(filled("--output", "json", "status"))["wal"]["files"] == 2, "a fence, and a file with the row"


def test_manifests_can_be_listed_and_read(filled: Slate) -> None:
    made = facts(filled("--output", "json", "create-checkpoint", "-n", "cp"))
    listed = facts(filled("--output", "json", "list-manifests"))
    assert [each["id"] for each in listed] == [1, 2, 3, 4]
    assert [each["checkpoints"] for each in listed][-1] == [made["id"]]
    assert "checkpoint cp" in done(filled("list-manifests", "--limit", "1")).stdout
    assert facts(filled("read-manifest"))["id"] == 4, "also for people it is JSON, in many lines"
    assert facts(filled("--output", "json", "read-manifest", "--id", "1"))["trees"][0]["l0"] == []
    assert filled("read-manifest", "--id", "99").exit_code == 3
    assert filled("read-compactions").exit_code == 3


def test_every_sst_and_wal_file_can_be_decoded(filled: Slate, tmp_path: Path) -> None:
    for name in sorted(name for name in on_disk(tmp_path) if name.endswith(".sst")):
        found = facts(filled("--output", "json", "read-sst", name, "--rows", "2"))
        assert found["object"] == f"db/{name}"
        assert len(found["rows"]) in (0, 2)
    ids = [str(int(name[4:24])) for name in on_disk(tmp_path) if name.startswith("wal/")]
    logged = [facts(filled("--output", "json", "read-sst", id, "--rows", "0")) for id in ids]
    assert sum(len(each["rows"]) for each in logged) == sum(each["row_count"] for each in logged) == 2501
    assert filled("read-sst", "77").exit_code == 3
    assert filled("read-sst", "manifest/1.manifest").exit_code == 2


def test_explain_names_every_object_and_who_needs_it(filled: Slate, tmp_path: Path) -> None:
    made = facts(filled("--output", "json", "create-checkpoint", "-n", "cp"))
    done(filled("put", "--takeover", "a", "b"))
    found = facts(filled("--output", "json", "explain"))
    assert {each["name"] for each in found["objects"]} == on_disk(tmp_path)
    held = {each["name"]: each["held_by"] for each in found["objects"]}
    assert held["manifest/00000000000000000004.manifest"] == [made["id"]]
    assert held["manifest/00000000000000000001.manifest"] == []
    assert [by for name, by in held.items() if name.startswith("compacted/")] == [["live", made["id"]]]
    assert {each["id"] for each in found["holders"]} == {"live", made["id"]}
    shown = done(filled("explain", "compacted/")).stdout
    assert "live state, checkpoint cp" in shown
    assert "manifest/" not in shown
    assert "more: --limit 0 shows all" in done(filled("explain", "--limit", "1")).stdout
    done(filled("create-clone", "--from", "db@cp", path="clone"))
    assert "clone" in json.dumps(facts(filled("--output", "json", "explain", "--find-clones"))["holders"])


def test_verify_finds_a_flipped_bit_and_names_the_object(filled: Slate, tmp_path: Path) -> None:
    assert "sound" in done(filled("verify")).stdout
    (sst,) = (tmp_path / "store" / "db" / "compacted").iterdir()
    data = bytearray(sst.read_bytes())
    data[100] ^= 1
    sst.write_bytes(data)
    result = filled("verify")
    assert result.exit_code == 4
    assert sst.name in result.stdout
    assert filled("scan").exit_code == 4
    assert "sound" in done(filled("verify", "--quick")).stdout, "a quick look reads no SST"


def test_verify_finds_what_is_missing(filled: Slate, tmp_path: Path) -> None:
    done(filled("create-checkpoint", "-n", "cp"))
    done(filled("put", "--takeover", "a", "b"))
    done(filled("create-checkpoint", "--with-log"))
    done(filled("create-clone", "--from", "db@cp", path="clone"))
    folder = tmp_path / "store" / "db"
    for pattern in ("compacted/*", "manifest/*04.manifest", "wal/*"):
        victim = max(folder.glob(pattern))
        data = victim.read_bytes()
        victim.unlink()
        result = filled("verify", "--quick")
        assert (result.exit_code, "missing" in result.stdout) == (4, True), pattern
        if pattern == "compacted/*":
            assert filled("verify", path="clone").exit_code == 4, "a clone needs the SSTs of its parent"
        victim.write_bytes(data)
    assert "sound" in done(filled("verify")).stdout
    (clone_checkpoint,) = [
        each for each in facts(filled("--output", "json", "list-checkpoints")) if each["name"] == "clone clone"
    ]
    for words in (["delete-checkpoint"], ["refresh-checkpoint", "--lifetime", "1h"]):
        refused = filled(*words, "--id", clone_checkpoint["id"])
        assert (refused.exit_code, "clone 'clone'" in refused.stderr) == (1, True), "a clone lives by it"
    done(filled("delete-checkpoint", "--force", "--id", clone_checkpoint["id"]))
    unkept = filled("verify", path="clone")
    assert unkept.exit_code == 4
    assert "does not keep the SSTs" in unkept.stdout


def test_verify_finds_a_manifest_and_an_sst_that_disagree(filled: Slate, tmp_path: Path) -> None:
    done(filled("put", "--takeover", "other", "rows", path="db2"))
    done(filled("import", "--takeover", "-", input='{"key": "a", "value": "b"}', path="db2"))
    (mine,) = (tmp_path / "store" / "db" / "compacted").iterdir()
    (theirs,) = (tmp_path / "store" / "db2" / "compacted").iterdir()
    mine.write_bytes(theirs.read_bytes())
    result = filled("verify")
    assert result.exit_code == 4
    assert "do not agree" in result.stdout


def test_verify_finds_a_filter_that_denies_a_key(slate: Slate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an SST is well formed, and yet hides its rows from every reader."""
    honest = BloomFilter.encode
    monkeypatch.setattr(BloomFilter, "encode", lambda self: honest(self)[:2] + bytes(len(honest(self)) - 2))
    rows = "\n".join(json.dumps({"key": f"k{i:04d}", "value": "v"}) for i in range(2500))
    done(slate("import", "-", input=rows))
    result = slate("verify")
    assert result.exit_code == 4
    assert "its filter denies a key" in result.stdout


# --- gc --------------------------------------------------------------------------------------------------------------


def test_gc_tells_what_it_would_delete_and_then_does(filled: Slate, tmp_path: Path) -> None:
    done(filled("import", "--takeover", "-", input='{"key": "a", "value": "b"}'))
    before = on_disk(tmp_path)
    assert "no garbage" in done(filled("gc")).stdout, "everything is younger than five minutes"
    (told,) = lines(filled("--output", "json", "gc", "--dry-run", "--min-age", "0s"))
    assert on_disk(tmp_path) == before, "a dry run changes nothing"
    doomed = {
        each["name"].removeprefix("db/")
        for kind in told["kinds"]
        if kind["kind"] != "fences"
        for each in kind["garbage"]
    }
    assert {name for name in doomed if not name.startswith("wal/")} == {
        f"manifest/{id:020d}.manifest" for id in (1, 2, 3, 4)
    }
    assert "wal/00000000000000000002.sst" in doomed, "its rows are in an SST"
    shown = done(filled("gc", "--dry-run", "--min-age", "0s", "--limit", "1")).stdout
    assert "would free" in shown
    assert f"and {len(doomed) - 1} more" in shown
    assert "freed" in done(filled("gc", "--min-age", "0s")).stdout
    assert before - on_disk(tmp_path) == doomed
    assert filled("get", "k0042").stdout == "v42\n"


def test_gc_by_kind(filled: Slate, tmp_path: Path) -> None:
    done(filled("import", "--takeover", "-", input='{"key": "a", "value": "b"}'))

    def kinds(*words: str) -> dict[str, int]:
        (told,) = lines(filled("--output", "json", "gc", "--dry-run", *words))
        return {kind["kind"]: len(kind["garbage"]) for kind in told["kinds"]}

    files = kinds("--only", "wal", "--min-age", "0s")["wal"]
    assert files > 0
    assert set(kinds("--only", "wal")) == {"wal"}
    assert "wal" not in kinds("--skip", "wal")
    aged = kinds("--min-age", "wal=0s", "--min-age", "1h")
    assert (aged["wal"], aged["manifests"]) == (files, 0), "what is said of one kind comes first"
    for words in (["--only", "dust"], ["--min-age", "dust=1s"], ["--only", "wal", "--skip", "wal"], ["--grace", "x"]):
        assert filled("gc", *words).exit_code == 2, words


def test_gc_of_all_databases_deletes_destroyed_ones_after_their_grace(filled: Slate, tmp_path: Path) -> None:
    done(filled("copy", "tenants/one"))
    done(filled("copy", "tenants/two"))
    done(filled("destroy", "--yes", path="tenants/one"))
    passes = lines(filled("--output", "json", "gc", "--all", path=""))
    assert [each["path"] for each in passes] == ["db", "tenants/one", "tenants/two"]
    assert "can be undeleted until" in passes[1]["waiting"]
    done(filled("gc", "--all", "--grace", "0s", path="tenants"))
    assert [each["path"] for each in facts(filled("--output", "json", "list-databases"))] == ["db", "tenants/two"]


def test_expired_checkpoints_go(filled: Slate) -> None:
    done(filled("create-checkpoint", "-n", "short", "-l", "1ms"))
    (told,) = lines(filled("--output", "json", "gc", "--only", "checkpoints"))
    assert "short" in told["kinds"][0]["garbage"][0]["why"]
    assert facts(filled("--output", "json", "list-checkpoints")) == []
