"""The admin API of databases over HTTPS, with the token and the authority of each database's own.

The operator has to run where Services are reached by name, that is in the cluster. From outside of it, the API server's
proxy is no way in: it takes the Authorization header for itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from slate_operator.admin.credentials import Keyring
from slate_operator.admin.database import (
    CheckpointFacts,
    CompactionFacts,
    DatabaseFacts,
    NotReached,
    OperationFacts,
    Owner,
    ParentFacts,
    Problem,
)
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import PODS, Body, Cluster
from slate_operator.names import Port, Role

LONGEST_CONNECT = 5.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where to knock, and which name the one who opens has to prove."""

    host: str
    name: str
    port: int = Port.HTTP

    def __str__(self) -> str:
        return f"https://{self.host}:{self.port}"


Locate = Callable[[Family], Address]


def by_service(cluster_domain: str) -> Locate:
    """The admin Service of a database, by its whole name, so that no search list is gone through."""

    def locate(family: Family) -> Address:
        host = f"{family.admin_service}.{family.namespace}.svc.{cluster_domain}"
        return Address(host, host)

    return locate


class HttpDatabases:
    """One connection pool for all databases. To be made within the event loop, and closed."""

    def __init__(self, cluster: Cluster, locate: Locate, *, timeout: float = 20.0) -> None:
        self._cluster = cluster
        self._keys = Keyring(cluster)
        self._locate = locate
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=LONGEST_CONNECT)
        self._session = aiohttp.ClientSession(timeout=limits, trust_env=False)

    async def close(self) -> None:
        await self._session.close()

    def admin(self, database: SlateDatabase) -> HttpAdmin:
        family = Family.of(database)
        return HttpAdmin(family, self._locate(family), self)

    async def ask(
        self, family: Family, address: Address, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Any:
        """One request. When a whole namespace goes, the Service goes before the collector's pod, which lingers to be asked
        a last thing: then it is asked directly."""
        try:
            return await self._try(family, address, method, path, body)
        except NotReached:
            lingering = await self._lingering(family) if address == self._locate(family) else None
            if lingering is None:
                raise
        return await self._try(family, lingering, method, path, body)

    async def _try(
        self, family: Family, address: Address, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Any:
        """Credentials that do not fit are read again, once: they may have been replaced."""
        known = await self._keys.of(family)
        try:
            return await self._ask(known.token, known.trust, address, method, path, body)
        except (_Untrusted, _Unauthorized):
            fresh = await self._keys.of(family, anew=True)
        try:
            return await self._ask(fresh.token, fresh.trust, address, method, path, body)
        except _Untrusted as error:
            raise NotReached(
                f"{address} shows a certificate that the authority of {family.namespace}/{family.name} did not sign: {error}"
            ) from None
        except _Unauthorized as error:
            raise Problem(401, "unauthorized", f"{address} does not take the token of the Secret: {error}") from None

    async def _ask(
        self, token: str, trust: Any, address: Address, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            async with self._session.request(
                method,
                f"{address}{path}",
                json=body,
                headers=headers,
                ssl=trust,
                server_hostname=address.name,
                allow_redirects=False,
            ) as answer:
                said, status, media = await answer.read(), answer.status, answer.content_type
        except aiohttp.ClientConnectorCertificateError as error:
            raise _Untrusted(str(error.certificate_error)) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = str(error) or "it took too long"
            raise NotReached(f"{address} does not answer: {words}") from None
        return understood(status, media, said, f"{method} {address}{path}")

    async def _lingering(self, family: Family) -> Address | None:
        """Of a collector's pod that is being deleted."""
        for pod in await self._cluster.list(PODS, family.namespace, family.selector(Role.GC)):
            if pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("podIP"):
                return self._of_pod(family, pod)
        return None

    def _of_pod(self, family: Family, pod: Body) -> Address:
        host = str(pod["status"]["podIP"])
        return Address(f"[{host}]" if ":" in host else host, self._locate(family).name)

    async def writer_address(self, family: Family) -> Address:
        """Of the writer's pod itself: its Service is for clients, who have no business with this port."""
        pods = await self._cluster.list(PODS, family.namespace, family.selector(Role.WRITER))
        for pod in pods:
            status = pod.get("status") or {}
            ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
            if ready and status.get("podIP") and not pod["metadata"].get("deletionTimestamp"):
                return self._of_pod(family, pod)
        raise NotReached(f"no writer of {family.namespace}/{family.name} is ready; see the condition WriterReady")


class HttpAdmin:
    """The admin API of one database."""

    def __init__(self, family: Family, address: Address, databases: HttpDatabases) -> None:
        self._family = family
        self._address = address
        self._databases = databases

    async def status(self) -> DatabaseFacts:
        said = await self._ask("GET", "/v1/status")
        return DatabaseFacts(
            path=said["path"],
            state=said["state"],
            destroyed_at_s=said["destroyed_at_s"],
            manifest_id=said["manifest_id"],
            writer_epoch=said["writer_epoch"],
            compactor_epoch=said["compactor_epoch"],
            l0_ssts=said["l0_ssts"],
            sorted_runs=said["sorted_runs"],
            size_bytes=said["size_bytes"],
            dollars_a_month=said["dollars_a_month"],
            checkpoints=tuple(_checkpoint(each) for each in said["checkpoints"]),
            parents=tuple(
                ParentFacts(each["path"], each["ssts"], each["size_bytes"], each["final_checkpoint_id"])
                for each in said["parents"]
            ),
            log_trouble=said.get("log_trouble"),  # pods of an older image do not say
        )

    # --- owners --------------------------------------------------------------------------------------------------

    async def claim(self, owner: Owner, expect: str, instead_of: str | None = None) -> None:
        who = {"uid": owner.uid, "namespace": owner.namespace, "name": owner.name}
        await self._ask("PUT", "/v1/owner", {**who, "expect": expect, "instead_of": instead_of})

    async def owner(self) -> Owner | None:
        said = (await self._ask("GET", "/v1/owner"))["owner"]
        if said is None or said["released"]:
            return None
        return Owner(said["uid"], said["namespace"], said["name"])

    async def release(self, owner: Owner) -> None:
        await self._ask("DELETE", f"/v1/owner/{owner.uid}")

    # --- checkpoints ---------------------------------------------------------------------------------------------

    async def checkpoint(self, id: str) -> CheckpointFacts | None:
        try:
            return _checkpoint(await self._ask("GET", f"/v1/checkpoints/{id}"))
        except Problem as problem:
            if problem.kind == "checkpoint-missing":
                return None
            raise

    async def put_checkpoint(
        self, id: str, *, lifetime_s: float | None, name: str | None, source: str | None
    ) -> CheckpointFacts:
        wanted = {"lifetime_seconds": lifetime_s, "name": name, "source": source}
        return _checkpoint(await self._ask("PUT", f"/v1/checkpoints/{id}", wanted))

    async def refresh_checkpoint(self, id: str, lifetime_s: float | None) -> CheckpointFacts:
        return _checkpoint(await self._ask("PATCH", f"/v1/checkpoints/{id}", {"lifetime_seconds": lifetime_s}))

    async def delete_checkpoint(self, id: str) -> None:
        await self._ask("DELETE", f"/v1/checkpoints/{id}")

    async def pinned_bytes(self) -> Mapping[str, int]:
        said = await self._ask("GET", "/v1/explain?limit=0&clones=false")
        words = ((each["holder"].split(), each["alone_bytes"]) for each in said["holdings"])
        return {holder[1]: alone for holder, alone in words if holder[0] == "checkpoint"}

    # --- compactions ---------------------------------------------------------------------------------------------

    async def compactions(self) -> Sequence[CompactionFacts]:
        said = await self._ask("GET", "/v1/compactions")
        return tuple(_compaction(each) for each in said["compactions"])

    # --- operations ----------------------------------------------------------------------------------------------

    async def put_operation(self, id: str, work: Mapping[str, Any]) -> OperationFacts:
        return _operation(await self._ask("PUT", f"/v1/operations/{id}", {"work": dict(work)}))

    async def operation(self, id: str) -> OperationFacts | None:
        try:
            return _operation(await self._ask("GET", f"/v1/operations/{id}"))
        except Problem as problem:
            if problem.kind == "no-operation":
                return None
            raise

    async def is_destroying(self) -> bool:
        said = await self._ask("GET", "/v1/operations")
        return any(each["work"]["kind"] == "destroy" and each["state"] == "running" for each in said["operations"])

    async def flush(self, *, to_ssts: bool) -> None:
        address = await self._databases.writer_address(self._family)
        kind = "memtable" if to_ssts else "log"
        await self._databases.ask(self._family, address, "POST", f"/v1/flush?kind={kind}")

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await self._databases.ask(self._family, self._address, method, path, body)


class _Unauthorized(Exception):
    """The token is not taken."""


class _Untrusted(Exception):
    """The certificate is not of the authority that we know."""


def understood(status: int, media: str, said: bytes, what: str) -> Any:
    try:
        document = json.loads(said or b"null")
    except ValueError:
        raise NotReached(f"{what} was answered by somebody else: {said[:200].decode(errors='replace')}") from None
    if status < 300:
        return document
    if not isinstance(document, dict) or media != "application/problem+json":
        raise NotReached(f"{what} was answered with status {status}, which says no more")
    detail = str(document.get("detail") or document.get("title") or status)
    if status == 401:
        raise _Unauthorized(detail)
    raise Problem(status, str(document.get("type", "")).rpartition(":")[2], detail, document)


def _checkpoint(said: Mapping[str, Any]) -> CheckpointFacts:
    return CheckpointFacts(said["id"], said["name"], said["manifest_id"], said["create_time_s"], said["expire_time_s"])


def _compaction(said: Mapping[str, Any]) -> CompactionFacts:
    return CompactionFacts(
        id=said["id"],
        state=said["state"],
        input_bytes=said["input_bytes"],
        submitted_at_s=said["submitted_at_s"],
        worker=said["worker"],
        heartbeat_at_s=said["heartbeat_at_s"],
        description=said["description"],
    )


def _operation(said: Mapping[str, Any]) -> OperationFacts:
    return OperationFacts(
        said["id"], said["state"], said["progress"] or {}, said["result"] or {}, said["problem"] or {}
    )
