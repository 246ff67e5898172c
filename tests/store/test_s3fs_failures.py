"""Which failures of aiobotocore mean that nothing was sent: only then may a write be repeated without a look."""

from __future__ import annotations

import socket
from unittest.mock import Mock

import aiohttp
import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from slate_engine.store.s3fs_backend import _is_unsent

URL = "http://127.0.0.1:9"


def connection_failed(cause: Exception) -> EndpointConnectionError:
    return EndpointConnectionError(endpoint_url=URL, error=cause)


@pytest.mark.parametrize(
    ("error", "unsent"),
    [
        (connection_failed(aiohttp.ClientConnectorError(Mock(), OSError(111, "refused"))), True),
        (connection_failed(socket.gaierror()), True),
        (ConnectTimeoutError(endpoint_url=URL), True),
        (connection_failed(aiohttp.ClientOSError(32, "broken pipe")), False),
        (connection_failed(aiohttp.ServerDisconnectedError()), False),
        (ReadTimeoutError(endpoint_url=URL), False),
    ],
)
def test_what_was_not_sent(error: Exception, unsent: bool) -> None:
    assert _is_unsent(error) is unsent
