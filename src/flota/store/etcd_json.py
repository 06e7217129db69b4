"""etcd's v3 JSON, as far as flota speaks it: what is asked, what is answered. Values only.

As etcd's own gateway does: bytes are base64, numbers are sent as text and taken as either, defaults are left out. Pure.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

# What is raised for text that is no such value; the last one for what is nested too deeply.
BAD_JSON = (msgspec.ValidationError, msgspec.DecodeError, RecursionError)
PASSING = (4, 8, 10, 13, 14)  # gRPC's codes: too late, exhausted, aborted, internal, unavailable
UNKNOWN = 2  # gRPC's code for an error of no known kind
UNAUTHENTICATED = 16
CODES = range(1, 17)
MAX_KEY = 4096
MAX_VALUE = 1 << 20

Key = Annotated[bytes, Meta(max_length=MAX_KEY)]
Value = Annotated[bytes, Meta(max_length=MAX_VALUE)]
Number = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Request(Struct, frozen=True, omit_defaults=True):
    """Whatever a client asks. Unknown fields are let pass, as etcd does."""


class Range(Request, frozen=True, omit_defaults=True):
    key: Key = b""
    range_end: Key = b""
    limit: Number = 0
    revision: Number = 0
    sort_order: str | int = "NONE"
    sort_target: str | int = "KEY"
    keys_only: bool = False
    count_only: bool = False


class Put(Request, frozen=True, omit_defaults=True):
    key: Key = b""
    value: Value = b""
    lease: Number = 0
    prev_kv: bool = False


class DeleteRange(Request, frozen=True, omit_defaults=True):
    key: Key = b""
    range_end: Key = b""
    prev_kv: bool = False


class Compare(Request, frozen=True, omit_defaults=True):
    """One condition of a transaction; which of the last five counts is said by `target`."""

    key: Key = b""
    result: str | int = "EQUAL"
    target: str | int = "VERSION"
    version: Number = 0
    create_revision: Number = 0
    mod_revision: Number = 0
    value: Value = b""
    lease: Number = 0


class Operation(Request, frozen=True, omit_defaults=True):
    """One of three."""

    request_range: Range | None = None
    request_put: Put | None = None
    request_delete_range: DeleteRange | None = None


class Txn(Request, frozen=True, omit_defaults=True):
    compare: Annotated[list[Compare], Meta(max_length=128)] = []
    success: Annotated[list[Operation], Meta(max_length=128)] = []
    failure: Annotated[list[Operation], Meta(max_length=128)] = []


class LeaseGrant(Request, frozen=True, omit_defaults=True, rename={"ttl": "TTL", "id": "ID"}):
    ttl: Number = 0
    id: Number = 0


class LeaseRevoke(Request, frozen=True, omit_defaults=True, rename={"id": "ID"}):
    id: Number = 0


class LeaseKeepAlive(Request, frozen=True, omit_defaults=True, rename={"id": "ID"}):
    id: Number = 0


class LeaseTimeToLive(Request, frozen=True, omit_defaults=True, rename={"id": "ID"}):
    id: Number = 0
    keys: bool = False


class WatchCreate(Request, frozen=True, omit_defaults=True):
    key: Key = b""
    range_end: Key = b""
    start_revision: Number = 0
    prev_kv: bool = False
    filters: list[str | int] = []


class WatchRequest(Request, frozen=True, omit_defaults=True):
    create_request: WatchCreate | None = None


class Authenticate(Request, frozen=True, omit_defaults=True):
    name: str = ""
    password: str = ""


class StoreAnswer(Struct, frozen=True, omit_defaults=True):
    """Whatever is answered. Numbers are text on the wire, as etcd's gateway writes them."""


class Header(StoreAnswer, frozen=True, omit_defaults=True):
    cluster_id: str = ""
    member_id: str = ""
    revision: str = ""
    raft_term: str = ""


class KeyValue(StoreAnswer, frozen=True, omit_defaults=True):
    key: bytes = b""
    create_revision: str = ""
    mod_revision: str = ""
    version: str = ""
    value: bytes = b""
    lease: str = ""


class RangeAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    header: Header
    kvs: list[KeyValue] = []
    more: bool = False
    count: str = ""


class PutAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    header: Header
    prev_kv: KeyValue | None = None


class DeleteAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    header: Header
    deleted: str = ""
    prev_kvs: list[KeyValue] = []


class OperationAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    response_range: RangeAnswer | None = None
    response_put: PutAnswer | None = None
    response_delete_range: DeleteAnswer | None = None


class TxnAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    header: Header
    succeeded: bool = False
    responses: list[OperationAnswer] = []


class LeaseAnswer(StoreAnswer, frozen=True, omit_defaults=True, rename={"ttl": "TTL", "id": "ID"}):
    header: Header
    id: str = ""
    ttl: str = ""


class TimeToLiveAnswer(
    StoreAnswer, frozen=True, omit_defaults=True, rename={"ttl": "TTL", "id": "ID", "granted": "grantedTTL"}
):
    header: Header
    id: str = ""
    ttl: str = ""
    granted: str = ""
    keys: list[bytes] = []


class AuthenticateAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    header: Header
    token: str = ""


class LeaseId(StoreAnswer, frozen=True, omit_defaults=True, rename={"id": "ID"}):
    id: str = ""


class LeasesAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    header: Header
    leases: list[LeaseId] = []


class Event(StoreAnswer, frozen=True, omit_defaults=True):
    """A put unless it says DELETE."""

    type: str = ""
    kv: KeyValue | None = None
    prev_kv: KeyValue | None = None


class WatchAnswer(StoreAnswer, frozen=True, omit_defaults=True):
    header: Header
    watch_id: str = ""
    created: bool = False
    canceled: bool = False
    compact_revision: str = ""
    cancel_reason: str = ""
    events: list[Event] = []


class Refusal(Exception):
    """A request that cannot be granted: gRPC's code, and the words that etcd uses."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words

    @property
    def passing(self) -> bool:
        """Whether the same question may be granted a little later: no leader, no quorum, too much to do."""
        return self.code in PASSING


class Stranger(Refusal):
    """Something answers there, but it is no store."""


class Distrusted(Refusal):
    """The certificate of whoever is there will not do."""


class NotAdmitted(Refusal):
    """A store does not know whoever asks: a wrong token, user or password."""


def decode(body: bytes, kind: type[Request]) -> Request:
    """A request from its JSON. Raises msgspec.ValidationError or DecodeError for what is none."""
    return msgspec.json.decode(body or b"{}", type=kind, strict=False)


def encode(answer: StoreAnswer) -> bytes:
    return msgspec.json.encode(answer)


def encode_request(request: Request) -> bytes:
    return msgspec.json.encode(request)


class Failed(Struct):
    """What a gateway says when it refuses; in the middle of a stream the code has another name."""

    error: str = ""
    message: str = ""
    code: int = 0
    grpc_code: int = 0

    def refusal(self) -> Refusal | None:
        code, words = self.code or self.grpc_code, self.error or self.message
        if code not in CODES or not words:
            return None  # others speak JSON too
        return NotAdmitted(code, words) if code == UNAUTHENTICATED else Refusal(code, words)


class Streamed(Struct):
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: msgspec.Raw | None = None


def read_answer(status: int, body: bytes, kind: type[StoreAnswer], *, streamed: bool = False) -> StoreAnswer | Refusal:
    """An answer from its JSON, or why there is none. A stranger's service may say anything."""
    if status < 0:
        return Distrusted(UNKNOWN, body.decode(errors="replace"))
    if streamed:
        return read_streamed(status, body.split(b"\n")[0], kind)
    try:
        if status == 200:
            return msgspec.json.decode(body, type=kind)
        refusal = msgspec.json.decode(body, type=Failed).refusal()
    except BAD_JSON:
        refusal = None
    return refusal or Stranger(UNKNOWN, f"status {status}, and no answer of a store" if status else "no HTTP")


def read_streamed(status: int, line: bytes, kind: type[StoreAnswer]) -> StoreAnswer | Refusal:
    """One line of a streamed answer, out of its wrapping."""
    if status != 200:
        return read_answer(status, line, kind)
    try:
        wrapped = msgspec.json.decode(line, type=Streamed)
    except BAD_JSON:
        return Stranger(UNKNOWN, "no answer of a store")
    if wrapped.error is not None:
        return read_answer(500, bytes(wrapped.error), kind)
    return read_answer(status, bytes(wrapped.result), kind)
