"""Records in a DynamoDB table, by conditional expressions and consistent reads.

The partition key is the bucket and the sort key the path in it, so that the records under a prefix are one query on the
table itself. (An index would be cheaper to query, but is only eventually consistent, and a listing must not miss a write.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    ConnectTimeoutError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)

from slate_engine.errors import Error, InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.protocol import Denied, StoreUnavailable
from slate_engine.store.two_phase.record import Record, State

T = TypeVar("T")
_BATCH = 25
_DENIED = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}
_LATER = {
    "InternalServerError",
    "ItemCollectionSizeLimitExceededException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "TransactionConflictException",
}


class DynamoTransactions:
    """One table. Does each call once, and keeps the SDK from repeating it behind our back."""

    def __init__(
        self,
        table: str,
        runtime: Runtime,
        *,
        region: str | None = None,
        endpoint: str | None = None,
        create: bool = False,
    ) -> None:
        self._table = table
        self._runtime = runtime
        self._region = region
        self._endpoint = endpoint
        self._create = create
        self._open = AsyncExitStack()
        self._client: Any = None
        self._opening = asyncio.Lock()

    @property
    def url(self) -> str:
        return f"dynamodb://{self._table}"

    def __repr__(self) -> str:
        return f"DynamoTransactions({self._table!r})"

    async def put_if_absent(self, record: Record) -> Record | None:
        while True:
            if await self._put(record, "attribute_not_exists(#path)", {"#path": "path"}, {}):
                return None
            standing = await self.get(record.destination)
            if standing is not None:
                return standing
            # It was deleted between the two calls: the way is free.

    async def get(self, destination: str) -> Record | None:
        client = await self._connected()
        key = _key(destination)
        answer = await self._call(lambda: client.get_item(TableName=self._table, Key=key, ConsistentRead=True))
        return _record(answer["Item"]) if "Item" in answer else None

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        return await self._put(record, "#v = :expected", {"#v": "version"}, {":expected": {"S": expected}})

    async def list(self, prefix: str, *, committed: bool) -> AsyncIterator[list[Record]]:
        client = await self._connected()
        bucket, path = _split(prefix)
        where, values = "#bucket = :bucket", {":bucket": {"S": bucket}, ":committed": {"S": State.COMMITTED.value}}
        names = {"#bucket": "bucket", "#state": "state"}
        if path:
            where += " AND begins_with(#path, :path)"
            names["#path"], values[":path"] = "path", {"S": path}
        query: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": where,
            "FilterExpression": f"#state {'=' if committed else '<>'} :committed",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }
        while True:
            answer = await self._call(lambda: client.query(**query))
            yield [_record(item) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return
            query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def delete(self, destinations: Iterable[str]) -> None:
        client = await self._connected()
        requests = [{"DeleteRequest": {"Key": _key(destination)}} for destination in dict.fromkeys(destinations)]
        delay = 0.05
        while requests:
            batch, requests = requests[:_BATCH], requests[_BATCH:]
            request = partial(client.batch_write_item, RequestItems={self._table: batch})
            answer = await self._call(request, write=True)
            # What the table was too busy for comes back, and goes to the end of the queue.
            left = answer.get("UnprocessedItems", {}).get(self._table, [])
            requests += left
            delay = min(delay * 2, 2.0) if left else 0.05
            if left:
                await self._runtime.sleep(self._runtime.uniform(delay / 2, delay))

    async def delete_version(self, record: Record) -> bool:
        client = await self._connected()
        return await self._conditional(
            lambda: client.delete_item(
                TableName=self._table,
                Key=_key(record.destination),
                ConditionExpression="#v = :expected",
                ExpressionAttributeNames={"#v": "version"},
                ExpressionAttributeValues={":expected": {"S": record.version}},
            )
        )

    async def create_table(self) -> None:
        """Make the table, billed by request, and wait for it. One that is there already is taken as it is."""
        await self._make_table(await self._connected(create=False))

    async def _make_table(self, client: Any) -> None:
        keys = (("bucket", "HASH"), ("path", "RANGE"))
        try:
            await client.create_table(
                TableName=self._table,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceInUseException":
                raise self._explain(error, write=True) from None
        except BotoCoreError as error:
            raise self._explain(error, write=True) from None
        for _ in range(120):
            answer = await self._call(lambda: client.describe_table(TableName=self._table))
            if answer["Table"]["TableStatus"] == "ACTIVE":
                return
            await self._runtime.sleep(0.5)
        raise StoreUnavailable(f"the table {self._table} was made but is not active after a minute; try again later")

    async def close(self) -> None:
        await self._open.aclose()
        self._client = None

    async def _put(self, record: Record, condition: str, names: dict[str, str], values: dict[str, Any]) -> bool:
        client = await self._connected()
        request: dict[str, Any] = {
            "TableName": self._table,
            "Item": _item(record),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
        }
        if values:
            request["ExpressionAttributeValues"] = values
        return await self._conditional(lambda: client.put_item(**request))

    async def _conditional(self, request: Callable[[], Awaitable[Any]]) -> bool:
        try:
            await self._call(request, write=True)
        except _ConditionFailed:
            return False
        return True

    async def _call(self, request: Callable[[], Awaitable[T]], *, write: bool = False) -> T:
        try:
            return await request()
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                raise _ConditionFailed from None
            raise self._explain(error, write=write) from None
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise self._explain(error, write=write) from None

    async def _connected(self, *, create: bool = True) -> Any:
        if self._client is None or (create and self._create):
            async with self._opening:
                if self._client is None:
                    config = AioConfig(connect_timeout=5, read_timeout=15, retries={"total_max_attempts": 1})
                    opened = get_session().create_client(
                        "dynamodb", region_name=self._region, endpoint_url=self._endpoint, config=config
                    )
                    try:
                        self._client = await self._open.enter_async_context(opened)
                    except (BotoCoreError, ValueError) as error:
                        raise self._explain(error, write=False) from None
                if create and self._create:
                    await self._make_table(self._client)
                    self._create = False
        return self._client

    def _explain(self, error: BaseException, *, write: bool) -> Error:
        """Our error for the SDK's. Its own texts are not passed on: they can quote the request."""
        where = f"the transactional store {self.url} failed"
        if isinstance(error, ClientError):
            code = error.response["Error"]["Code"]
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code == "ResourceNotFoundException":
                return InvalidError(f"the DynamoDB table {self._table} does not exist; create it, or add create=true")
            if code in _DENIED:
                return Denied(f"{where}: {code}; check the AWS credentials and their rights on the table")
            if code in _LATER:
                return StoreUnavailable(f"{where}: {code}", unknown_outcome=write and code == "InternalServerError")
            return StoreUnavailable(
                f"{where}: {code}", retryable=status >= 500, unknown_outcome=write and status >= 500
            )
        if isinstance(error, NoCredentialsError | PartialCredentialsError):
            return Denied(
                f"{where}: no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role"
            )
        if isinstance(error, NoRegionError):
            return InvalidError(f"{where}: no region; add region=… to its url or set AWS_REGION")
        if isinstance(error, ConnectTimeoutError):
            return StoreUnavailable(f"{where}: the endpoint does not answer")
        if isinstance(error, HTTPClientError | ConnectionError | OSError | TimeoutError):
            return StoreUnavailable(f"{where}: {type(error).__name__}", unknown_outcome=write)
        return InvalidError(f"{where}: {type(error).__name__}; check region and endpoint")


class _ConditionFailed(Exception):
    """The service looked, and the condition did not hold. An answer, not a failure."""


def _split(destination: str) -> tuple[str, str]:
    """Bucket (scheme and host) and path in it. Destinations are full urls, see ``TwoPhaseStore``."""
    scheme, _, rest = destination.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path


def _key(destination: str) -> dict[str, Any]:
    bucket, path = _split(destination)
    return {"bucket": {"S": bucket}, "path": {"S": path}}


def _item(record: Record) -> dict[str, Any]:
    item = {
        **_key(record.destination),
        "version": {"S": record.version},
        "state": {"S": record.state.value},
        "source": {"S": record.source},
        "checksum": {"S": record.checksum},
        "size": {"N": str(record.size)},
        "created_ms": {"N": str(record.created_ms)},
    }
    if record.content is not None:
        item["content"] = {"B": record.content}
    return item


def _record(item: dict[str, Any]) -> Record:
    return Record(
        destination=f"{item['bucket']['S']}/{item['path']['S']}",
        version=item["version"]["S"],
        state=State(item["state"]["S"]),
        source=item["source"]["S"],
        checksum=item["checksum"]["S"],
        size=int(item["size"]["N"]),
        created_ms=int(item["created_ms"]["N"]),
        content=item["content"]["B"] if "content" in item else None,
    )
