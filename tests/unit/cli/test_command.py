"""The command as a user meets it: what it prints, how it fails, and which exit code that gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from slate_engine.cli.main import app
from slate_engine.cli.text import parse_bytes, show_bytes, show_size
from slate_engine.errors import Error

Slate = Callable[..., Result]


@pytest.fixture
def slate(tmp_path: Path) -> Slate:
    def run(*words: str, path: str = "db") -> Result:
        return CliRunner().invoke(app, ["--store", f"file://{tmp_path}", "--path", path, *words])

    return run


@pytest.fixture
def filled(slate: Slate, tmp_path: Path) -> Slate:
    lines = [json.dumps({"key": f"k{i:04d}", "value": f"v{i}"}) for i in range(2500)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, '{"key": "0xff00", "value": "0x0102"}']))
    result = slate("import", str(tmp_path / "rows.jsonl"))
    assert result.exit_code == 0, result.output
    assert "2,501 rows are durable" in result.output
    return slate


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_get_prints_the_value_and_says_when_there_is_none(filled: Slate) -> None:
    assert filled("get", "k0042").stdout == "v42\n"
    assert filled("get", "0xff00").stdout == "0x0102\n"
    absent = filled("get", "nope")
    assert absent.exit_code == 3
    assert absent.stdout == ""
    assert "there is no key 'nope'" in absent.stderr


def test_scan_ranges_limits_and_orders(filled: Slate) -> None:
    def keys(*words: str) -> list[str]:
        return [row["key"] for row in rows_of(filled("--output", "json", "scan", *words))]

    assert len(keys()) == 2501
    assert keys("--prefix", "k001", "--limit", "3") == ["k0010", "k0011", "k0012"]
    assert keys("--start", "k2498", "--end", "k9") == ["k2498", "k2499"]
    assert keys("--reverse", "--limit", "2") == ["0xff00", "k2499"]
    assert keys("--prefix", "nothing") == []
    assert "no rows" in filled("scan", "--prefix", "nothing").stdout
    assert filled("scan", "--start", "b", "--end", "a").exit_code == 1


def test_import_changes_deletes_and_takes_over_only_when_told(filled: Slate, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("key,value\nk0001,changed\n")
    refused = filled("import", str(tmp_path / "more.csv"))
    assert refused.exit_code == 1
    assert "--takeover" in refused.stderr
    assert filled("import", "--takeover", str(tmp_path / "more.csv")).exit_code == 0
    assert filled("get", "k0001").stdout == "changed\n"
    (tmp_path / "gone.jsonl").write_text('{"key": "k0001", "value": null}\n')
    assert filled("import", "--takeover", str(tmp_path / "gone.jsonl")).exit_code == 0
    assert filled("get", "k0001").exit_code == 3


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{broken", "line 1 is not JSON"), ('{"key": "a"}', "record 1"), ('{"key": "", "value": "x"}', "record 1")],
)
def test_bad_input_is_named_and_creates_nothing(slate: Slate, tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "bad.jsonl").write_text(content)
    result = slate("import", str(tmp_path / "bad.jsonl"))
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert not (tmp_path / "db").exists()


def test_explain_names_every_object_and_who_needs_it(filled: Slate, tmp_path: Path) -> None:
    facts = json.loads(filled("--output", "json", "explain").stdout)
    on_disk = {str(file.relative_to(tmp_path / "db")) for file in (tmp_path / "db").rglob("*") if file.is_file()}
    assert {each["name"] for each in facts["objects"]} == on_disk
    needed = {each["name"]: each["held_by"] for each in facts["objects"]}
    assert needed["manifest/00000000000000000003.manifest"] == ["the present state"]
    assert needed["manifest/00000000000000000001.manifest"] == []
    assert [held for name, held in needed.items() if name.startswith("compacted/")] == [["L0"]]
    assert "needed by" in filled("explain").stdout


def test_inspect_decodes_every_object_that_explain_lists(filled: Slate) -> None:
    for each in json.loads(filled("--output", "json", "explain").stdout)["objects"]:
        facts = json.loads(filled("--output", "json", "inspect", each["name"]).stdout)
        assert facts["bytes"] == each["size"]
    assert filled("inspect", "wal/00000000000000000099.sst").exit_code == 1


def test_verify_finds_a_flipped_bit_and_names_the_object(filled: Slate, tmp_path: Path) -> None:
    assert "sound" in filled("verify").stdout
    (sst,) = (tmp_path / "db" / "compacted").iterdir()
    data = bytearray(sst.read_bytes())
    data[100] ^= 1
    sst.write_bytes(data)
    result = filled("verify")
    assert result.exit_code == 4
    assert sst.name in result.stdout
    assert filled("scan").exit_code == 4


def test_verify_finds_a_missing_sst(filled: Slate, tmp_path: Path) -> None:
    (sst,) = (tmp_path / "db" / "compacted").iterdir()
    sst.unlink()
    result = filled("verify")
    assert result.exit_code == 4
    assert "is missing" in result.stdout


def test_a_wrong_path_or_store_is_explained(slate: Slate) -> None:
    result = slate("scan", path="elsewhere")
    assert result.exit_code == 1
    assert "no database at 'elsewhere'" in result.stderr
    assert "Give --store" in CliRunner().invoke(app, ["scan"]).stderr
    assert CliRunner().invoke(app, ["--output", "xml", "scan"]).exit_code == 2
    assert CliRunner().invoke(app, ["--option", "novalue", "scan"]).exit_code == 2


@pytest.mark.parametrize("data", [b"plain", "größe".encode(), b"\x00\xff", b"0x41", b"", b"line\nbreak"])
def test_what_is_shown_can_be_typed(data: bytes) -> None:
    assert parse_bytes(show_bytes(data)) == data


def test_odd_hexadecimal_is_an_error() -> None:
    with pytest.raises(Error.Invalid, match="hexadecimal"):
        parse_bytes("0xabc")


def test_sizes_have_about_three_figures() -> None:
    assert [show_size(n) for n in (0, 999, 2048, 150 << 10, 3 << 30, 5 << 40)] == [
        "0 B",
        "999 B",
        "2.0 KiB",
        "150 KiB",
        "3.0 GiB",
        "5.0 TiB",
    ]
