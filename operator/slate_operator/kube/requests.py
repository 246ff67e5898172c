"""Requests to the API server: paths, media types, and what its answers mean. No objects are kept here.

The official client brings the connection: kubeconfigs, certificates, tokens that are replaced on disk. Its thousand typed
methods are passed by, because server-side apply and metadata-only reads are the same few lines for every kind.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from slate_operator.kube.cluster import Body, Conflict, Key, Kind, Refused, Unreachable

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
NAMESPACE_TERMINATING = "NamespaceTerminating"
PAGE = 500
"""Objects in one answer to a list."""

Watcher = Callable[[str, str, int], None]
"""Told of every request: the verb and the resource as RBAC names them, and the status of the answer (0 if none came)."""


class Missing(Exception):
    """There is no such object, or no such kind of objects."""


class AlreadyThere(Conflict):
    """An object of this name exists."""


async def connect(kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """How the API server is reached: by the kubeconfig that is named, else as a pod of the cluster."""
    made = Configuration()
    # The API server is never behind the proxy that the environment may name for the world outside.
    made.client_session_kwargs = {"trust_env": False}
    if kubeconfig is None:
        config.load_incluster_config(client_configuration=made)  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config(  # type: ignore[no-untyped-call]
            kubeconfig, context, client_configuration=made, persist_config=False
        )
    return made


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests go: all objects of a kind (of a namespace), one object, or a subresource of one."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, kind: Kind, key: Key, subresource: str = "") -> Place:
        return cls(kind, key.namespace, key.name, subresource)

    @property
    def path(self) -> str:
        group = "/api/" if "/" not in self.kind.api_version else "/apis/"
        parts = [group + self.kind.api_version]
        if self.namespace:
            parts += ["namespaces", quote(self.namespace, safe="")]
        parts.append(self.kind.plural)
        if self.name:
            parts.append(quote(self.name, safe=""))
        if self.subresource:
            parts.append(self.subresource)
        return "/".join(parts)

    @property
    def resource(self) -> str:
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    def __str__(self) -> str:
        where = f"{self.kind.kind} {self.namespace}/{self.name}" if self.name else f"all of {self.kind.plural}"
        return f"the {self.subresource} of {where}" if self.subresource else where


@dataclass(frozen=True, slots=True)
class Group:
    """Where the API server says which kinds of a version it serves."""

    kind: Kind
    resource = "discovery"

    @property
    def path(self) -> str:
        return ("/apis/" if "/" in self.kind.api_version else "/api/") + self.kind.api_version

    def __str__(self) -> str:
        return f"the kinds of {self.kind.api_version}"


class Requests:
    """One connection pool. ``watcher`` hears of every request."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        timeout: float = 30.0,
        watcher: Watcher = lambda verb, resource, status: None,
    ) -> None:
        self._configuration = configuration
        self._client = ApiClient(configuration)
        self._timeout = timeout
        self._watcher = watcher

    async def close(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, place: Place, accept: str = JSON) -> Body:
        return await self._send("get", "GET", place, accept=accept)

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows the kind. Everybody may ask that."""
        try:
            found = await self._send("get", "GET", Group(kind))
        except Missing:
            return False
        return any(each.get("name") == kind.plural for each in found.get("resources") or ())

    async def create(self, place: Place, body: Body, query: Mapping[str, str] | None = None) -> Body:
        return await self._send("create", "POST", place, body=body, query=query)

    async def patch(self, place: Place, media: str, body: Any, query: Mapping[str, str] | None = None) -> Body:
        return await self._send("patch", "PATCH", place, body=body, media=media, query=query)

    async def replace(self, place: Place, body: Body) -> Body:
        return await self._send("update", "PUT", place, body=body)

    async def delete(self, place: Place, body: Body) -> Body:
        return await self._send("delete", "DELETE", place, body=body)

    async def list(self, place: Place, labels: str = "") -> AsyncIterator[Body]:
        """All objects, a page at a time, each with its kind, which lists leave out."""
        query = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {})
        while True:
            page = await self._send("list", "GET", place, query=query)
            for item in page.get("items") or ():
                yield {**item, "apiVersion": place.kind.api_version, "kind": place.kind.kind}
            further = page["metadata"].get("continue")
            if not further:
                return
            query["continue"] = further

    async def _send(
        self,
        verb: str,
        method: str,
        place: Place | Group,
        *,
        body: Any = None,
        media: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Body:
        url = self._configuration.host + place.path + ("?" + urlencode(query) if query else "")
        headers = {"Accept": accept, "Content-Type": media, "User-Agent": "slatekeeper-operator"}
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = token
        status = 0
        try:
            answer = await self._client.rest_client.request(  # type: ignore[no-untyped-call]
                method, url, headers=headers, body=body, _request_timeout=aiohttp.ClientTimeout(total=self._timeout)
            )
            status = answer.status
            said = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = str(error) or type(error).__name__
            raise Unreachable(f"the API server did not answer to {verb} {place}: {words}") from None
        finally:
            self._watcher(verb, place.resource, status)
        document = _document(said)
        if 200 <= status < 300:
            return document
        raise failure(status, document, f"{verb} {place}")


def failure(status: int, document: Body, what: str) -> Exception:
    """What an answer other than success means for whoever asked."""
    message = str(document.get("message") or f"status {status}")
    reason = str(document.get("reason") or "")
    if status == 404:
        return Missing(message)
    if "field not declared in schema" in message:
        # The server calls this its own mistake (500), and it stays one until the CRDs are newer.
        return Refused(f"the CRDs are older than this operator; upgrade them: {message}", "OldDefinitions")
    if status == 409:
        return AlreadyThere(message) if reason == "AlreadyExists" else Conflict(message)
    if status in (401, 429) or status >= 500:
        return Unreachable(f"the API server cannot {what} now ({status}): {message}")
    causes = [cause.get("reason") for cause in (document.get("details") or {}).get("causes") or ()]
    return Refused(message, NAMESPACE_TERMINATING if NAMESPACE_TERMINATING in causes else reason)


def _document(said: bytes | None) -> Body:
    try:
        found = json.loads(said or b"{}")
    except ValueError:
        return {"message": (said or b"").decode(errors="replace")[:500]}
    return found if isinstance(found, dict) else {}
