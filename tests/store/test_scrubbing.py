"""What looks like a secret leaves no process, however its field is written."""

from __future__ import annotations

import pytest

from slate_engine.store.scrubbing import scrubbed


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("spark.hadoop.fs.s3a.secret.key=abc", "spark.hadoop.fs.s3a.secret.key=***"),
        ("fs.s3a.access.key: AKIA123", "fs.s3a.access.key: ***"),
        ("fs.azure.account.key.shop.dfs.core.windows.net=abc", "fs.azure.account.key.shop.dfs.core.windows.net=***"),
        ("'secret.key': 'a b'", "'secret.key': '***'"),
        ("AccountKey=abc==;x=1", "AccountKey=***;x=1"),
        ("aws_secret_access_key=abc", "aws_secret_access_key=***"),
        ("mysql://user:hunter2@db/x", "mysql://***@db/x"),
    ],
)
def test_a_secret_is_masked_however_its_field_is_written(text: str, left: str) -> None:
    assert scrubbed(text) == left


@pytest.mark.parametrize("part", ["x", "secret", "a-", "x://a:", "secret.", "passw"])
def test_a_long_text_takes_no_longer_than_its_length(part: str) -> None:
    """By the square of it, this would not end before the suite's patience does."""
    assert scrubbed(part * (300_000 // len(part)))
