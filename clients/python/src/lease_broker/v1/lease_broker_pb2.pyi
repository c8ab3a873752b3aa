from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HeldBack(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HELD_BACK_UNSPECIFIED: _ClassVar[HeldBack]
    HELD_BACK_NOTHING_READY: _ClassVar[HeldBack]
    HELD_BACK_TOO_LARGE: _ClassVar[HeldBack]
    HELD_BACK_STOPPING: _ClassVar[HeldBack]
    HELD_BACK_RELEASED: _ClassVar[HeldBack]
    HELD_BACK_PAUSED: _ClassVar[HeldBack]
    HELD_BACK_GROUPS_BUSY: _ClassVar[HeldBack]
    HELD_BACK_MAX_LEASES: _ClassVar[HeldBack]
    HELD_BACK_RATE: _ClassVar[HeldBack]
    HELD_BACK_SUSPECTS: _ClassVar[HeldBack]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_APPLIED: _ClassVar[Outcome]
    OUTCOME_LEASE_LOST: _ClassVar[Outcome]
    OUTCOME_GONE: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]

class RefusalReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_REASON_UNSPECIFIED: _ClassVar[RefusalReason]
    REFUSAL_REASON_INVALID_FIELD: _ClassVar[RefusalReason]
    REFUSAL_REASON_QUEUE_NOT_FOUND: _ClassVar[RefusalReason]
    REFUSAL_REASON_COLUMN_NOT_WRITABLE: _ClassVar[RefusalReason]
    REFUSAL_REASON_VALUE_UNFIT: _ClassVar[RefusalReason]
    REFUSAL_REASON_ALREADY_EXISTS: _ClassVar[RefusalReason]
    REFUSAL_REASON_CHECK: _ClassVar[RefusalReason]
    REFUSAL_REASON_FOREIGN_KEY: _ClassVar[RefusalReason]
    REFUSAL_REASON_TRIGGER: _ClassVar[RefusalReason]
    REFUSAL_REASON_OUT_OF_ORDER: _ClassVar[RefusalReason]
    REFUSAL_REASON_LOCKED: _ClassVar[RefusalReason]

class ItemState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_STATE_UNSPECIFIED: _ClassVar[ItemState]
    ITEM_STATE_READY: _ClassVar[ItemState]
    ITEM_STATE_LEASED: _ClassVar[ItemState]
    ITEM_STATE_DELAYED: _ClassVar[ItemState]
    ITEM_STATE_COMPLETED: _ClassVar[ItemState]
    ITEM_STATE_DEAD: _ClassVar[ItemState]
HELD_BACK_UNSPECIFIED: HeldBack
HELD_BACK_NOTHING_READY: HeldBack
HELD_BACK_TOO_LARGE: HeldBack
HELD_BACK_STOPPING: HeldBack
HELD_BACK_RELEASED: HeldBack
HELD_BACK_PAUSED: HeldBack
HELD_BACK_GROUPS_BUSY: HeldBack
HELD_BACK_MAX_LEASES: HeldBack
HELD_BACK_RATE: HeldBack
HELD_BACK_SUSPECTS: HeldBack
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_APPLIED: Outcome
OUTCOME_LEASE_LOST: Outcome
OUTCOME_GONE: Outcome
OUTCOME_REFUSED: Outcome
REFUSAL_REASON_UNSPECIFIED: RefusalReason
REFUSAL_REASON_INVALID_FIELD: RefusalReason
REFUSAL_REASON_QUEUE_NOT_FOUND: RefusalReason
REFUSAL_REASON_COLUMN_NOT_WRITABLE: RefusalReason
REFUSAL_REASON_VALUE_UNFIT: RefusalReason
REFUSAL_REASON_ALREADY_EXISTS: RefusalReason
REFUSAL_REASON_CHECK: RefusalReason
REFUSAL_REASON_FOREIGN_KEY: RefusalReason
REFUSAL_REASON_TRIGGER: RefusalReason
REFUSAL_REASON_OUT_OF_ORDER: RefusalReason
REFUSAL_REASON_LOCKED: RefusalReason
ITEM_STATE_UNSPECIFIED: ItemState
ITEM_STATE_READY: ItemState
ITEM_STATE_LEASED: ItemState
ITEM_STATE_DELAYED: ItemState
ITEM_STATE_COMPLETED: ItemState
ITEM_STATE_DEAD: ItemState

class ClaimBatchRequest(_message.Message):
    __slots__ = ("queue", "worker_id", "max_items", "lease_duration", "wait_timeout", "request_id", "max_bytes", "groups", "max_run")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    worker_id: str
    max_items: int
    lease_duration: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    max_bytes: int
    groups: _containers.RepeatedScalarFieldContainer[str]
    max_run: int
    def __init__(self, queue: _Optional[str] = ..., worker_id: _Optional[str] = ..., max_items: _Optional[int] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., max_bytes: _Optional[int] = ..., groups: _Optional[_Iterable[str]] = ..., max_run: _Optional[int] = ...) -> None: ...

class ClaimBatchResponse(_message.Message):
    __slots__ = ("leases", "too_large", "held_back", "retry_after")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    too_large: _containers.RepeatedCompositeFieldContainer[TooLargeItem]
    held_back: HeldBack
    retry_after: _duration_pb2.Duration
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., too_large: _Optional[_Iterable[_Union[TooLargeItem, _Mapping]]] = ..., held_back: _Optional[_Union[HeldBack, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class TooLargeItem(_message.Message):
    __slots__ = ("key", "size_bytes")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    key: str
    size_bytes: int
    def __init__(self, key: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("lease_id", "item", "attempt", "fencing_token", "expire_time", "time_left", "trace_parent", "max_attempts", "ready_time", "checkpoint", "run")
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
    RUN_FIELD_NUMBER: _ClassVar[int]
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
    run: int
    def __init__(self, lease_id: _Optional[str] = ..., item: _Optional[_Union[Item, _Mapping]] = ..., attempt: _Optional[int] = ..., fencing_token: _Optional[int] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., trace_parent: _Optional[str] = ..., max_attempts: _Optional[int] = ..., ready_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., checkpoint: _Optional[bytes] = ..., run: _Optional[int] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("key", "columns")
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ColumnValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ColumnValue, _Mapping]] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    key: str
    columns: _containers.MessageMap[str, ColumnValue]
    def __init__(self, key: _Optional[str] = ..., columns: _Optional[_Mapping[str, ColumnValue]] = ...) -> None: ...

class ColumnValue(_message.Message):
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

class Refusal(_message.Message):
    __slots__ = ("reason", "field", "constraint", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: RefusalReason
    field: str
    constraint: str
    message: str
    def __init__(self, reason: _Optional[_Union[RefusalReason, str]] = ..., field: _Optional[str] = ..., constraint: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("outcome", "expire_time", "time_left", "state", "cancel_reason", "refusal")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    expire_time: _timestamp_pb2.Timestamp
    time_left: _duration_pb2.Duration
    state: ItemState
    cancel_reason: str
    refusal: Refusal
    def __init__(self, outcome: _Optional[_Union[Outcome, str]] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., state: _Optional[_Union[ItemState, str]] = ..., cancel_reason: _Optional[str] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("worker_id", "max_items", "lease_duration", "request_id", "max_bytes", "groups", "max_run")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUN_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    max_items: int
    lease_duration: _duration_pb2.Duration
    request_id: str
    max_bytes: int
    groups: _containers.RepeatedScalarFieldContainer[str]
    max_run: int
    def __init__(self, worker_id: _Optional[str] = ..., max_items: _Optional[int] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., max_bytes: _Optional[int] = ..., groups: _Optional[_Iterable[str]] = ..., max_run: _Optional[int] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("lease_id", "follow_ups", "columns")
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ColumnValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ColumnValue, _Mapping]] = ...) -> None: ...
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_UPS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    follow_ups: _containers.RepeatedCompositeFieldContainer[FollowUp]
    columns: _containers.MessageMap[str, ColumnValue]
    def __init__(self, lease_id: _Optional[str] = ..., follow_ups: _Optional[_Iterable[_Union[FollowUp, _Mapping]]] = ..., columns: _Optional[_Mapping[str, ColumnValue]] = ...) -> None: ...

class FollowUp(_message.Message):
    __slots__ = ("queue", "item")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    queue: str
    item: NewItem
    def __init__(self, queue: _Optional[str] = ..., item: _Optional[_Union[NewItem, _Mapping]] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("results", "next", "next_error")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NEXT_ERROR_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    next: ClaimBatchResponse
    next_error: CallError
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., next: _Optional[_Union[ClaimBatchResponse, _Mapping]] = ..., next_error: _Optional[_Union[CallError, _Mapping]] = ...) -> None: ...

class CallError(_message.Message):
    __slots__ = ("code", "reason", "message", "metadata", "retry_delay")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    retry_delay: _duration_pb2.Duration
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

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
        value: ColumnValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ColumnValue, _Mapping]] = ...) -> None: ...
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
    columns: _containers.MessageMap[str, ColumnValue]
    checkpoint: bytes
    def __init__(self, lease_id: _Optional[str] = ..., error_message: _Optional[str] = ..., retry_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., dead_letter: bool = ..., columns: _Optional[_Mapping[str, ColumnValue]] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class FailResponse(_message.Message):
    __slots__ = ("results", "next", "next_error")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NEXT_ERROR_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    next: ClaimBatchResponse
    next_error: CallError
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., next: _Optional[_Union[ClaimBatchResponse, _Mapping]] = ..., next_error: _Optional[_Union[CallError, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("queue", "releases")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    releases: _containers.RepeatedCompositeFieldContainer[Release]
    def __init__(self, queue: _Optional[str] = ..., releases: _Optional[_Iterable[_Union[Release, _Mapping]]] = ...) -> None: ...

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
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class ReleaseClaimsRequest(_message.Message):
    __slots__ = ("queue", "worker_id", "request_ids")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    worker_id: str
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queue: _Optional[str] = ..., worker_id: _Optional[str] = ..., request_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseClaimsResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: int
    def __init__(self, released: _Optional[int] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("outcome", "state", "already_applied", "refusal")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ALREADY_APPLIED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    state: ItemState
    already_applied: bool
    refusal: Refusal
    def __init__(self, outcome: _Optional[_Union[Outcome, str]] = ..., state: _Optional[_Union[ItemState, str]] = ..., already_applied: bool = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

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
        value: ColumnValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ColumnValue, _Mapping]] = ...) -> None: ...
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.MessageMap[str, ColumnValue]
    delay: _duration_pb2.Duration
    trace_parent: str
    def __init__(self, columns: _Optional[_Mapping[str, ColumnValue]] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., trace_parent: _Optional[str] = ...) -> None: ...

class EnqueueResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EnqueueResult]
    def __init__(self, results: _Optional[_Iterable[_Union[EnqueueResult, _Mapping]]] = ...) -> None: ...

class EnqueueResult(_message.Message):
    __slots__ = ("key", "already_added")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ALREADY_ADDED_FIELD_NUMBER: _ClassVar[int]
    key: str
    already_added: bool
    def __init__(self, key: _Optional[str] = ..., already_added: bool = ...) -> None: ...
