"""The s3fs client of a bucket, which sends each request once.

Three layers would resend a PUT after a lost answer, and are told not to: s3fs itself, botocore, and aiohttp.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import aiohttp
from aiobotocore.httpsession import AIOHTTPSession
from s3fs import S3FileSystem

from slate_engine.store.dialects import dialect_of
from slate_engine.store.one_shot import send_once
from slate_engine.store.options import Options


class OneShotSession(AIOHTTPSession):  # type: ignore[misc]
    """An HTTP session that sends each request once."""

    async def _get_session(self, proxy_url: str | None) -> aiohttp.ClientSession:
        return send_once(await super()._get_session(proxy_url))


async def connect(options: Options) -> S3FileSystem:
    """Belongs to the event loop that runs now."""
    dialect = dialect_of(options)
    fs = S3FileSystem(
        anon=options.flag("anonymous"),
        key=options.text("access_key_id") or None,
        secret=options.text("secret_access_key") or None,
        token=options.text("session_token") or None,
        endpoint_url=options.text("endpoint") or None,
        client_kwargs={"region_name": options.text("region", dialect.region)},
        config_kwargs=_config(options),
        asynchronous=True,
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    fs.retries = 1
    client = await fs.set_session()
    for name, value in dialect.headers.items():
        client.meta.events.register("before-sign.s3", partial(_add_header, name, value))
    return fs


def _config(options: Options) -> dict[str, Any]:
    return {
        "retries": {"total_max_attempts": 1, "mode": "standard"},
        "connect_timeout": options.number("connect_timeout", 5),
        "read_timeout": options.number("timeout", 30),
        "max_pool_connections": 64,
        "http_session_cls": OneShotSession,
        # Checksums that not every dialect knows are sent only where S3 insists.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "s3": {"addressing_style": "virtual" if options.flag("virtual_hosted_style") else "path"},
    }


def _add_header(name: str, value: str, request: Any, **_: Any) -> None:
    request.headers[name] = value
