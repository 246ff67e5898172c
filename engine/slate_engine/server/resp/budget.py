"""How many bytes the reply to one request may come to. They are counted while it is gathered, not when it is there."""

from __future__ import annotations

from slate_engine.server.resp.replies import CommandError

HEADER = 16
"""What the protocol adds to a value, at most."""


class ReplyTooLarge(CommandError):
    """The reply would be larger than a client may have one."""


class Budget:
    """What is left of it. All commands of one EXEC share one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def spend(self, size: int) -> None:
        self._left -= size + HEADER
        if self._left < 0:
            raise ReplyTooLarge(
                f"ERR the reply would have more than {self._most} bytes, which is half of the server's "
                "resp.max_output_bytes; ask for less at once"
            )
