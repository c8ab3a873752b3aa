from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_APPLIED: _ClassVar[Outcome]
    OUTCOME_LEASE_LOST: _ClassVar[Outcome]
    OUTCOME_GONE: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]

class ItemState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_STATE_UNSPECIFIED: _ClassVar[ItemState]
    ITEM_STATE_READY: _ClassVar[ItemState]
    ITEM_STATE_LEASED: _ClassVar[ItemState]
    ITEM_STATE_DELAYED: _ClassVar[ItemState]
    ITEM_STATE_COMPLETED: _ClassVar[ItemState]
    ITEM_STATE_DEAD: _ClassVar[ItemState]
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_APPLIED: Outcome
OUTCOME_LEASE_LOST: Outcome
OUTCOME_GONE: Outcome
OUTCOME_REFUSED: Outcome
ITEM_STATE_UNSPECIFIED: ItemState
ITEM_STATE_READY: ItemState
ITEM_STATE_LEASED: ItemState
ITEM_STATE_DELAYED: ItemState
ITEM_STATE_COMPLETED: ItemState
ITEM_STATE_DEAD: ItemState

class ClaimBatchRequest(_message.Message):
    __slots__ = ("queue", "worker_id", "max_items", "lease_duration", "wait_timeout", "request_id", "max_bytes")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    worker_id: str
    max_items: int
    lease_duration: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    max_bytes: int
    def __init__(self, queue: _Optional[str] = ..., worker_id: _Optional[str] = ..., max_items: _Optional[int] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ClaimBatchResponse(_message.Message):
    __slots__ = ("leases", "too_large")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    too_large: _containers.RepeatedCompositeFieldContainer[TooLargeItem]
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., too_large: _Optional[_Iterable[_Union[TooLargeItem, _Mapping]]] = ...) -> None: ...

class TooLargeItem(_message.Message):
    __slots__ = ("key", "size_bytes")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    key: str
    size_bytes: int
    def __init__(self, key: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("lease_id", "item", "attempt", "fencing_token", "expire_time", "time_left", "trace_parent", "max_attempts", "ready_time", "checkpoint")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    READY_TIME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    item: Item
    attempt: int
    fencing_token: int
    expire_time: _timestamp_pb2.Timestamp
    time_left: _duration_pb2.Duration
    trace_parent: str
    max_attempts: int
    ready_time: _timestamp_pb2.Timestamp
    checkpoint: bytes
    def __init__(self, lease_id: _Optional[str] = ..., item: _Optional[_Union[Item, _Mapping]] = ..., attempt: _Optional[int] = ..., fencing_token: _Optional[int] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., trace_parent: _Optional[str] = ..., max_attempts: _Optional[int] = ..., ready_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("key", "columns")
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    key: str
    columns: _containers.MessageMap[str, Value]
    def __init__(self, key: _Optional[str] = ..., columns: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("bool_value", "int64_value", "double_value", "string_value", "bytes_value", "timestamp_value", "decimal_value", "null_value")
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT64_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_VALUE_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_VALUE_FIELD_NUMBER: _ClassVar[int]
    NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    bool_value: bool
    int64_value: int
    double_value: float
    string_value: str
    bytes_value: bytes
    timestamp_value: _timestamp_pb2.Timestamp
    decimal_value: str
    null_value: _struct_pb2.NullValue
    def __init__(self, bool_value: bool = ..., int64_value: _Optional[int] = ..., double_value: _Optional[float] = ..., string_value: _Optional[str] = ..., bytes_value: _Optional[bytes] = ..., timestamp_value: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., decimal_value: _Optional[str] = ..., null_value: _Optional[_Union[_struct_pb2.NullValue, str]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("queue", "renewals", "lease_duration")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RENEWALS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    queue: str
    renewals: _containers.RepeatedCompositeFieldContainer[Renewal]
    lease_duration: _duration_pb2.Duration
    def __init__(self, queue: _Optional[str] = ..., renewals: _Optional[_Iterable[_Union[Renewal, _Mapping]]] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Renewal(_message.Message):
    __slots__ = ("lease_id", "checkpoint")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    checkpoint: bytes
    def __init__(self, lease_id: _Optional[str] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[HeartbeatResult]
    def __init__(self, results: _Optional[_Iterable[_Union[HeartbeatResult, _Mapping]]] = ...) -> None: ...

class HeartbeatResult(_message.Message):
    __slots__ = ("lease_id", "outcome", "expire_time", "time_left", "state", "cancel_reason")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    outcome: Outcome
    expire_time: _timestamp_pb2.Timestamp
    time_left: _duration_pb2.Duration
    state: ItemState
    cancel_reason: str
    def __init__(self, lease_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., state: _Optional[_Union[ItemState, str]] = ..., cancel_reason: _Optional[str] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("queue", "completions", "next")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    completions: _containers.RepeatedCompositeFieldContainer[Completion]
    next: NextClaim
    def __init__(self, queue: _Optional[str] = ..., completions: _Optional[_Iterable[_Union[Completion, _Mapping]]] = ..., next: _Optional[_Union[NextClaim, _Mapping]] = ...) -> None: ...

class NextClaim(_message.Message):
    __slots__ = ("worker_id", "max_items", "lease_duration", "request_id", "max_bytes")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    max_items: int
    lease_duration: _duration_pb2.Duration
    request_id: str
    max_bytes: int
    def __init__(self, worker_id: _Optional[str] = ..., max_items: _Optional[int] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("lease_id", "follow_ups", "columns")
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_UPS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    follow_ups: _containers.RepeatedCompositeFieldContainer[FollowUp]
    columns: _containers.MessageMap[str, Value]
    def __init__(self, lease_id: _Optional[str] = ..., follow_ups: _Optional[_Iterable[_Union[FollowUp, _Mapping]]] = ..., columns: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class FollowUp(_message.Message):
    __slots__ = ("queue", "item")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    queue: str
    item: NewItem
    def __init__(self, queue: _Optional[str] = ..., item: _Optional[_Union[NewItem, _Mapping]] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("results", "next_leases", "next_too_large")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_LEASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    next_leases: _containers.RepeatedCompositeFieldContainer[Lease]
    next_too_large: _containers.RepeatedCompositeFieldContainer[TooLargeItem]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., next_leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., next_too_large: _Optional[_Iterable[_Union[TooLargeItem, _Mapping]]] = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ("queue", "failures", "next")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    next: NextClaim
    def __init__(self, queue: _Optional[str] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ..., next: _Optional[_Union[NextClaim, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("lease_id", "error_message", "retry_delay", "dead_letter", "columns", "checkpoint")
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    error_message: str
    retry_delay: _duration_pb2.Duration
    dead_letter: bool
    columns: _containers.MessageMap[str, Value]
    checkpoint: bytes
    def __init__(self, lease_id: _Optional[str] = ..., error_message: _Optional[str] = ..., retry_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., dead_letter: bool = ..., columns: _Optional[_Mapping[str, Value]] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class FailResponse(_message.Message):
    __slots__ = ("results", "next_leases", "next_too_large")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_LEASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    next_leases: _containers.RepeatedCompositeFieldContainer[Lease]
    next_too_large: _containers.RepeatedCompositeFieldContainer[TooLargeItem]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., next_leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., next_too_large: _Optional[_Iterable[_Union[TooLargeItem, _Mapping]]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("queue", "releases", "worker_id", "request_ids")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    releases: _containers.RepeatedCompositeFieldContainer[Release]
    worker_id: str
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queue: _Optional[str] = ..., releases: _Optional[_Iterable[_Union[Release, _Mapping]]] = ..., worker_id: _Optional[str] = ..., request_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("lease_id", "delay", "checkpoint")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    delay: _duration_pb2.Duration
    checkpoint: bytes
    def __init__(self, lease_id: _Optional[str] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("results", "released_by_request_id")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    RELEASED_BY_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    released_by_request_id: int
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., released_by_request_id: _Optional[int] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("lease_id", "outcome", "state", "problem")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    outcome: Outcome
    state: ItemState
    problem: str
    def __init__(self, lease_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., state: _Optional[_Union[ItemState, str]] = ..., problem: _Optional[str] = ...) -> None: ...

class CancelLeasesRequest(_message.Message):
    __slots__ = ("queue", "keys", "delay", "dead_letter", "reason")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    queue: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    delay: _duration_pb2.Duration
    dead_letter: bool
    reason: str
    def __init__(self, queue: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., dead_letter: bool = ..., reason: _Optional[str] = ...) -> None: ...

class CancelLeasesResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CancelResult]
    def __init__(self, results: _Optional[_Iterable[_Union[CancelResult, _Mapping]]] = ...) -> None: ...

class CancelResult(_message.Message):
    __slots__ = ("key", "cancelled", "state")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    key: str
    cancelled: bool
    state: ItemState
    def __init__(self, key: _Optional[str] = ..., cancelled: bool = ..., state: _Optional[_Union[ItemState, str]] = ...) -> None: ...

class WakeRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class WakeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EnqueueRequest(_message.Message):
    __slots__ = ("queue", "items", "request_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    items: _containers.RepeatedCompositeFieldContainer[NewItem]
    request_id: str
    def __init__(self, queue: _Optional[str] = ..., items: _Optional[_Iterable[_Union[NewItem, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class NewItem(_message.Message):
    __slots__ = ("columns", "delay", "trace_parent")
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.MessageMap[str, Value]
    delay: _duration_pb2.Duration
    trace_parent: str
    def __init__(self, columns: _Optional[_Mapping[str, Value]] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., trace_parent: _Optional[str] = ...) -> None: ...

class EnqueueResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...
