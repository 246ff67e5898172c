"""The command as a user meets it: rows, and how it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from slate_engine.cli.failures import EXIT_CODES, Misused, exit_code
from slate_engine.cli.main import app
from slate_engine.cli.text import parse_bytes, show_bytes, show_dollars, show_size
from slate_engine.errors import DataError, Fenced, InternalError, InvalidError
from slate_engine.state.commit import NothingStored
from slate_engine.store.protocol import Denied, NotFound, StoreUnavailable
from tests.unit.cli.conftest import Slate, done, facts, lines

SAMPLES = Path(__file__).parents[2] / "data" / "store"


def sample(path: str, *words: str) -> list[str]:
    return ["--store", f"file://{SAMPLES}", "--path", path, *words]


# --- rows ------------------------------------------------------------------------------------------------------------


def test_get_prints_the_value_and_says_when_there_is_none(filled: Slate) -> None:
    assert filled("get", "k0042").stdout == "v42\n"
    assert filled("get", "0xff00").stdout == "0x0102\n"
    assert filled("get", "0xff00", "--raw").stdout_bytes == b"\x01\x02"
    absent = filled("get", "nope")
    assert absent.exit_code == 3
    assert absent.stdout == ""
    assert "there is no key 'nope'" in absent.stderr


def test_scan_ranges_limits_and_orders(filled: Slate) -> None:
    def keys(*words: str) -> list[str]:
        return [row["key"] for row in lines(filled("--output", "json", "scan", *words))]

    assert len(keys()) == 2501
    assert keys("--prefix", "k001", "--limit", "3") == ["k0010", "k0011", "k0012"]
    assert keys("--start", "k2498", "--end", "k9") == ["k2498", "k2499"]
    assert keys("--reverse", "--limit", "2") == ["0xff00", "k2499"]
    assert keys("--prefix", "nothing") == []
    assert "no rows" in filled("scan", "--prefix", "nothing").stderr
    assert filled("scan", "--start", "b", "--end", "a").exit_code == 2
    table = filled("scan", "--start", "k0000", "--limit", "1200").stdout.splitlines()
    assert [line for line in table if line.startswith("k")][-1].startswith("k1199")


def test_put_and_delete_are_durable_and_ask_before_they_fence(slate: Slate, tmp_path: Path) -> None:
    assert slate("delete", "k").exit_code == 3, "deleting from nothing is a wrong path"
    assert not (tmp_path / "store" / "db").exists()
    assert "1 row written" in done(slate("put", "k", "[bold]v")).stdout
    assert slate("get", "k").stdout == "[bold]v\n", "nothing in a value is markup"
    refused = slate("put", "k", "w")
    assert (refused.exit_code, "--takeover" in refused.stderr) == (1, True)
    done(slate("put", "--takeover", "k", "--file", "-", input=b"\x00\xff"))
    assert slate("get", "k").stdout == "0x00ff\n"
    assert "2 rows deleted" in done(slate("delete", "--takeover", "k", "never-there")).stdout
    assert slate("get", "k").exit_code == 3
    assert slate("put", "--takeover", "k").exit_code == 2
    assert slate("put", "--takeover", "", "v").exit_code == 2


def test_a_row_with_a_ttl_knows_when_it_expires(slate: Slate) -> None:
    done(slate("put", "k", "v", "--ttl", "1h"))
    row = facts(slate("--output", "json", "get", "k"))
    assert row["expire_ts"] - row["create_ts"] == 3_600_000


def test_piped_output_is_neither_cut_nor_broken(slate: Slate) -> None:
    value = "long " * 200
    done(slate("put", "k", value))
    assert value.strip() in slate("scan").stdout
    assert "\x1b" not in slate("scan").stdout


# --- binary keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"plain", "größe".encode(), b"\x00\xff", b"0x41", b"", b"line\nbreak", b"\x1b[31m"])
def test_what_is_shown_can_be_typed(data: bytes) -> None:
    assert parse_bytes(show_bytes(data)) == data
    assert show_bytes(data).isprintable()


def test_an_argument_that_is_not_utf_8_means_its_bytes() -> None:
    assert parse_bytes(b"\xff\xfe".decode(errors="surrogateescape")) == b"\xff\xfe"


def test_odd_hexadecimal_is_an_error_that_says_how_to_write_it() -> None:
    with pytest.raises(Misused, match="0x3078616263"):
        parse_bytes("0xabc")


def test_sizes_and_amounts_have_about_three_figures() -> None:
    sizes = (0, 999, 2048, 150 << 10, 3 << 30, 5 << 40)
    assert [show_size(n) for n in sizes] == ["0 B", "999 B", "2.0 KiB", "150 KiB", "3.0 GiB", "5.0 TiB"]
    assert [show_dollars(n) for n in (0, 0.001, 0.5, 1234)] == ["$0.00", "less than $0.01", "$0.50", "$1,234.00"]


# --- failing ---------------------------------------------------------------------------------------------------------


def test_a_wrong_path_or_store_is_explained(slate: Slate, tmp_path: Path) -> None:
    for verb in ("scan", "status", "explain", "verify", "gc", "list-checkpoints", "read-manifest", "undelete"):
        result = slate(verb, path="elsewhere")
        assert (result.exit_code, result.stdout) == (3, ""), verb
        assert "there is no database at 'elsewhere'" in result.stderr
        assert result.stderr.count("\n") == 1, "one clear line"
    for words in (["destroy", "--yes"], ["destroy", "--hard", "--yes"], ["create-checkpoint"], ["copy", "there"]):
        assert slate(*words, path="elsewhere").exit_code == 3, words
    assert not (tmp_path / "store").exists(), "looking and refusing create nothing"
    missing = CliRunner().invoke(app, ["scan"])
    assert missing.exit_code == 2
    assert "Give --store" in missing.stderr


def test_wrong_usage_has_a_code_of_its_own(slate: Slate) -> None:
    assert CliRunner().invoke(app, ["--output", "xml", "scan"]).exit_code == 2
    assert CliRunner().invoke(app, ["--option", "novalue", "scan"]).exit_code == 2
    late = slate("scan", "--output", "json")
    assert late.exit_code == 2
    assert "comes before the verb: slate --output" in late.stderr
    assert slate("create-checkpoint", "--lifetime", "soon").exit_code == 2
    assert slate("status", "--prices", "gold").exit_code == 2


def test_a_store_that_does_not_answer_is_said_in_one_line_without_secrets() -> None:
    words = "--store s3://bucket --path x -o endpoint=http://127.0.0.1:9 -o allow_http=true -o retry_attempts=1"
    secrets = ["-o", "access_key_id=AKIDAKIDAKID", "-o", "secret_access_key=verysecretindeed"]
    result = CliRunner().invoke(app, [*words.split(), *secrets, "status"])
    assert result.exit_code == 5
    assert "check the store's url" in result.stderr
    assert "verysecret" not in result.output
    assert "AKID" not in result.output


def test_every_error_has_a_documented_code() -> None:
    errors = [InvalidError("x"), Misused("x"), NothingStored("x"), NotFound("x"), DataError("x"), Denied("x")]
    assert [exit_code(each) for each in errors] == [1, 2, 3, 4, 4, 5]
    assert [exit_code(each) for each in (StoreUnavailable("x"), Fenced("x"), InternalError("x"))] == [5, 6, 70]
    assert set(EXIT_CODES) == {0, 1, 2, 3, 4, 5, 6, 70, 130}


def test_a_defect_is_one_line_unless_the_trace_is_asked_for(filled: Slate, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("slate_engine.cli.data.row_facts", broken)
    result = filled("get", "k0001")
    assert result.exit_code == 70
    assert (
        result.stderr
        == "slate: a defect: ZeroDivisionError: division by zero; SLATE_TRACE=1 shows where, please report it\n"
    )
    monkeypatch.setenv("SLATE_TRACE", "1")
    assert isinstance(filled("get", "k0001").exception, ZeroDivisionError)


def test_the_environment_and_an_env_file_name_the_database(
    filled: Slate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings"
    file.write_text(f"# comment\nexport SLATE_STORE='file://{tmp_path}/store'\nSLATE_PATH=db\n")
    with monkeypatch.context() as scratch:
        # What the file sets stays set for this process, so it is cleared with the scratch environment.
        scratch.setenv("SLATE_STORE", "")
        scratch.delenv("SLATE_STORE")
        scratch.setenv("SLATE_PATH", "")
        scratch.delenv("SLATE_PATH")
        assert CliRunner().invoke(app, ["--env-file", str(file), "get", "k0001"]).stdout == "v1\n"
    scratch_env = {"SLATE_STORE": f"file://{tmp_path}/store", "SLATE_PATH": "db", "SLATE_OUTPUT": "json"}
    assert facts(CliRunner().invoke(app, ["get", "k0001"], env=scratch_env))["value"] == "v1"
    file.write_text("half-a-secret\n")
    broken = CliRunner().invoke(app, ["--env-file", str(file), "get", "k"])
    assert broken.exit_code == 2
    assert "half-a-secret" not in broken.output


# --- databases that the original wrote -------------------------------------------------------------------------------


class Longest:
    """A merge operator for the sample."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return max(existing_value or b"", operand, key=len)


def test_merge_operands_need_the_operator_that_the_user_names() -> None:
    without = CliRunner().invoke(app, sample("main", "scan"))
    assert without.exit_code == 1
    assert "--merge-operator" in without.stderr
    name = f"{__name__}:Longest"
    rows = lines(CliRunner().invoke(app, ["--merge-operator", name, "--output", "json", *sample("main", "scan")]))
    assert len(rows) > 100
    assert CliRunner().invoke(app, ["--merge-operator", "nowhere:x", *sample("main", "scan")]).exit_code == 2
    assert CliRunner().invoke(app, ["--merge-operator", "json:dumps", *sample("main", "scan")]).exit_code == 2


@pytest.mark.parametrize("path", ["main", "main_gc", "clone1", "union", "proj", "seg", "big", "nowal", "codec_zstd"])
def test_samples_of_the_original_are_sound_and_have_a_status(path: str) -> None:
    assert "sound" in done(CliRunner().invoke(app, sample(path, "verify"))).stdout
    assert "alive" in done(CliRunner().invoke(app, sample(path, "status"))).stdout
    assert facts(CliRunner().invoke(app, ["--output", "json", *sample(path, "explain")]))["objects"]
