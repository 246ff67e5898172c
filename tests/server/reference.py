"""Writes ``docs/reference/redis.md`` from the table of commands: ``python -m tests.server.reference``."""

from __future__ import annotations

from pathlib import Path

from slate_engine.server.resp.catalogue import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "redis.md"

HEAD = """# The commands of the Redis protocol

Versions 2 and 3 of the protocol, one database (number 0). Keys and values are any bytes; a key is not empty. All values are
strings. What is not in this table gets Redis' own error for unknown commands.

- An answer to a write means that the object store has it, unless the client chose otherwise with
  `CLIENT SLATE DURABILITY memory`. Reads see what has been written, durable or not.
- `SCAN` goes through the keys in their order. A cursor is good at the server that gave it, and until that ends;
  any other server refuses it. Readers share one Service: do a whole scan on one connection.
- `DBSIZE` is an estimate.
- `MULTI … EXEC` is atomic and isolated from others; `WATCH` lets it fail if somebody wrote the keys before, if one of them
  expired, or if it lasted for more than ten minutes. A client watches at most 10,000 keys. `SLATE.CHECKPOINT` and
  `SLATE.FLUSH` are not for transactions.
- `MGET` and `EXISTS` see all their keys at one moment. A reply has at most half of the server's `resp.max_output_bytes`.
- `SLATE.RANGE start end [LIMIT n] [REV]` gives keys and values from `start` up to, but not including, `end`; an empty
  bound is open. Without `LIMIT` it gives 1,000.
- `FLUSHDB` is refused unless the server has `resp.allow_flush`.
- A client that sends HTTP (`POST` or a `Host:` header) is disconnected, so that a web page cannot send commands through a
  browser.
- A reader answers writes with `READONLY`, a writer that was replaced with `FENCED`, and `TRYAGAIN` means that the object
  store does not answer.

| command | | |
|---|---|---|
"""


def page() -> str:
    rows = sorted(TABLE.values(), key=lambda command: (command.group, command.name))
    return HEAD + "".join(f"| `{row.name}` | {row.group} | {row.summary} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page())
