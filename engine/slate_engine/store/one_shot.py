"""Keeping aiohttp from sending a request twice.

aiohttp takes PUT for idempotent and sends it again when the server hangs up before it has answered. A conditional PUT is
not idempotent: if the first one was carried out, the second is refused, and the caller is told that it lost against
itself. s3fs, gcsfs and adlfs all stand on aiohttp.
"""

from __future__ import annotations

import aiohttp


def send_once(session: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """The same session, told to send every request once."""
    # The switch has no public name. Should it go away, this must fail and not quietly do nothing.
    assert session._retry_connection in (True, False)
    session._retry_connection = False
    return session
