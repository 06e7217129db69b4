"""The subset of etcd's v3 JSON API that flota uses: requests, answers and errors. Values only.

Encoded as by etcd's gateway: bytes are base64, numbers are sent as strings and accepted as either, defaults are
omitted. A request with an unknown field is an error: ignoring an option would give a wrong answer. Pure.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from flota.job.printable import printable
from flota.store.decoding import BadMessage, decode_json

# gRPC codes.
UNKNOWN, INVALID, NOT_FOUND, EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE = 2, 3, 5, 8, 9, 11
UNIMPLEMENTED, UNAUTHENTICATED = 12, 16
UNAVAILABLE = 14
STOPPING = ("raft: stopped", "etcdserver: server stopped")  # a member that leaves says so without a code for it
TEMPORARY = (4, 8, 10, 13, UNAVAILABLE)  # no leader, no quorum, overload: a retry may succeed
CODES = range(1, 17)

MAX_KEY = 4096
MAX_VALUE = 1 << 20

Key = Annotated[bytes, Meta(max_length=MAX_KEY)]
Value = Annotated[bytes, Meta(max_length=MAX_VALUE)]
Number = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Digits = Annotated[str, Meta(pattern=r"^[0-9]{1,19}\Z")]  # a number in an answer
MemberId = Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]  # an unsigned number
ZERO = "0"
HeaderValue = Annotated[str, Meta(pattern=r"^[!-~]{0,8192}\Z")]


class StoreRequest(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all requests. Subclasses inherit the three options."""


class Range(StoreRequest, frozen=True):
    """Entries are sorted by key. etcd3gw always sends a sort order: only this one is accepted. `serializable`: a member
    of etcd answers even if it has no majority, and may not know the latest values."""

    key: Key = b""
    range_end: Key = b""
    serializable: bool = False
    sort_order: Literal[0, "NONE"] = 0
    sort_target: Literal[0, "KEY"] = 0


class Put(StoreRequest, frozen=True):
    key: Key = b""
    value: Value = b""
    lease: Number = 0


class DeleteRange(StoreRequest, frozen=True):
    key: Key = b""
    range_end: Key = b""


class Compare(StoreRequest, frozen=True):
    """One condition of a transaction: `target` selects which of the last two fields must be equal."""

    key: Key
    target: Literal["CREATE", "VALUE"]
    result: Literal["EQUAL"] = "EQUAL"
    create_revision: Number = 0
    value: Value = b""


class Operation(StoreRequest, frozen=True):
    """Exactly one of the two is set."""

    request_range: Range | None = None
    request_put: Put | None = None


class Txn(StoreRequest, frozen=True):
    compare: Annotated[list[Compare], Meta(max_length=128)] = []
    success: Annotated[list[Operation], Meta(max_length=128)] = []
    failure: Annotated[list[Operation], Meta(max_length=128)] = []


class LeaseGrant(StoreRequest, frozen=True, rename={"ttl": "TTL", "id": "ID"}):
    ttl: Number = 0
    id: Number = 0


class LeaseRevoke(StoreRequest, frozen=True, rename={"id": "ID"}):
    id: Number = 0


class LeaseKeepAlive(StoreRequest, frozen=True, rename={"id": "ID"}):
    id: Number = 0


class WatchCreate(StoreRequest, frozen=True):
    key: Key = b""
    range_end: Key = b""
    start_revision: Number = 0


class WatchRequest(StoreRequest, frozen=True):
    create_request: WatchCreate


class Authenticate(StoreRequest, frozen=True):
    """For etcd only: the embedded master has a token instead of users."""

    name: str = ""
    password: str = ""


# Changes of an etcd cluster. The embedded master has no members.


class MemberList(StoreRequest, frozen=True):
    pass


class MemberAdd(StoreRequest, frozen=True, rename={"peer_urls": "peerURLs", "is_learner": "isLearner"}):
    """A learner has no vote until it is promoted: a member that is not up to date cannot delay the others."""

    peer_urls: list[str] = []
    is_learner: bool = False


class MemberRemove(StoreRequest, frozen=True, rename={"id": "ID"}):
    id: MemberId


class MemberPromote(StoreRequest, frozen=True, rename={"id": "ID"}):
    id: MemberId


class AnswerPart(Struct, frozen=True, omit_defaults=True):
    """etcd sends more fields than flota reads; defaults are omitted."""


class Header(AnswerPart, frozen=True):
    """`cluster_id`: only an etcd has one."""

    revision: Digits = ZERO
    cluster_id: str = ""


class KeyValue(AnswerPart, frozen=True):
    key: bytes = b""
    create_revision: Digits = ZERO
    mod_revision: Digits = ZERO
    version: Digits = ZERO
    value: bytes = b""
    lease: Digits = ZERO


class Event(AnswerPart, frozen=True):
    """A put, unless `type` is DELETE."""

    type: str = ""
    kv: KeyValue = KeyValue()


class StoreAnswer(AnswerPart, frozen=True):
    """Base of all answers, and the answer to a put. JSON of other programs has no such header."""

    header: Header


class RangeAnswer(StoreAnswer, frozen=True):
    kvs: list[KeyValue] = []
    count: Digits = ZERO


class DeleteAnswer(StoreAnswer, frozen=True):
    deleted: Digits = ZERO


class OperationAnswer(AnswerPart, frozen=True):
    response_range: RangeAnswer | None = None
    response_put: StoreAnswer | None = None


class TxnAnswer(StoreAnswer, frozen=True):
    succeeded: bool = False
    responses: list[OperationAnswer] = []


class LeaseAnswer(StoreAnswer, frozen=True, rename={"ttl": "TTL", "id": "ID"}):
    id: Digits = ZERO
    ttl: Digits = ZERO


class EtcdMember(AnswerPart, frozen=True, rename={"id": "ID", "peer_urls": "peerURLs"}):
    """`name`: empty until it has started."""

    id: MemberId = ZERO
    name: str = ""
    peer_urls: list[str] = []


class MembersAnswer(StoreAnswer, frozen=True):
    """`member`: the one that was added."""

    members: list[EtcdMember] = []
    member: EtcdMember | None = None


class AuthenticateAnswer(StoreAnswer, frozen=True):
    token: HeaderValue = ""


class WatchAnswer(StoreAnswer, frozen=True):
    created: bool = False
    canceled: bool = False
    compact_revision: Digits = ZERO
    cancel_reason: str = ""
    events: list[Event] = []


ROUTES: dict[type[StoreRequest], tuple[str, type[StoreAnswer]]] = {
    Range: ("/v3/kv/range", RangeAnswer),
    Put: ("/v3/kv/put", StoreAnswer),
    DeleteRange: ("/v3/kv/deleterange", DeleteAnswer),
    Txn: ("/v3/kv/txn", TxnAnswer),
    LeaseGrant: ("/v3/lease/grant", LeaseAnswer),
    LeaseRevoke: ("/v3/lease/revoke", LeaseAnswer),
    LeaseKeepAlive: ("/v3/lease/keepalive", LeaseAnswer),
    WatchRequest: ("/v3/watch", WatchAnswer),
    Authenticate: ("/v3/auth/authenticate", AuthenticateAnswer),
    MemberList: ("/v3/cluster/member/list", MembersAnswer),
    MemberAdd: ("/v3/cluster/member/add", MembersAnswer),
    MemberRemove: ("/v3/cluster/member/remove", MembersAnswer),
    MemberPromote: ("/v3/cluster/member/promote", MembersAnswer),
}
ONLY_ETCD = (Authenticate, MemberList, MemberAdd, MemberRemove, MemberPromote)  # not of the embedded master
STREAMED = (LeaseKeepAlive, WatchRequest)  # their answers are wrapped in `result`


class Refusal(Exception):
    """A request that the store has refused: gRPC code, and etcd's message."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


class NotAStore(Refusal):
    """Another program answers at this address."""


class UnexpectedEtcd(Refusal):
    """An etcd answers where an embedded master is expected."""


class BadServerCertificate(Refusal):
    """The store's certificate cannot be verified."""


class Unauthenticated(Refusal):
    """Wrong token, user or password."""


class ErrorBody(Struct):
    """An error of the gateway; within a stream the code has another name."""

    error: str = ""
    message: str = ""
    code: int = 0
    grpc_code: int = 0

    def refusal(self) -> Refusal | None:
        code, words = self.code or self.grpc_code, printable(self.error or self.message)
        if code not in CODES or not words:
            return None  # the JSON of another program
        code = UNAVAILABLE if words in STOPPING else code
        return Unauthenticated(code, words) if code == UNAUTHENTICATED else Refusal(code, words)


class StreamedLine(Struct):
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: msgspec.Raw | None = None


def decode(body: bytes, kind: type[StoreRequest]) -> StoreRequest:
    """Decode a request. Raises Refusal."""
    try:
        return decode_json(body or b"{}", kind, strict=False)
    except BadMessage as error:
        raise Refusal(INVALID, f"not supported by this store: {error}") from None


def encode(message: StoreRequest | AnswerPart) -> bytes:
    return msgspec.json.encode(message)


def digits(number: int) -> str:
    """A number in an answer. msgspec omits a default only if it is the same object."""
    return str(number) if number else ZERO


def encode_streamed(answer: StoreAnswer) -> bytes:
    return b'{"result":' + encode(answer) + b"}\n"


def encode_error(code: int, words: str) -> bytes:
    return msgspec.json.encode({"error": words, "message": words, "code": code})


def read_answer(status: int, body: bytes, request: StoreRequest) -> StoreAnswer | Refusal:
    """Decode the answer to a request, or a refusal."""
    refusal = None
    try:
        if isinstance(request, STREAMED) and status == 200:
            line = decode_json(body.partition(b"\n")[0], StreamedLine)
            status, body = (200, bytes(line.result)) if line.error is None else (500, bytes(line.error))
        if status != 200:
            refusal = decode_json(body, ErrorBody).refusal()
        elif _has_all(answer := decode_json(body, ROUTES[type(request)][1]), request):
            return answer
    except BadMessage:
        pass
    return refusal or NotAStore(UNKNOWN, f"status {status}, not an answer of a store")


def _has_all(answer: StoreAnswer, request: StoreRequest) -> bool:
    """Whether an answer has what was requested: another program's JSON may only look like one."""
    if isinstance(answer, TxnAnswer) and isinstance(request, Txn):
        operations = request.success if answer.succeeded else request.failure
        asked = [operation.request_range is not None for operation in operations]
        return asked == [response.response_range is not None for response in answer.responses]
    return not isinstance(request, LeaseGrant) or (isinstance(answer, LeaseAnswer) and answer.id != ZERO)
