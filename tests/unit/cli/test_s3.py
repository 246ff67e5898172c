"""The command on a real S3 server: the same story, with credentials from the environment, and without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slate_engine.cli.main import app
from tests.servers.versitygw import VersityGW
from tests.unit.cli.conftest import done, facts

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]  # the server may have to be built


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VersityGW]:
    with VersityGW(tmp_path / "s3") as server:
        server.make_bucket("bucket")
        yield server


def variables(server: VersityGW) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": server.options()["region"],
        "AWS_ACCESS_KEY_ID": server.options()["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": server.options()["secret_access_key"],
    }


def test_the_life_of_a_database_in_a_bucket(server: VersityGW, tmp_path: Path) -> None:
    file = tmp_path / "credentials.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in variables(server).items()))

    def slate(*words: str, path: str = "team/db", input: str | None = None) -> Result:
        with pytest.MonkeyPatch.context() as scratch:
            for name in variables(server):
                scratch.setenv(name, "")  # so that what the file sets goes with the scratch environment
                scratch.delenv(name)
            given = ["--env-file", str(file), "--store", "s3://bucket/prefix", "--path", path]
            return CliRunner().invoke(app, [*given, *words], input=input)

    done(slate("import", "-", input='{"key": "k", "value": "v"}'))
    done(slate("create-checkpoint", "-n", "then"))
    done(slate("put", "--takeover", "k", "w"))
    done(slate("create-clone", "--from", "team/db@then", path="clone"))
    assert slate("get", "k", path="clone").stdout == "v\n"
    done(slate("copy", "copied"))
    done(slate("copy", "local", "--to-store", f"file://{tmp_path}/backup"))
    assert slate("get", "k", path="copied").stdout == "w\n"
    local = ["--store", f"file://{tmp_path}/backup", "--path", "local"]
    assert CliRunner().invoke(app, [*local, "get", "k"]).stdout == "w\n"
    done(slate("restore", "then", "--yes"))
    assert slate("get", "k").stdout == "v\n"
    done(slate("destroy", "--yes"))
    assert slate("get", "k").exit_code == 1
    done(slate("undelete"))
    assert "sound" in done(slate("verify")).stdout
    assert [each["path"] for each in facts(slate("--output", "json", "list-databases", path=""))] == [
        "clone",
        "copied",
        "team/db",
    ]
    done(slate("gc", "--min-age", "0s"))
    done(slate("destroy", "--hard", "--yes", path="clone"))
    done(slate("destroy", "--hard", "--yes", path="copied"))
    assert slate("destroy", "--hard", "--yes", path="copied").exit_code == 3


def test_wrong_credentials_are_said_in_one_line(server: VersityGW) -> None:
    secret = "this-is-not-the-right-secret"
    wrong = {**variables(server), "AWS_SECRET_ACCESS_KEY": secret}
    result = CliRunner().invoke(app, ["--store", "s3://bucket", "--path", "db", "status"], env=wrong)
    assert result.exit_code == 5
    assert result.stderr.count("\n") == 1
    for word in (secret, wrong["AWS_ACCESS_KEY_ID"], "Traceback"):
        assert word not in result.output
