"""The page about the commands says what the server does."""

from __future__ import annotations

from tests.server.reference import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.server.reference`"
