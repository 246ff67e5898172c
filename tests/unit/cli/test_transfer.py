"""Many rows: import and export in every format."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slate_engine.cli.records import JsonLinesWriter
from slate_engine.cli.streams import PatientInput
from slate_engine.format.columns import Rows
from slate_engine.state.manifest_read import decode_manifest
from tests.unit.cli.conftest import Slate, done, facts, lines

ROWS = {"plain": "text", "größe": 'x,"y"\n', "0x00ff": "0x0102", "0x3078": "0x30786162", "empty": "", "comma,key": "v"}
"""Keys and values as the command shows them, with all that a text format may stumble over."""


def shown(slate: Slate, path: str = "db") -> dict[str, str]:
    return {row["key"]: row["value"] for row in lines(slate("--output", "json", "scan", path=path))}


@pytest.fixture
def odd(slate: Slate, tmp_path: Path) -> dict[str, str]:
    """A database with odd rows, one of which expires in an hour."""
    later = int(time.time() * 1000) + 3_600_000
    records = [{"key": key, "value": value} for key, value in ROWS.items()]
    records.append({"key": "expiring", "value": "soon", "expire_ts": later})
    (tmp_path / "odd.jsonl").write_text("\n\n".join(json.dumps(record) for record in records))
    done(slate("import", str(tmp_path / "odd.jsonl")))
    return shown(slate)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_what_was_exported_comes_back_as_it_was(slate: Slate, odd: dict[str, str], tmp_path: Path, suffix: str) -> None:
    assert odd["größe"] == "0x" + b'x,"y"\n'.hex()
    file = tmp_path / f"rows.{suffix}"
    assert facts(slate("--output", "json", "export", str(file))) == {"rows": 7, "file": str(file), "format": suffix}
    assert "7 rows are durable" in done(slate("import", str(file), path="copy")).stdout
    assert shown(slate, "copy") == odd
    rows = {row["key"]: row["expire_ts"] for row in lines(slate("--output", "json", "scan", path="copy"))}
    assert [key for key, expires in rows.items() if expires] == ["expiring"]
    assert facts(slate("--output", "json", "list-checkpoints")) == [], "the export's own checkpoint is gone"


def test_export_of_a_range_a_checkpoint_and_to_standard_output(filled: Slate, tmp_path: Path) -> None:
    done(filled("create-checkpoint", "-n", "before"))
    done(filled("put", "--takeover", "k0001", "changed"))
    written = done(filled("export", "--prefix", "k000", "-c", "before", "-"))
    assert [json.loads(line)["value"] for line in written.stdout.splitlines()][:3] == ["v0", "v1", "v2"]
    assert filled("export", "--format", "csv", "--no-hold", "--end", "k0001", "-").stdout.splitlines()[1:] != []
    file = tmp_path / "all.parquet"
    done(filled("export", str(file)))
    assert pq.read_table(file).num_rows == 2501
    assert filled("export", str(file)).exit_code == 1, "a file that exists stays"
    done(filled("export", str(file), "--overwrite"))
    assert filled("export", "--format", "xml", "-").exit_code == 2


def test_what_is_exported_is_held_meanwhile(filled: Slate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that runs during the export sees a checkpoint, and leaves the SSTs alone."""
    held: list[list[str | None]] = []
    honest = JsonLinesWriter.write

    def looking(writer: JsonLinesWriter, rows: Rows) -> None:
        newest = max((tmp_path / "store" / "db" / "manifest").iterdir())
        held.append([each.name for each in decode_manifest(newest.read_bytes(), object=newest.name).checkpoints])
        honest(writer, rows)

    monkeypatch.setattr(JsonLinesWriter, "write", looking)
    done(filled("export", str(tmp_path / "held.jsonl")))
    done(filled("export", "--no-hold", str(tmp_path / "unheld.jsonl")))
    assert held == [["exporting"], []]


def test_an_export_that_fails_leaves_no_file(filled: Slate, tmp_path: Path) -> None:
    (sst,) = (tmp_path / "store" / "db" / "compacted").iterdir()
    data = bytearray(sst.read_bytes())
    data[100] ^= 1
    sst.write_bytes(data)
    assert filled("export", str(tmp_path / "out.jsonl")).exit_code == 4
    assert not list(tmp_path.glob("out.*"))


def test_import_changes_deletes_and_takes_over_only_when_told(filled: Slate, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("key,value\nk0001,changed\n")
    refused = filled("import", str(tmp_path / "more.csv"))
    assert refused.exit_code == 1
    assert "--takeover" in refused.stderr
    done(filled("import", "--takeover", str(tmp_path / "more.csv")))
    assert filled("get", "k0001").stdout == "changed\n"
    done(filled("import", "--takeover", "-", input='{"key": "k0001", "value": null}\n'))
    assert filled("get", "k0001").exit_code == 3


def test_parquet_of_text_is_taken_as_that_text(slate: Slate, tmp_path: Path) -> None:
    table = pa.table({"key": ["a", "0xzz"], "value": ["1", None], "other": [1, 2]})
    pq.write_table(table, tmp_path / "t.parquet")
    done(slate("import", str(tmp_path / "t.parquet")))
    assert shown(slate) == {"a": "1"}


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("bad.jsonl", "{broken", "line 1 of"),
        ("bad.jsonl", '{"key": "a"}', "record 1"),
        ("bad.jsonl", '{"key": "", "value": "x"}', "record 1"),
        ("bad.jsonl", '{"key": "0xa", "value": "x"}', "record 1"),
        ("bad.jsonl", '{"key": 1, "value": "x"}', "must be a text"),
        ("bad.jsonl", '{"key": "a", "value": "x", "expire_ts": "soon"}', "expire_ts"),
        ("bad.jsonl", b'{"key": "\xff", "value": "x"}', "not UTF-8"),
        ("bad.csv", "name,value\na,b\n", "record 1"),
        ("bad.csv", 'key,value\n"a\n', "not CSV"),
        ("bad.parquet", "PAR1 not really", "Parquet"),
    ],
)
def test_bad_input_is_named_and_creates_nothing(
    slate: Slate, tmp_path: Path, name: str, content: str | bytes, complaint: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = slate("import", str(tmp_path / name))
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert not (tmp_path / "store").exists()
    assert slate("import", str(tmp_path / "absent")).exit_code == 1


def test_rows_before_a_bad_record_are_durable_and_the_user_is_told(slate: Slate, tmp_path: Path) -> None:
    good = "".join(json.dumps({"key": f"k{i}", "value": "v"}) + "\n" for i in range(1500))
    (tmp_path / "half.jsonl").write_text(good + "{broken\n")
    result = slate("import", str(tmp_path / "half.jsonl"))
    assert result.exit_code == 1
    assert "1,000 rows are durable" in result.stderr
    assert len(shown(slate)) == 1000


def test_waiting_for_a_pipe_can_be_given_up() -> None:
    read, write = os.pipe()
    patient = PatientInput(read)
    waiting = Thread(target=patient.readall)
    waiting.start()
    patient.wanted = False
    waiting.join(timeout=10)
    os.close(read)
    os.close(write)
    assert not waiting.is_alive()


@pytest.mark.parametrize(("row", "fields"), [("kept", 1), ("kept,a,b", 3)])
def test_a_csv_row_with_other_fields_than_the_header_changes_nothing(
    slate: Slate, tmp_path: Path, row: str, fields: int
) -> None:
    """A row that was cut off is not a deletion, and a comma that was not quoted does not end a value."""
    done(slate("put", "kept", "value"))
    file = tmp_path / "rows.csv"
    file.write_text(f"key,value\n{row}\n")
    result = slate("import", "--takeover", str(file))
    assert shown(slate) == {"kept": "value"}
    assert result.exit_code == 1
    assert f"record 1 of {file} has {fields} fields, and the header has 2" in " ".join(result.stderr.split())
