"""What the requests to a store cost.

Object stores bill by the request: writing, copying and listing in one class, reading in another ten times cheaper one,
and deleting for free. Backends count every request they really send, with retries, multipart parts and listing pages, in
a :class:`RequestMeter`; a :class:`PriceList` turns the counts into dollars.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

GIB = 1 << 30


class PriceClass(enum.Enum):
    A = "a"
    B = "b"
    FREE = "free"


class Request(enum.Enum):
    """The kinds of request that services tell apart on a bill."""

    PUT = "put"
    POST = "post"
    COPY = "copy"
    LIST = "list"
    GET = "get"
    HEAD = "head"
    DELETE = "delete"

    @property
    def price_class(self) -> PriceClass:
        return _CLASSES[self]


_CLASSES = {
    Request.PUT: PriceClass.A,
    Request.POST: PriceClass.A,
    Request.COPY: PriceClass.A,
    Request.LIST: PriceClass.A,
    Request.GET: PriceClass.B,
    Request.HEAD: PriceClass.B,
    Request.DELETE: PriceClass.FREE,
}


class RequestMeter(Protocol):
    """Told of every request by the backend that sends it."""

    def count(self, request: Request, times: int = 1) -> None: ...


class Tally:
    """A meter that just counts, for one store and without a registry."""

    def __init__(self) -> None:
        self.requests: dict[Request, int] = dict.fromkeys(Request, 0)

    def count(self, request: Request, times: int = 1) -> None:
        self.requests[request] += times


@dataclass(frozen=True, slots=True)
class PriceList:
    """Dollars: per 1,000 requests of a class, per GiB stored for a month, per GiB sent up or down."""

    name: str
    class_a: float
    class_b: float
    storage: float
    upload: float = 0.0
    download: float = 0.0

    def of_class(self, price_class: PriceClass) -> float:
        return {PriceClass.A: self.class_a, PriceClass.B: self.class_b, PriceClass.FREE: 0.0}[price_class]


S3_STANDARD = PriceList("S3 Standard, us-east-1", class_a=0.005, class_b=0.0004, storage=0.023)
S3_EXPRESS = PriceList(
    "S3 Express One Zone", class_a=0.00113, class_b=0.00003, storage=0.11, upload=0.0032, download=0.0006
)
R2 = PriceList("Cloudflare R2", class_a=0.0045, class_b=0.00036, storage=0.015)


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars, by what they are spent on."""

    class_a: float
    class_b: float
    transfer: float

    @property
    def total(self) -> float:
        return self.class_a + self.class_b + self.transfer


def price(requests: Mapping[Request, int], prices: PriceList, *, bytes_up: int = 0, bytes_down: int = 0) -> Cost:
    """What these requests and this traffic cost."""
    dollars = dict.fromkeys(PriceClass, 0.0)
    for request, times in requests.items():
        dollars[request.price_class] += times / 1000 * prices.of_class(request.price_class)
    transfer = bytes_up / GIB * prices.upload + bytes_down / GIB * prices.download
    return Cost(dollars[PriceClass.A], dollars[PriceClass.B], transfer)
