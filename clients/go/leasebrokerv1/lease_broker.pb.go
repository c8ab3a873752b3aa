// The API of lease-broker. Rows of database tables are items, and workers lease them.
//
// The states of an item:
//
//                enqueue / insert by any program
//                         |
//                         v     claim             complete
//      +--------------> READY --------> LEASED --------------> COMPLETED  (kept | deleted | archived)
//      | due              ^              | | |                    | recurring queue: back to DELAYED
//      |                  +-- release ---+ | +- expire -> READY or, if no attempts are left, DEAD
//    DELAYED <-- fail, attempts left; -----+
//                release with a delay      +- fail, no attempts left, or dead_letter -> DEAD -- redrive -> READY
//
// Each claim starts an attempt. Fail and expiry use the attempt up. Release gives it back. Only the database's clock
// decides whether a lease has expired.
//
// Errors
//
// An entry of a call fails alone. Its result has an outcome: OUTCOME_LEASE_LOST if the lease is not held any more, and
// OUTCOME_REFUSED if the entry cannot be applied as it was sent, or not at this moment (REFUSAL_REASON_LOCKED). The other
// entries of the call are processed.
//
// Errors of a whole call carry a google.rpc.ErrorInfo with the domain "leasebroker", one of the reasons below, and in its
// metadata `applied`: `no` if the call has changed nothing and will change nothing, `unknown` if its changes may have been
// made or may still be made. An error about a field also carries google.rpc.BadRequest with the path of the field. An
// error that can pass by itself also carries google.rpc.RetryInfo with the time to wait before the call is sent again. The
// trailer grpc-status-details-bin has these messages, in an encoded google.rpc.Status. Not every gRPC library decodes it.
//
// The retry policies of gRPC clients do not read RetryInfo. For them every error has the trailer grpc-retry-pushback-ms: the
// same time in milliseconds, or -1 if the call must not be repeated: because that cannot help, or because the call may have
// been applied and would be applied twice. DEADLINE_EXCEEDED has -1 because a repetition within the same deadline cannot
// help. With a new deadline the call can be sent again, as "Retries" says. Every rpc can return these errors:
//
//   status               reason                meaning
//   INVALID_ARGUMENT     INVALID_FIELD         a field is malformed, or the message cannot be decoded
//   NOT_FOUND            QUEUE_NOT_FOUND       no queue with this name is configured. The metadata has queue
//   INVALID_ARGUMENT     LIMIT_EXCEEDED        a field exceeds a limit. The metadata has max, and value if the service has
//                                              counted it. Both are text for people: a duration is written as 1m 1s, and
//                                              a long one in days: 366days
//   RESOURCE_EXHAUSTED   LIMIT_EXCEEDED        the message exceeds the message limit of the service. The metadata has value
//                                              and max, in bytes
//   RESOURCE_EXHAUSTED   OVERLOADED            too many calls are running, requests take too many bytes, clients have not
//                                              read too many bytes of leases yet, or too many unknown tokens arrive (with
//                                              RetryInfo). The metadata has the limit that is used up: budget, a setting
//                                              of the section `budgets`, or limit, which is `database` (calls arrive faster
//                                              than the database serves them) or `unknown_tokens`
//   UNAUTHENTICATED      CREDENTIALS_MISSING   the call has no credentials
//   UNAUTHENTICATED      CREDENTIALS_INVALID   the credentials are not valid, for any cause
//   PERMISSION_DENIED    ROLE_MISSING          the caller has no role for the rpc on the queue, which may not exist. The
//                                              metadata has rpc and role
//   RESOURCE_EXHAUSTED   IDENTITY_LIMIT        the caller's identity has reached one of its limits (with RetryInfo). The
//                                              metadata has limit
//   UNAVAILABLE          DRAINING              this instance stops, or it closes this connection (with RetryInfo). Send the
//                                              call over another connection
//   UNAVAILABLE          REQUEST_INCOMPLETE    the last byte of the request did not arrive within the time limit (with
//                                              RetryInfo)
//   UNAVAILABLE          STORE_UNAVAILABLE     the database does not answer (with RetryInfo). The metadata has tries, and
//                                              server_error if the database gave an error number
//   UNAVAILABLE          LEASE_ID_TOO_NEW      a newer instance of the service issued a lease id, or its secret is so new
//                                              that this instance has not read it yet (with RetryInfo). Only from calls
//                                              with lease ids
//   FAILED_PRECONDITION  STORE_MISCONFIGURED   the database refuses the operation until its schema or login is corrected
//   FAILED_PRECONDITION  QUEUE_PAUSED          the queue is paused for Enqueue. The call can be sent again when an operator has
//                                              ended the pause. The metadata has queue
//   FAILED_PRECONDITION  OPERATION_RUNNING     only AdminService: the queue runs an operation of this kind. The metadata has
//                                              operation_id
//   FAILED_PRECONDITION  PURGE_NOT_ALLOWED     only AdminService: the rows of the table may not be deleted
//   NOT_FOUND            ITEM_NOT_FOUND        only AdminService: no row has the key
//   NOT_FOUND            OPERATION_NOT_FOUND   only AdminService: there is no such operation
//   NOT_FOUND            BROKER_NOT_FOUND      only AdminService: no such broker runs
//   DEADLINE_EXCEEDED    DEADLINE_EXCEEDED     the caller's deadline is about to pass
//   UNIMPLEMENTED        RPC_UNKNOWN           the service has no such rpc: the client is of another version
//   UNIMPLEMENTED        COMPRESSION_UNSUPPORTED  the request is compressed. Turn the compression of the client off: the
//                                              service bounds the memory of requests before it reads them
//   INTERNAL             INTERNAL              a bug in the service
//
// New reasons can be added. A client treats an unknown reason as its status says.
//
// Callers
//
// A service can require credentials: a client certificate, or a token in the header `authorization: Bearer TOKEN`. Each rpc
// then needs a role on the queue that it names. A follow-up also needs a role for Enqueue on its queue. Without it the
// completion is refused with REFUSAL_REASON_QUEUE_NOT_FOUND, as for a queue that does not exist. Leases belong to the
// identity that claimed them. With the lease id of another identity, every call returns OUTCOME_LEASE_LOST, and the same
// request_id gets other leases.
//
// Retries
//
// A call that ended with `applied` = `no` has changed nothing. A call that ended with `unknown`, with CANCELLED or with a
// lost connection may have been applied. It can then be sent again safely, with two exceptions: an Enqueue without a
// request_id, and a CancelLeases without fencing tokens.
// A Fail or a Release that was applied returns OUTCOME_LEASE_LOST when it is sent again if the item has been claimed since. So
// does every settlement if another program has changed the item's state since.
//
// Newer services
//
// A service can add fields, values of enums and kinds of ColumnValue. A client treats an unknown Outcome as
// OUTCOME_LEASE_LOST, an unknown ItemState as ITEM_STATE_UNSPECIFIED, and a ColumnValue without a known kind as an error: it
// is not NULL. A service refuses a ColumnValue without a kind that it knows.
//
// Limits
//
// At most 1,000 items per call, 1,024 columns per item, 65,536 values of columns per call, leases of 1 second to 12
// hours, waits of up to 60 seconds, worker ids of up to 128 UTF-16 units, names of up to 512 bytes. The configuration of
// the service can set lower limits. Every rpc refuses a request with a longer name or id, or with too many columns, as a
// whole, with LIMIT_EXCEEDED and a field such as queue, request_id, items.columns or completions.follow_ups.queue. A lease
// id has at most 4,096 characters, and a longer text is one that never existed: OUTCOME_LEASE_LOST. It has about 60 if the key
// is a number, and grows with the key. If your keys are long texts, send fewer leases in a call: a request above the message
// limit of the service, 4 MiB unless configured, is refused as a whole.
//
// A text that names or selects something, such as worker_id, groups or ItemFilter.owner, must not contain NUL: INVALID_FIELD. Only the
// key of a row of SQLite can contain NUL. In a text for people, such as error_message or a reason, U+FFFD takes the place of NUL.
//
// Versions
//
// Numbers and names that were used once are reserved, and never get another meaning. Clients that were generated for
// version 0.2.0 call a service named LeaseBrokerService, and get UNIMPLEMENTED.

// Code generated by protoc-gen-go. DO NOT EDIT.
// versions:
// 	protoc-gen-go v1.36.12
// 	protoc        (unknown)
// source: leasebroker/v1/lease_broker.proto

package leasebrokerv1

import (
	protoreflect "google.golang.org/protobuf/reflect/protoreflect"
	protoimpl "google.golang.org/protobuf/runtime/protoimpl"
	durationpb "google.golang.org/protobuf/types/known/durationpb"
	structpb "google.golang.org/protobuf/types/known/structpb"
	timestamppb "google.golang.org/protobuf/types/known/timestamppb"
	reflect "reflect"
	sync "sync"
	unsafe "unsafe"
)

const (
	// Verify that this generated code is sufficiently up-to-date.
	_ = protoimpl.EnforceVersion(20 - protoimpl.MinVersion)
	// Verify that runtime/protoimpl is sufficiently up-to-date.
	_ = protoimpl.EnforceVersion(protoimpl.MaxVersion - 20)
)

// Why a claim got no lease. A client treats an unknown value as HELD_BACK_NOTHING_READY.
type HeldBack int32

const (
	// The claim got leases.
	HeldBack_HELD_BACK_UNSPECIFIED HeldBack = 0
	// No item is ready.
	HeldBack_HELD_BACK_NOTHING_READY HeldBack = 1
	// The ready items that the claim looked at are larger than its max_bytes. too_large has them.
	HeldBack_HELD_BACK_TOO_LARGE HeldBack = 2
	// This instance of the service stops, and gives no more leases. Send the next claim on another connection.
	HeldBack_HELD_BACK_STOPPING HeldBack = 3
	// The claim was ended by ReleaseClaims.
	HeldBack_HELD_BACK_RELEASED HeldBack = 4
	// The queue is paused.
	HeldBack_HELD_BACK_PAUSED HeldBack = 5
	// Items are ready, and their groups hold them back: by a lease, by an item before them, by a limit, or by a pause.
	HeldBack_HELD_BACK_GROUPS_BUSY HeldBack = 6
	// The queue has as many leases as it may have.
	HeldBack_HELD_BACK_MAX_LEASES HeldBack = 7
	// The rate of the queue is used up. retry_after has the time until the next item can be given out.
	HeldBack_HELD_BACK_RATE HeldBack = 8
	// The worker holds an item whose last lease expired, or it holds leases while such an item waits. Such an item goes alone to a
	// worker that holds nothing else. Settle the leases, and then claim again. Other items need not be ready.
	HeldBack_HELD_BACK_SUSPECTS HeldBack = 9
)

// Enum value maps for HeldBack.
var (
	HeldBack_name = map[int32]string{
		0: "HELD_BACK_UNSPECIFIED",
		1: "HELD_BACK_NOTHING_READY",
		2: "HELD_BACK_TOO_LARGE",
		3: "HELD_BACK_STOPPING",
		4: "HELD_BACK_RELEASED",
		5: "HELD_BACK_PAUSED",
		6: "HELD_BACK_GROUPS_BUSY",
		7: "HELD_BACK_MAX_LEASES",
		8: "HELD_BACK_RATE",
		9: "HELD_BACK_SUSPECTS",
	}
	HeldBack_value = map[string]int32{
		"HELD_BACK_UNSPECIFIED":   0,
		"HELD_BACK_NOTHING_READY": 1,
		"HELD_BACK_TOO_LARGE":     2,
		"HELD_BACK_STOPPING":      3,
		"HELD_BACK_RELEASED":      4,
		"HELD_BACK_PAUSED":        5,
		"HELD_BACK_GROUPS_BUSY":   6,
		"HELD_BACK_MAX_LEASES":    7,
		"HELD_BACK_RATE":          8,
		"HELD_BACK_SUSPECTS":      9,
	}
)

func (x HeldBack) Enum() *HeldBack {
	p := new(HeldBack)
	*p = x
	return p
}

func (x HeldBack) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (HeldBack) Descriptor() protoreflect.EnumDescriptor {
	return file_leasebroker_v1_lease_broker_proto_enumTypes[0].Descriptor()
}

func (HeldBack) Type() protoreflect.EnumType {
	return &file_leasebroker_v1_lease_broker_proto_enumTypes[0]
}

func (x HeldBack) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use HeldBack.Descriptor instead.
func (HeldBack) EnumDescriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{0}
}

// The result for one entry of a call. A client treats an unknown value as OUTCOME_LEASE_LOST.
type Outcome int32

const (
	// Never sent.
	Outcome_OUTCOME_UNSPECIFIED Outcome = 0
	// Applied by this call, or already applied by an earlier call of the same kind for this lease.
	Outcome_OUTCOME_APPLIED Outcome = 1
	// The lease has expired, was settled in another way, or never existed. The call changed nothing for it.
	Outcome_OUTCOME_LEASE_LOST Outcome = 2
	// Only for Complete: the table has no row with the key of this lease. An earlier Complete of this lease removed the
	// row, or another lease's Complete did after this lease had expired, or another program deleted the row. The service
	// cannot tell these apart. This entry has added no follow-ups. Fail, Release and Heartbeat have the outcome
	// OUTCOME_LEASE_LOST in these cases.
	Outcome_OUTCOME_GONE Outcome = 3
	// The service or the database cannot apply this entry as it was sent. The call changed nothing for it, and a lease
	// that was held is still held, until it expires. The result's refusal has the reason. The same entry has the same outcome
	// when it is sent again. Correct it, or report the problem with Fail. Two reasons are different, because nothing is wrong
	// with the entry: REFUSAL_REASON_OUT_OF_ORDER and REFUSAL_REASON_LOCKED say when to send it again as it is.
	Outcome_OUTCOME_REFUSED Outcome = 4
)

// Enum value maps for Outcome.
var (
	Outcome_name = map[int32]string{
		0: "OUTCOME_UNSPECIFIED",
		1: "OUTCOME_APPLIED",
		2: "OUTCOME_LEASE_LOST",
		3: "OUTCOME_GONE",
		4: "OUTCOME_REFUSED",
	}
	Outcome_value = map[string]int32{
		"OUTCOME_UNSPECIFIED": 0,
		"OUTCOME_APPLIED":     1,
		"OUTCOME_LEASE_LOST":  2,
		"OUTCOME_GONE":        3,
		"OUTCOME_REFUSED":     4,
	}
)

func (x Outcome) Enum() *Outcome {
	p := new(Outcome)
	*p = x
	return p
}

func (x Outcome) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (Outcome) Descriptor() protoreflect.EnumDescriptor {
	return file_leasebroker_v1_lease_broker_proto_enumTypes[1].Descriptor()
}

func (Outcome) Type() protoreflect.EnumType {
	return &file_leasebroker_v1_lease_broker_proto_enumTypes[1]
}

func (x Outcome) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Outcome.Descriptor instead.
func (Outcome) EnumDescriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{1}
}

// The kinds of refusals. A client treats an unknown value as REFUSAL_REASON_UNSPECIFIED.
type RefusalReason int32

const (
	// Another problem. Refusal.message has it.
	RefusalReason_REFUSAL_REASON_UNSPECIFIED RefusalReason = 0
	// A field is malformed or out of its bounds: a duration, a checkpoint, a value without a kind, a key.
	RefusalReason_REFUSAL_REASON_INVALID_FIELD RefusalReason = 1
	// The queue of a follow-up is not configured, or the caller has no role for Enqueue on it.
	RefusalReason_REFUSAL_REASON_QUEUE_NOT_FOUND RefusalReason = 2
	// The call cannot write this column: the table does not have it, the service itself or the database sets it, or the
	// queue's setting `writable` does not list it.
	RefusalReason_REFUSAL_REASON_COLUMN_NOT_WRITABLE RefusalReason = 3
	// The column cannot hold the value: its type, its length, its range, or NULL in a column that is never NULL.
	RefusalReason_REFUSAL_REASON_VALUE_UNFIT RefusalReason = 4
	// A row with this key or this unique value exists.
	RefusalReason_REFUSAL_REASON_ALREADY_EXISTS RefusalReason = 5
	// A CHECK constraint refuses the row.
	RefusalReason_REFUSAL_REASON_CHECK RefusalReason = 6
	// A foreign key refuses the row, or rows of another table refer to the row that the completion removes.
	RefusalReason_REFUSAL_REASON_FOREIGN_KEY RefusalReason = 7
	// A trigger refuses the change.
	RefusalReason_REFUSAL_REASON_TRIGGER RefusalReason = 8
	// An earlier item of the run is still leased. Complete the items of a run in their order (Lease.run), and send this entry
	// again after them.
	RefusalReason_REFUSAL_REASON_OUT_OF_ORDER RefusalReason = 9
	// Another transaction has locked the row, or another row that the change needs. Nothing has changed for the entry, and a lease
	// that was held is still held, until it expires. Send the same entry again after a moment: 100 ms at first, then twice as long
	// after each further refusal, and at most 5 seconds. Keep the lease by heartbeats until its settlement is applied. They can be
	// refused for the same reason. If the lease expires first, the entry gets OUTCOME_LEASE_LOST. The other entries of the call need
	// not be sent again. A call in which no entry was applied can instead fail as a whole with STORE_UNAVAILABLE.
	RefusalReason_REFUSAL_REASON_LOCKED RefusalReason = 10
)

// Enum value maps for RefusalReason.
var (
	RefusalReason_name = map[int32]string{
		0:  "REFUSAL_REASON_UNSPECIFIED",
		1:  "REFUSAL_REASON_INVALID_FIELD",
		2:  "REFUSAL_REASON_QUEUE_NOT_FOUND",
		3:  "REFUSAL_REASON_COLUMN_NOT_WRITABLE",
		4:  "REFUSAL_REASON_VALUE_UNFIT",
		5:  "REFUSAL_REASON_ALREADY_EXISTS",
		6:  "REFUSAL_REASON_CHECK",
		7:  "REFUSAL_REASON_FOREIGN_KEY",
		8:  "REFUSAL_REASON_TRIGGER",
		9:  "REFUSAL_REASON_OUT_OF_ORDER",
		10: "REFUSAL_REASON_LOCKED",
	}
	RefusalReason_value = map[string]int32{
		"REFUSAL_REASON_UNSPECIFIED":         0,
		"REFUSAL_REASON_INVALID_FIELD":       1,
		"REFUSAL_REASON_QUEUE_NOT_FOUND":     2,
		"REFUSAL_REASON_COLUMN_NOT_WRITABLE": 3,
		"REFUSAL_REASON_VALUE_UNFIT":         4,
		"REFUSAL_REASON_ALREADY_EXISTS":      5,
		"REFUSAL_REASON_CHECK":               6,
		"REFUSAL_REASON_FOREIGN_KEY":         7,
		"REFUSAL_REASON_TRIGGER":             8,
		"REFUSAL_REASON_OUT_OF_ORDER":        9,
		"REFUSAL_REASON_LOCKED":              10,
	}
)

func (x RefusalReason) Enum() *RefusalReason {
	p := new(RefusalReason)
	*p = x
	return p
}

func (x RefusalReason) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (RefusalReason) Descriptor() protoreflect.EnumDescriptor {
	return file_leasebroker_v1_lease_broker_proto_enumTypes[2].Descriptor()
}

func (RefusalReason) Type() protoreflect.EnumType {
	return &file_leasebroker_v1_lease_broker_proto_enumTypes[2]
}

func (x RefusalReason) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use RefusalReason.Descriptor instead.
func (RefusalReason) EnumDescriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{2}
}

// The state of an item.
type ItemState int32

const (
	// Unknown, because the lease was lost or the row is gone.
	ItemState_ITEM_STATE_UNSPECIFIED ItemState = 0
	// A worker can claim the item.
	ItemState_ITEM_STATE_READY ItemState = 1
	// A worker holds a lease on the item.
	ItemState_ITEM_STATE_LEASED ItemState = 2
	// The item becomes ready at a later time.
	ItemState_ITEM_STATE_DELAYED ItemState = 3
	// The item is completed. Its row was kept, deleted or archived, as the queue is configured.
	ItemState_ITEM_STATE_COMPLETED ItemState = 4
	// The item is a dead letter. It is not tried again unless an operator redrives it.
	ItemState_ITEM_STATE_DEAD ItemState = 5
)

// Enum value maps for ItemState.
var (
	ItemState_name = map[int32]string{
		0: "ITEM_STATE_UNSPECIFIED",
		1: "ITEM_STATE_READY",
		2: "ITEM_STATE_LEASED",
		3: "ITEM_STATE_DELAYED",
		4: "ITEM_STATE_COMPLETED",
		5: "ITEM_STATE_DEAD",
	}
	ItemState_value = map[string]int32{
		"ITEM_STATE_UNSPECIFIED": 0,
		"ITEM_STATE_READY":       1,
		"ITEM_STATE_LEASED":      2,
		"ITEM_STATE_DELAYED":     3,
		"ITEM_STATE_COMPLETED":   4,
		"ITEM_STATE_DEAD":        5,
	}
)

func (x ItemState) Enum() *ItemState {
	p := new(ItemState)
	*p = x
	return p
}

func (x ItemState) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (ItemState) Descriptor() protoreflect.EnumDescriptor {
	return file_leasebroker_v1_lease_broker_proto_enumTypes[3].Descriptor()
}

func (ItemState) Type() protoreflect.EnumType {
	return &file_leasebroker_v1_lease_broker_proto_enumTypes[3]
}

func (x ItemState) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use ItemState.Descriptor instead.
func (ItemState) EnumDescriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{3}
}

// Claims items of one queue.
type ClaimBatchRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue, as configured. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The name of the worker, for people who look for the holder of a lease: host and process, for example. 1 to 128
	// UTF-16 units: a character beyond U+FFFF, such as an emoji, counts as two. Required.
	WorkerId string `protobuf:"bytes,2,opt,name=worker_id,json=workerId,proto3" json:"worker_id,omitempty"`
	// The maximum number of items, 1 to 1,000. Required. Fewer are leased if max_bytes has no room for more.
	MaxItems int32 `protobuf:"varint,3,opt,name=max_items,json=maxItems,proto3" json:"max_items,omitempty"`
	// The duration of the leases, 1 second to 12 hours unless the queue sets other bounds. Absent: the queue's default.
	LeaseDuration *durationpb.Duration `protobuf:"bytes,4,opt,name=lease_duration,json=leaseDuration,proto3" json:"lease_duration,omitempty"`
	// The time to wait for at least one item, up to 60 seconds. Absent: the call does not wait. If the caller's deadline
	// is sooner, the call returns shortly before the deadline.
	WaitTimeout *durationpb.Duration `protobuf:"bytes,5,opt,name=wait_timeout,json=waitTimeout,proto3" json:"wait_timeout,omitempty"`
	// A UUID that the caller chooses, so that a claim whose response was lost can be sent again: 36 characters, not the
	// nil UUID. A call with the same id, queue, worker_id and caller returns the leases of the first call that are still
	// held, and claims no further items. The other fields need not be equal: with a smaller max_items the call still
	// returns all of these leases. But send the same lease_duration again: it becomes part of the returned lease ids, and
	// a Heartbeat without one uses it. If all leases have expired or were settled, the call claims items like a new one.
	// Empty: every call claims new items.
	RequestId string `protobuf:"bytes,6,opt,name=request_id,json=requestId,proto3" json:"request_id,omitempty"`
	// The maximum size of the response in bytes, 65,536 or more. The message limit of the service also bounds it. Items
	// that do not fit are not leased: they stay ready, in their order, for the next claim. If an item is larger than
	// max_bytes by itself, the call passes over it and names it in too_large. If you raise max_bytes, raise the message
	// limit of your client too. Absent or 0: 4 MiB, which most clients accept.
	MaxBytes int32 `protobuf:"varint,7,opt,name=max_bytes,json=maxBytes,proto3" json:"max_bytes,omitempty"`
	// Only items of these groups: values of the column that names groups, each as text in the form of Item.key, up to 100. The
	// queue must have groups in its configuration. The call obeys the rules of the groups as other calls do, and other groups
	// keep their turns. Empty: items of all groups, and those that belong to none.
	Groups []string `protobuf:"bytes,8,rep,name=groups,proto3" json:"groups,omitempty"`
	// The maximum number of consecutive items of a group that the call leases together, as a run. The queue must allow runs in
	// its configuration, and its own maximum counts if it is smaller. The worker processes the items of a run one after the
	// other, in the order of the response. It begins an item only after the completion of the one before was applied. 0 or 1:
	// one item of a group. Without effect on a queue without runs.
	MaxRun        int32 `protobuf:"varint,9,opt,name=max_run,json=maxRun,proto3" json:"max_run,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ClaimBatchRequest) Reset() {
	*x = ClaimBatchRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[0]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ClaimBatchRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ClaimBatchRequest) ProtoMessage() {}

func (x *ClaimBatchRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[0]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ClaimBatchRequest.ProtoReflect.Descriptor instead.
func (*ClaimBatchRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{0}
}

func (x *ClaimBatchRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *ClaimBatchRequest) GetWorkerId() string {
	if x != nil {
		return x.WorkerId
	}
	return ""
}

func (x *ClaimBatchRequest) GetMaxItems() int32 {
	if x != nil {
		return x.MaxItems
	}
	return 0
}

func (x *ClaimBatchRequest) GetLeaseDuration() *durationpb.Duration {
	if x != nil {
		return x.LeaseDuration
	}
	return nil
}

func (x *ClaimBatchRequest) GetWaitTimeout() *durationpb.Duration {
	if x != nil {
		return x.WaitTimeout
	}
	return nil
}

func (x *ClaimBatchRequest) GetRequestId() string {
	if x != nil {
		return x.RequestId
	}
	return ""
}

func (x *ClaimBatchRequest) GetMaxBytes() int32 {
	if x != nil {
		return x.MaxBytes
	}
	return 0
}

func (x *ClaimBatchRequest) GetGroups() []string {
	if x != nil {
		return x.Groups
	}
	return nil
}

func (x *ClaimBatchRequest) GetMaxRun() int32 {
	if x != nil {
		return x.MaxRun
	}
	return 0
}

// The leases of a claim.
type ClaimBatchResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The leases, in the queue's order. With groups: group by group in their turns, the items of a run in the queue's order.
	// Empty if no item was ready.
	Leases []*Lease `protobuf:"bytes,1,rep,name=leases,proto3" json:"leases,omitempty"`
	// The first ready items that are larger than max_bytes by themselves, at most 10. They are not leased and not changed.
	// A claim with a larger max_bytes gets them. A claim looks at no more than max_items + 100 ready items. An item that is larger
	// than the service's server.max_message_bytes or limits.max_item_bytes becomes dead when a claim meets it. Enqueue refuses such
	// an item, but another program can insert one, and the columns and checkpoints that workers write can make one.
	TooLarge []*TooLargeItem `protobuf:"bytes,2,rep,name=too_large,json=tooLarge,proto3" json:"too_large,omitempty"`
	// Why there is no lease. HELD_BACK_UNSPECIFIED if there is one.
	HeldBack HeldBack `protobuf:"varint,3,opt,name=held_back,json=heldBack,proto3,enum=leasebroker.v1.HeldBack" json:"held_back,omitempty"`
	// The time to wait before the next claim. It is set if an earlier claim would get nothing. It is also set if this call did not wait
	// because the caller's identity has reached its limit of waiting claims. Absent: the time is not known. A worker may then claim
	// again immediately, with a wait_timeout. If the answer came before the end of its wait_timeout, it pauses for about 100 ms first.
	RetryAfter    *durationpb.Duration `protobuf:"bytes,5,opt,name=retry_after,json=retryAfter,proto3" json:"retry_after,omitempty"` // Number 4 is kept for the time at which the next item becomes ready, 8 and 9 for the columns of all leases in lists by column.
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ClaimBatchResponse) Reset() {
	*x = ClaimBatchResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[1]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ClaimBatchResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ClaimBatchResponse) ProtoMessage() {}

func (x *ClaimBatchResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[1]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ClaimBatchResponse.ProtoReflect.Descriptor instead.
func (*ClaimBatchResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{1}
}

func (x *ClaimBatchResponse) GetLeases() []*Lease {
	if x != nil {
		return x.Leases
	}
	return nil
}

func (x *ClaimBatchResponse) GetTooLarge() []*TooLargeItem {
	if x != nil {
		return x.TooLarge
	}
	return nil
}

func (x *ClaimBatchResponse) GetHeldBack() HeldBack {
	if x != nil {
		return x.HeldBack
	}
	return HeldBack_HELD_BACK_UNSPECIFIED
}

func (x *ClaimBatchResponse) GetRetryAfter() *durationpb.Duration {
	if x != nil {
		return x.RetryAfter
	}
	return nil
}

// A ready item that a claim passed over because of its size.
type TooLargeItem struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The identity of the item, as in Item.key.
	Key string `protobuf:"bytes,1,opt,name=key,proto3" json:"key,omitempty"`
	// The size of its lease in a response, in bytes. It is an estimate that is not too low. On SQL Server 2017 a text
	// counts as in UTF-16.
	SizeBytes     int32 `protobuf:"varint,2,opt,name=size_bytes,json=sizeBytes,proto3" json:"size_bytes,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *TooLargeItem) Reset() {
	*x = TooLargeItem{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[2]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *TooLargeItem) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*TooLargeItem) ProtoMessage() {}

func (x *TooLargeItem) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[2]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use TooLargeItem.ProtoReflect.Descriptor instead.
func (*TooLargeItem) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{2}
}

func (x *TooLargeItem) GetKey() string {
	if x != nil {
		return x.Key
	}
	return ""
}

func (x *TooLargeItem) GetSizeBytes() int32 {
	if x != nil {
		return x.SizeBytes
	}
	return 0
}

// The right to work on one item until a point in time.
type Lease struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The id of the lease, for Heartbeat, Complete, Fail and Release. It is opaque and cannot be guessed. At most 4,096
	// characters.
	LeaseId string `protobuf:"bytes,1,opt,name=lease_id,json=leaseId,proto3" json:"lease_id,omitempty"`
	// The leased item.
	Item *Item `protobuf:"bytes,2,opt,name=item,proto3" json:"item,omitempty"`
	// The number of this attempt, 1 for the first.
	Attempt int32 `protobuf:"varint,3,opt,name=attempt,proto3" json:"attempt,omitempty"`
	// A number that grows with every claim of this item. Send it to the systems that you write to. They can then refuse a
	// worker whose lease was lost, because its number is smaller than one that they have seen.
	FencingToken int64 `protobuf:"varint,4,opt,name=fencing_token,json=fencingToken,proto3" json:"fencing_token,omitempty"`
	// The time at which the lease expires, by the database's clock.
	ExpireTime *timestamppb.Timestamp `protobuf:"bytes,5,opt,name=expire_time,json=expireTime,proto3" json:"expire_time,omitempty"`
	// The time that the lease had left when the database answered. Workers that use it need no synchronized clock.
	TimeLeft *durationpb.Duration `protobuf:"bytes,6,opt,name=time_left,json=timeLeft,proto3" json:"time_left,omitempty"`
	// The W3C trace context of the lease's span, 55 characters. Use it as the parent of the worker's spans. Empty: the broker
	// records no spans, and the item's producer has no trace.
	TraceParent string `protobuf:"bytes,7,opt,name=trace_parent,json=traceParent,proto3" json:"trace_parent,omitempty"`
	// The number of attempts after which a failure or an expiry makes the item dead. 0: no limit.
	MaxAttempts int32 `protobuf:"varint,8,opt,name=max_attempts,json=maxAttempts,proto3" json:"max_attempts,omitempty"`
	// The time at which the item became ready, by the database's clock. Absent if it is not known: another program has
	// inserted the row into a SQLite file, the row was in its table before the queue was set up, or the response repeats the
	// leases of an earlier call with the same request_id.
	ReadyTime *timestamppb.Timestamp `protobuf:"bytes,9,opt,name=ready_time,json=readyTime,proto3" json:"ready_time,omitempty"`
	// The checkpoint that an earlier lease of this item stored last. Continue the work from there. Absent: there is none,
	// or the queue has no checkpoints.
	Checkpoint []byte `protobuf:"bytes,10,opt,name=checkpoint,proto3,oneof" json:"checkpoint,omitempty"`
	// The number of the run to which the lease belongs: leases of one response with the same number are one run, in the order
	// of the response. If an item of the run fails, is released, is cancelled or expires, the leases of the later items are
	// released with it: they have the outcome OUTCOME_LEASE_LOST from then on, and their attempts do not count. 0: the lease
	// belongs to no run, because the claim asked for none, the item belongs to no group, or the last lease of the item has
	// expired (HELD_BACK_SUSPECTS).
	Run           int32 `protobuf:"varint,11,opt,name=run,proto3" json:"run,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Lease) Reset() {
	*x = Lease{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[3]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Lease) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Lease) ProtoMessage() {}

func (x *Lease) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[3]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Lease.ProtoReflect.Descriptor instead.
func (*Lease) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{3}
}

func (x *Lease) GetLeaseId() string {
	if x != nil {
		return x.LeaseId
	}
	return ""
}

func (x *Lease) GetItem() *Item {
	if x != nil {
		return x.Item
	}
	return nil
}

func (x *Lease) GetAttempt() int32 {
	if x != nil {
		return x.Attempt
	}
	return 0
}

func (x *Lease) GetFencingToken() int64 {
	if x != nil {
		return x.FencingToken
	}
	return 0
}

func (x *Lease) GetExpireTime() *timestamppb.Timestamp {
	if x != nil {
		return x.ExpireTime
	}
	return nil
}

func (x *Lease) GetTimeLeft() *durationpb.Duration {
	if x != nil {
		return x.TimeLeft
	}
	return nil
}

func (x *Lease) GetTraceParent() string {
	if x != nil {
		return x.TraceParent
	}
	return ""
}

func (x *Lease) GetMaxAttempts() int32 {
	if x != nil {
		return x.MaxAttempts
	}
	return 0
}

func (x *Lease) GetReadyTime() *timestamppb.Timestamp {
	if x != nil {
		return x.ReadyTime
	}
	return nil
}

func (x *Lease) GetCheckpoint() []byte {
	if x != nil {
		return x.Checkpoint
	}
	return nil
}

func (x *Lease) GetRun() int32 {
	if x != nil {
		return x.Run
	}
	return 0
}

// A row of the queue's table.
type Item struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The identity of the item. For one key column it is the value as text, with bytes in lower-case hexadecimal. For
	// several key columns it is a JSON array of the values.
	Key string `protobuf:"bytes,1,opt,name=key,proto3" json:"key,omitempty"`
	// The values of the columns that the queue is configured to send to workers, by column name.
	Columns       map[string]*ColumnValue `protobuf:"bytes,2,rep,name=columns,proto3" json:"columns,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Item) Reset() {
	*x = Item{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[4]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Item) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Item) ProtoMessage() {}

func (x *Item) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[4]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Item.ProtoReflect.Descriptor instead.
func (*Item) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{4}
}

func (x *Item) GetKey() string {
	if x != nil {
		return x.Key
	}
	return ""
}

func (x *Item) GetColumns() map[string]*ColumnValue {
	if x != nil {
		return x.Columns
	}
	return nil
}

// The value of a column.
type ColumnValue struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The value, by its type. One of these fields is set. None: the value has a kind that the reader does not know, because the
	// writer is newer. It is not NULL. The service refuses such a value. Numbers 9 to 15 are kept for further kinds: date, time,
	// timestamp with offset, UUID, JSON, unsigned integer.
	//
	// Types that are valid to be assigned to Kind:
	//
	//	*ColumnValue_BoolValue
	//	*ColumnValue_Int64Value
	//	*ColumnValue_DoubleValue
	//	*ColumnValue_StringValue
	//	*ColumnValue_BytesValue
	//	*ColumnValue_TimestampValue
	//	*ColumnValue_DecimalValue
	//	*ColumnValue_NullValue
	Kind          isColumnValue_Kind `protobuf_oneof:"kind"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ColumnValue) Reset() {
	*x = ColumnValue{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[5]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ColumnValue) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ColumnValue) ProtoMessage() {}

func (x *ColumnValue) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[5]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ColumnValue.ProtoReflect.Descriptor instead.
func (*ColumnValue) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{5}
}

func (x *ColumnValue) GetKind() isColumnValue_Kind {
	if x != nil {
		return x.Kind
	}
	return nil
}

func (x *ColumnValue) GetBoolValue() bool {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_BoolValue); ok {
			return x.BoolValue
		}
	}
	return false
}

func (x *ColumnValue) GetInt64Value() int64 {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_Int64Value); ok {
			return x.Int64Value
		}
	}
	return 0
}

func (x *ColumnValue) GetDoubleValue() float64 {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_DoubleValue); ok {
			return x.DoubleValue
		}
	}
	return 0
}

func (x *ColumnValue) GetStringValue() string {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_StringValue); ok {
			return x.StringValue
		}
	}
	return ""
}

func (x *ColumnValue) GetBytesValue() []byte {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_BytesValue); ok {
			return x.BytesValue
		}
	}
	return nil
}

func (x *ColumnValue) GetTimestampValue() *timestamppb.Timestamp {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_TimestampValue); ok {
			return x.TimestampValue
		}
	}
	return nil
}

func (x *ColumnValue) GetDecimalValue() string {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_DecimalValue); ok {
			return x.DecimalValue
		}
	}
	return ""
}

func (x *ColumnValue) GetNullValue() structpb.NullValue {
	if x != nil {
		if x, ok := x.Kind.(*ColumnValue_NullValue); ok {
			return x.NullValue
		}
	}
	return structpb.NullValue(0)
}

type isColumnValue_Kind interface {
	isColumnValue_Kind()
}

type ColumnValue_BoolValue struct {
	// True or false.
	BoolValue bool `protobuf:"varint,1,opt,name=bool_value,json=boolValue,proto3,oneof"`
}

type ColumnValue_Int64Value struct {
	// A signed integer of up to 64 bits.
	Int64Value int64 `protobuf:"varint,2,opt,name=int64_value,json=int64Value,proto3,oneof"`
}

type ColumnValue_DoubleValue struct {
	// A floating-point number. NaN is refused.
	DoubleValue float64 `protobuf:"fixed64,3,opt,name=double_value,json=doubleValue,proto3,oneof"`
}

type ColumnValue_StringValue struct {
	// Text.
	StringValue string `protobuf:"bytes,4,opt,name=string_value,json=stringValue,proto3,oneof"`
}

type ColumnValue_BytesValue struct {
	// Bytes.
	BytesValue []byte `protobuf:"bytes,5,opt,name=bytes_value,json=bytesValue,proto3,oneof"`
}

type ColumnValue_TimestampValue struct {
	// A point in time in UTC, in the years 0001 to 9999.
	TimestampValue *timestamppb.Timestamp `protobuf:"bytes,6,opt,name=timestamp_value,json=timestampValue,proto3,oneof"`
}

type ColumnValue_DecimalValue struct {
	// An exact decimal number as text, such as "-12.50". Decimal and money columns have such values.
	DecimalValue string `protobuf:"bytes,7,opt,name=decimal_value,json=decimalValue,proto3,oneof"`
}

type ColumnValue_NullValue struct {
	// SQL NULL.
	NullValue structpb.NullValue `protobuf:"varint,8,opt,name=null_value,json=nullValue,proto3,enum=google.protobuf.NullValue,oneof"`
}

func (*ColumnValue_BoolValue) isColumnValue_Kind() {}

func (*ColumnValue_Int64Value) isColumnValue_Kind() {}

func (*ColumnValue_DoubleValue) isColumnValue_Kind() {}

func (*ColumnValue_StringValue) isColumnValue_Kind() {}

func (*ColumnValue_BytesValue) isColumnValue_Kind() {}

func (*ColumnValue_TimestampValue) isColumnValue_Kind() {}

func (*ColumnValue_DecimalValue) isColumnValue_Kind() {}

func (*ColumnValue_NullValue) isColumnValue_Kind() {}

// Why one entry of a call was refused.
type Refusal struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The kind of problem, for programs.
	Reason RefusalReason `protobuf:"varint,1,opt,name=reason,proto3,enum=leasebroker.v1.RefusalReason" json:"reason,omitempty"`
	// The path of the refused field in the entry, such as follow_ups[1].item.columns["Total"]. Empty: the database refused the
	// change, and the field is not known.
	Field string `protobuf:"bytes,2,opt,name=field,proto3" json:"field,omitempty"`
	// The name of the constraint, index, foreign key or trigger that refused the change, as the database gives it. Empty: there
	// is none, or the database does not name it.
	Constraint string `protobuf:"bytes,3,opt,name=constraint,proto3" json:"constraint,omitempty"`
	// The problem as text for people, up to 1,024 bytes. It has no value of a column.
	Message       string `protobuf:"bytes,4,opt,name=message,proto3" json:"message,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Refusal) Reset() {
	*x = Refusal{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[6]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Refusal) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Refusal) ProtoMessage() {}

func (x *Refusal) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[6]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Refusal.ProtoReflect.Descriptor instead.
func (*Refusal) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{6}
}

func (x *Refusal) GetReason() RefusalReason {
	if x != nil {
		return x.Reason
	}
	return RefusalReason_REFUSAL_REASON_UNSPECIFIED
}

func (x *Refusal) GetField() string {
	if x != nil {
		return x.Field
	}
	return ""
}

func (x *Refusal) GetConstraint() string {
	if x != nil {
		return x.Constraint
	}
	return ""
}

func (x *Refusal) GetMessage() string {
	if x != nil {
		return x.Message
	}
	return ""
}

// Extends leases of one queue.
type HeartbeatRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue that the leases belong to. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The leases to extend, up to 1,000.
	Renewals []*Renewal `protobuf:"bytes,2,rep,name=renewals,proto3" json:"renewals,omitempty"`
	// The duration of each lease from now, 1 second to 12 hours unless the queue sets other bounds. Absent: each lease
	// lasts as long as it was claimed for, by the call that returned this lease id.
	LeaseDuration *durationpb.Duration `protobuf:"bytes,3,opt,name=lease_duration,json=leaseDuration,proto3" json:"lease_duration,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *HeartbeatRequest) Reset() {
	*x = HeartbeatRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[7]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *HeartbeatRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*HeartbeatRequest) ProtoMessage() {}

func (x *HeartbeatRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[7]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use HeartbeatRequest.ProtoReflect.Descriptor instead.
func (*HeartbeatRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{7}
}

func (x *HeartbeatRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *HeartbeatRequest) GetRenewals() []*Renewal {
	if x != nil {
		return x.Renewals
	}
	return nil
}

func (x *HeartbeatRequest) GetLeaseDuration() *durationpb.Duration {
	if x != nil {
		return x.LeaseDuration
	}
	return nil
}

// Extends one lease.
type Renewal struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The lease on the item.
	LeaseId string `protobuf:"bytes,1,opt,name=lease_id,json=leaseId,proto3" json:"lease_id,omitempty"`
	// A checkpoint: bytes that describe how far the work on the item has come. Their form is the worker's own. The statement
	// that extends the lease stores them on the row, so only if the lease is held: a late worker never overwrites the
	// checkpoint of a newer one. The next lease of the item has it as Lease.checkpoint, also after an expiry or a
	// cancellation. A completion removes it. Absent: the stored checkpoint stays. Empty: it is removed. Only for queues
	// whose setting `checkpoint` is on; up to its max_bytes, 4,096 unless configured.
	Checkpoint    []byte `protobuf:"bytes,2,opt,name=checkpoint,proto3,oneof" json:"checkpoint,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Renewal) Reset() {
	*x = Renewal{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[8]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Renewal) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Renewal) ProtoMessage() {}

func (x *Renewal) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[8]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Renewal.ProtoReflect.Descriptor instead.
func (*Renewal) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{8}
}

func (x *Renewal) GetLeaseId() string {
	if x != nil {
		return x.LeaseId
	}
	return ""
}

func (x *Renewal) GetCheckpoint() []byte {
	if x != nil {
		return x.Checkpoint
	}
	return nil
}

// The results of a heartbeat.
type HeartbeatResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// One result per renewal, in request order.
	Results       []*HeartbeatResult `protobuf:"bytes,1,rep,name=results,proto3" json:"results,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *HeartbeatResponse) Reset() {
	*x = HeartbeatResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[9]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *HeartbeatResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*HeartbeatResponse) ProtoMessage() {}

func (x *HeartbeatResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[9]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use HeartbeatResponse.ProtoReflect.Descriptor instead.
func (*HeartbeatResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{9}
}

func (x *HeartbeatResponse) GetResults() []*HeartbeatResult {
	if x != nil {
		return x.Results
	}
	return nil
}

// The result of a heartbeat for one lease.
type HeartbeatResult struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// OUTCOME_APPLIED, OUTCOME_LEASE_LOST, or OUTCOME_REFUSED for a checkpoint that cannot be stored, or for a row that another
	// transaction has locked. A refused renewal does not extend the lease. With REFUSAL_REASON_LOCKED, send it again as it is after
	// a moment. With another reason, send it again without the checkpoint.
	Outcome Outcome `protobuf:"varint,2,opt,name=outcome,proto3,enum=leasebroker.v1.Outcome" json:"outcome,omitempty"`
	// The time at which the lease now expires, by the database's clock. Only for OUTCOME_APPLIED.
	ExpireTime *timestamppb.Timestamp `protobuf:"bytes,3,opt,name=expire_time,json=expireTime,proto3" json:"expire_time,omitempty"`
	// The time that the lease had left when the database answered. Only for OUTCOME_APPLIED.
	TimeLeft *durationpb.Duration `protobuf:"bytes,4,opt,name=time_left,json=timeLeft,proto3" json:"time_left,omitempty"`
	// The present state of the item, also if the lease is lost. A worker that has completed or failed the item itself can
	// tell by it that its lease was settled and not lost. ITEM_STATE_LEASED of a lost lease: another worker holds the item,
	// or the lease has expired and the item was not made ready yet. ITEM_STATE_UNSPECIFIED: the row no longer exists, for
	// example because its completion removed it, or the lease id is invalid.
	State ItemState `protobuf:"varint,5,opt,name=state,proto3,enum=leasebroker.v1.ItemState" json:"state,omitempty"`
	// The reason given to CancelLeases, if the lease was cancelled and the item has not been claimed since then.
	CancelReason string `protobuf:"bytes,6,opt,name=cancel_reason,json=cancelReason,proto3" json:"cancel_reason,omitempty"`
	// Only for OUTCOME_REFUSED.
	Refusal       *Refusal `protobuf:"bytes,7,opt,name=refusal,proto3" json:"refusal,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *HeartbeatResult) Reset() {
	*x = HeartbeatResult{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[10]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *HeartbeatResult) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*HeartbeatResult) ProtoMessage() {}

func (x *HeartbeatResult) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[10]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use HeartbeatResult.ProtoReflect.Descriptor instead.
func (*HeartbeatResult) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{10}
}

func (x *HeartbeatResult) GetOutcome() Outcome {
	if x != nil {
		return x.Outcome
	}
	return Outcome_OUTCOME_UNSPECIFIED
}

func (x *HeartbeatResult) GetExpireTime() *timestamppb.Timestamp {
	if x != nil {
		return x.ExpireTime
	}
	return nil
}

func (x *HeartbeatResult) GetTimeLeft() *durationpb.Duration {
	if x != nil {
		return x.TimeLeft
	}
	return nil
}

func (x *HeartbeatResult) GetState() ItemState {
	if x != nil {
		return x.State
	}
	return ItemState_ITEM_STATE_UNSPECIFIED
}

func (x *HeartbeatResult) GetCancelReason() string {
	if x != nil {
		return x.CancelReason
	}
	return ""
}

func (x *HeartbeatResult) GetRefusal() *Refusal {
	if x != nil {
		return x.Refusal
	}
	return nil
}

// Completes items of one queue.
type CompleteRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue that the leases belong to. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The completions, up to 1,000, with up to 1,000 follow-ups in total. If a lease is in the list twice, the second entry is
	// treated as in a later call. Failures and releases are too.
	Completions []*Completion `protobuf:"bytes,2,rep,name=completions,proto3" json:"completions,omitempty"`
	// A claim of items from the same queue. A worker that processes one item after another then needs half as many calls.
	// Absent: the call claims nothing.
	Next          *NextClaim `protobuf:"bytes,3,opt,name=next,proto3" json:"next,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *CompleteRequest) Reset() {
	*x = CompleteRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[11]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *CompleteRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*CompleteRequest) ProtoMessage() {}

func (x *CompleteRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[11]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use CompleteRequest.ProtoReflect.Descriptor instead.
func (*CompleteRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{11}
}

func (x *CompleteRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *CompleteRequest) GetCompletions() []*Completion {
	if x != nil {
		return x.Completions
	}
	return nil
}

func (x *CompleteRequest) GetNext() *NextClaim {
	if x != nil {
		return x.Next
	}
	return nil
}

// A claim that is part of a Complete or Fail call. It does not wait for items. Use ClaimBatch to wait.
//
// The broker runs the settlements and the claim side by side. They often share one commit, so that the call costs one
// instead of two. They can also be two transactions, in either order: another reader of the table may for a moment see
// the new leases while the settled ones are still held. The response is sent after both.
type NextClaim struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the worker, as in ClaimBatchRequest. Required.
	WorkerId string `protobuf:"bytes,1,opt,name=worker_id,json=workerId,proto3" json:"worker_id,omitempty"`
	// The maximum number of items, as in ClaimBatchRequest. Required.
	MaxItems int32 `protobuf:"varint,2,opt,name=max_items,json=maxItems,proto3" json:"max_items,omitempty"`
	// The duration of the leases, as in ClaimBatchRequest. Absent: the queue's default.
	LeaseDuration *durationpb.Duration `protobuf:"bytes,3,opt,name=lease_duration,json=leaseDuration,proto3" json:"lease_duration,omitempty"`
	// UUID of this claim, as in ClaimBatchRequest. If you send the whole call again with the same id, you get the same
	// leases. Empty: every call claims new items.
	RequestId string `protobuf:"bytes,4,opt,name=request_id,json=requestId,proto3" json:"request_id,omitempty"`
	// The maximum size of the response in bytes, as in ClaimBatchRequest. The results of the settlements count too.
	MaxBytes int32 `protobuf:"varint,5,opt,name=max_bytes,json=maxBytes,proto3" json:"max_bytes,omitempty"`
	// Only items of these groups, as in ClaimBatchRequest.
	Groups []string `protobuf:"bytes,6,rep,name=groups,proto3" json:"groups,omitempty"`
	// The maximum number of consecutive items of a group, as in ClaimBatchRequest.
	MaxRun        int32 `protobuf:"varint,7,opt,name=max_run,json=maxRun,proto3" json:"max_run,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *NextClaim) Reset() {
	*x = NextClaim{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[12]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *NextClaim) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*NextClaim) ProtoMessage() {}

func (x *NextClaim) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[12]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use NextClaim.ProtoReflect.Descriptor instead.
func (*NextClaim) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{12}
}

func (x *NextClaim) GetWorkerId() string {
	if x != nil {
		return x.WorkerId
	}
	return ""
}

func (x *NextClaim) GetMaxItems() int32 {
	if x != nil {
		return x.MaxItems
	}
	return 0
}

func (x *NextClaim) GetLeaseDuration() *durationpb.Duration {
	if x != nil {
		return x.LeaseDuration
	}
	return nil
}

func (x *NextClaim) GetRequestId() string {
	if x != nil {
		return x.RequestId
	}
	return ""
}

func (x *NextClaim) GetMaxBytes() int32 {
	if x != nil {
		return x.MaxBytes
	}
	return 0
}

func (x *NextClaim) GetGroups() []string {
	if x != nil {
		return x.Groups
	}
	return nil
}

func (x *NextClaim) GetMaxRun() int32 {
	if x != nil {
		return x.MaxRun
	}
	return 0
}

// Completes one item.
type Completion struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The lease on the item.
	LeaseId string `protobuf:"bytes,1,opt,name=lease_id,json=leaseId,proto3" json:"lease_id,omitempty"`
	// Items to add to queues. They are added in the same transaction as the completion. If the lease is lost, they are
	// not added.
	FollowUps []*FollowUp `protobuf:"bytes,2,rep,name=follow_ups,json=followUps,proto3" json:"follow_ups,omitempty"`
	// Values to write into columns of the item's own row, by column name. The statement that completes the item writes
	// them, only if the lease is held: row, state and follow-ups change together or not at all. A repeated Complete does
	// not write again. Only columns that the queue's setting `writable` lists. A column that is not listed or cannot store
	// the value, or whose constraint refuses it, refuses this completion (OUTCOME_REFUSED). An archived row has the
	// written values.
	Columns       map[string]*ColumnValue `protobuf:"bytes,3,rep,name=columns,proto3" json:"columns,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Completion) Reset() {
	*x = Completion{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[13]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Completion) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Completion) ProtoMessage() {}

func (x *Completion) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[13]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Completion.ProtoReflect.Descriptor instead.
func (*Completion) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{13}
}

func (x *Completion) GetLeaseId() string {
	if x != nil {
		return x.LeaseId
	}
	return ""
}

func (x *Completion) GetFollowUps() []*FollowUp {
	if x != nil {
		return x.FollowUps
	}
	return nil
}

func (x *Completion) GetColumns() map[string]*ColumnValue {
	if x != nil {
		return x.Columns
	}
	return nil
}

// An item that a completion adds.
type FollowUp struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue that the item is added to. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The item to add. Required.
	Item          *NewItem `protobuf:"bytes,2,opt,name=item,proto3" json:"item,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FollowUp) Reset() {
	*x = FollowUp{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[14]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FollowUp) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FollowUp) ProtoMessage() {}

func (x *FollowUp) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[14]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FollowUp.ProtoReflect.Descriptor instead.
func (*FollowUp) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{14}
}

func (x *FollowUp) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *FollowUp) GetItem() *NewItem {
	if x != nil {
		return x.Item
	}
	return nil
}

// The results of a Complete call.
type CompleteResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// One result per completion, in request order.
	Results []*SettleResult `protobuf:"bytes,1,rep,name=results,proto3" json:"results,omitempty"`
	// The result of the claim in `next`. It does not depend on the results of the completions. Absent: the request had no
	// `next`, or the claim failed.
	Next *ClaimBatchResponse `protobuf:"bytes,4,opt,name=next,proto3" json:"next,omitempty"`
	// The error of the claim in `next`, if only the claim failed. Absent: it did not fail.
	NextError     *CallError `protobuf:"bytes,5,opt,name=next_error,json=nextError,proto3" json:"next_error,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *CompleteResponse) Reset() {
	*x = CompleteResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[15]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *CompleteResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*CompleteResponse) ProtoMessage() {}

func (x *CompleteResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[15]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use CompleteResponse.ProtoReflect.Descriptor instead.
func (*CompleteResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{15}
}

func (x *CompleteResponse) GetResults() []*SettleResult {
	if x != nil {
		return x.Results
	}
	return nil
}

func (x *CompleteResponse) GetNext() *ClaimBatchResponse {
	if x != nil {
		return x.Next
	}
	return nil
}

func (x *CompleteResponse) GetNextError() *CallError {
	if x != nil {
		return x.NextError
	}
	return nil
}

// The error of a call, as a message. It has the same contents as the status, the google.rpc.ErrorInfo and the
// google.rpc.RetryInfo of a call that fails alone.
type CallError struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The gRPC status code, such as 14 for UNAVAILABLE.
	Code int32 `protobuf:"varint,1,opt,name=code,proto3" json:"code,omitempty"`
	// The reason, such as STORE_UNAVAILABLE.
	Reason string `protobuf:"bytes,2,opt,name=reason,proto3" json:"reason,omitempty"`
	// The problem as text for people, up to 1,024 bytes.
	Message string `protobuf:"bytes,3,opt,name=message,proto3" json:"message,omitempty"`
	// The metadata, such as applied.
	Metadata map[string]string `protobuf:"bytes,4,rep,name=metadata,proto3" json:"metadata,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	// The time to wait before the call is sent again. Absent: sending it again does not help.
	RetryDelay    *durationpb.Duration `protobuf:"bytes,5,opt,name=retry_delay,json=retryDelay,proto3" json:"retry_delay,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *CallError) Reset() {
	*x = CallError{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[16]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *CallError) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*CallError) ProtoMessage() {}

func (x *CallError) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[16]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use CallError.ProtoReflect.Descriptor instead.
func (*CallError) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{16}
}

func (x *CallError) GetCode() int32 {
	if x != nil {
		return x.Code
	}
	return 0
}

func (x *CallError) GetReason() string {
	if x != nil {
		return x.Reason
	}
	return ""
}

func (x *CallError) GetMessage() string {
	if x != nil {
		return x.Message
	}
	return ""
}

func (x *CallError) GetMetadata() map[string]string {
	if x != nil {
		return x.Metadata
	}
	return nil
}

func (x *CallError) GetRetryDelay() *durationpb.Duration {
	if x != nil {
		return x.RetryDelay
	}
	return nil
}

// Reports failures of items of one queue.
type FailRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue that the leases belong to. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The failures, up to 1,000.
	Failures []*Failure `protobuf:"bytes,2,rep,name=failures,proto3" json:"failures,omitempty"`
	// A claim of items from the same queue, as in CompleteRequest. Absent: the call claims nothing.
	Next          *NextClaim `protobuf:"bytes,3,opt,name=next,proto3" json:"next,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FailRequest) Reset() {
	*x = FailRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[17]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FailRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FailRequest) ProtoMessage() {}

func (x *FailRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[17]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FailRequest.ProtoReflect.Descriptor instead.
func (*FailRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{17}
}

func (x *FailRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *FailRequest) GetFailures() []*Failure {
	if x != nil {
		return x.Failures
	}
	return nil
}

func (x *FailRequest) GetNext() *NextClaim {
	if x != nil {
		return x.Next
	}
	return nil
}

// Reports that the work on one item failed.
type Failure struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The lease on the item.
	LeaseId string `protobuf:"bytes,1,opt,name=lease_id,json=leaseId,proto3" json:"lease_id,omitempty"`
	// A description of the error. It is stored on the row, cut to 1,024 UTF-16 units.
	ErrorMessage string `protobuf:"bytes,2,opt,name=error_message,json=errorMessage,proto3" json:"error_message,omitempty"`
	// The delay before the next attempt, up to 366 days. Absent: the queue's backoff. Ignored if no attempts are left,
	// and with dead_letter.
	RetryDelay *durationpb.Duration `protobuf:"bytes,3,opt,name=retry_delay,json=retryDelay,proto3" json:"retry_delay,omitempty"`
	// True: the item becomes dead immediately, even if attempts are left.
	DeadLetter bool `protobuf:"varint,4,opt,name=dead_letter,json=deadLetter,proto3" json:"dead_letter,omitempty"`
	// Values to write into columns of the item's own row, as in Completion. The statement that records the failure writes
	// them.
	Columns map[string]*ColumnValue `protobuf:"bytes,5,rep,name=columns,proto3" json:"columns,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	// A checkpoint for the next attempt, as in Renewal.
	Checkpoint    []byte `protobuf:"bytes,6,opt,name=checkpoint,proto3,oneof" json:"checkpoint,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Failure) Reset() {
	*x = Failure{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[18]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Failure) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Failure) ProtoMessage() {}

func (x *Failure) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[18]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Failure.ProtoReflect.Descriptor instead.
func (*Failure) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{18}
}

func (x *Failure) GetLeaseId() string {
	if x != nil {
		return x.LeaseId
	}
	return ""
}

func (x *Failure) GetErrorMessage() string {
	if x != nil {
		return x.ErrorMessage
	}
	return ""
}

func (x *Failure) GetRetryDelay() *durationpb.Duration {
	if x != nil {
		return x.RetryDelay
	}
	return nil
}

func (x *Failure) GetDeadLetter() bool {
	if x != nil {
		return x.DeadLetter
	}
	return false
}

func (x *Failure) GetColumns() map[string]*ColumnValue {
	if x != nil {
		return x.Columns
	}
	return nil
}

func (x *Failure) GetCheckpoint() []byte {
	if x != nil {
		return x.Checkpoint
	}
	return nil
}

// The results of a Fail call.
type FailResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// One result per failure, in request order.
	Results []*SettleResult `protobuf:"bytes,1,rep,name=results,proto3" json:"results,omitempty"`
	// The result of the claim in `next`, as in CompleteResponse.
	Next *ClaimBatchResponse `protobuf:"bytes,4,opt,name=next,proto3" json:"next,omitempty"`
	// The error of the claim in `next`, as in CompleteResponse.
	NextError     *CallError `protobuf:"bytes,5,opt,name=next_error,json=nextError,proto3" json:"next_error,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FailResponse) Reset() {
	*x = FailResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[19]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FailResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FailResponse) ProtoMessage() {}

func (x *FailResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[19]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FailResponse.ProtoReflect.Descriptor instead.
func (*FailResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{19}
}

func (x *FailResponse) GetResults() []*SettleResult {
	if x != nil {
		return x.Results
	}
	return nil
}

func (x *FailResponse) GetNext() *ClaimBatchResponse {
	if x != nil {
		return x.Next
	}
	return nil
}

func (x *FailResponse) GetNextError() *CallError {
	if x != nil {
		return x.NextError
	}
	return nil
}

// Releases items of one queue.
type ReleaseRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue that the leases belong to. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The leases to release, up to 1,000.
	Releases      []*Release `protobuf:"bytes,2,rep,name=releases,proto3" json:"releases,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseRequest) Reset() {
	*x = ReleaseRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[20]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseRequest) ProtoMessage() {}

func (x *ReleaseRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[20]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseRequest.ProtoReflect.Descriptor instead.
func (*ReleaseRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{20}
}

func (x *ReleaseRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *ReleaseRequest) GetReleases() []*Release {
	if x != nil {
		return x.Releases
	}
	return nil
}

// Releases one item.
type Release struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The lease on the item.
	LeaseId string `protobuf:"bytes,1,opt,name=lease_id,json=leaseId,proto3" json:"lease_id,omitempty"`
	// The delay before the item is ready again, up to 366 days. Absent: it is ready immediately.
	Delay *durationpb.Duration `protobuf:"bytes,2,opt,name=delay,proto3" json:"delay,omitempty"`
	// A checkpoint for the next lease, as in Renewal. A worker that gives up its work on shutdown stores its progress so.
	Checkpoint    []byte `protobuf:"bytes,3,opt,name=checkpoint,proto3,oneof" json:"checkpoint,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Release) Reset() {
	*x = Release{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[21]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Release) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Release) ProtoMessage() {}

func (x *Release) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[21]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Release.ProtoReflect.Descriptor instead.
func (*Release) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{21}
}

func (x *Release) GetLeaseId() string {
	if x != nil {
		return x.LeaseId
	}
	return ""
}

func (x *Release) GetDelay() *durationpb.Duration {
	if x != nil {
		return x.Delay
	}
	return nil
}

func (x *Release) GetCheckpoint() []byte {
	if x != nil {
		return x.Checkpoint
	}
	return nil
}

// The results of a Release call.
type ReleaseResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// One result per release, in request order.
	Results       []*SettleResult `protobuf:"bytes,1,rep,name=results,proto3" json:"results,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseResponse) Reset() {
	*x = ReleaseResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[22]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseResponse) ProtoMessage() {}

func (x *ReleaseResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[22]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseResponse.ProtoReflect.Descriptor instead.
func (*ReleaseResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{22}
}

func (x *ReleaseResponse) GetResults() []*SettleResult {
	if x != nil {
		return x.Results
	}
	return nil
}

// Releases the leases of claims of one queue.
type ReleaseClaimsRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue that was claimed from. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The name of the worker that sent the claims, as in these claims. Required.
	WorkerId string `protobuf:"bytes,2,opt,name=worker_id,json=workerId,proto3" json:"worker_id,omitempty"`
	// The request ids of claims of this worker, of ClaimBatch calls or of `next`, up to 1,000.
	RequestIds    []string `protobuf:"bytes,3,rep,name=request_ids,json=requestIds,proto3" json:"request_ids,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseClaimsRequest) Reset() {
	*x = ReleaseClaimsRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[23]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseClaimsRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseClaimsRequest) ProtoMessage() {}

func (x *ReleaseClaimsRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[23]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseClaimsRequest.ProtoReflect.Descriptor instead.
func (*ReleaseClaimsRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{23}
}

func (x *ReleaseClaimsRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *ReleaseClaimsRequest) GetWorkerId() string {
	if x != nil {
		return x.WorkerId
	}
	return ""
}

func (x *ReleaseClaimsRequest) GetRequestIds() []string {
	if x != nil {
		return x.RequestIds
	}
	return nil
}

// The result of a ReleaseClaims call.
type ReleaseClaimsResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The number of leases that this call has released. If the call is sent again, those that it has released before do not
	// count.
	Released      int32 `protobuf:"varint,1,opt,name=released,proto3" json:"released,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseClaimsResponse) Reset() {
	*x = ReleaseClaimsResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[24]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseClaimsResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseClaimsResponse) ProtoMessage() {}

func (x *ReleaseClaimsResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[24]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseClaimsResponse.ProtoReflect.Descriptor instead.
func (*ReleaseClaimsResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{24}
}

func (x *ReleaseClaimsResponse) GetReleased() int32 {
	if x != nil {
		return x.Released
	}
	return 0
}

// The result of settling one lease: of a completion, a failure or a release.
type SettleResult struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// OUTCOME_APPLIED, OUTCOME_LEASE_LOST or OUTCOME_REFUSED. For a completion also OUTCOME_GONE.
	Outcome Outcome `protobuf:"varint,2,opt,name=outcome,proto3,enum=leasebroker.v1.Outcome" json:"outcome,omitempty"`
	// The state of the item after the call. ITEM_STATE_UNSPECIFIED unless the outcome is OUTCOME_APPLIED.
	State ItemState `protobuf:"varint,3,opt,name=state,proto3,enum=leasebroker.v1.ItemState" json:"state,omitempty"`
	// True: an earlier call of the same kind has settled the lease, and this call changed nothing. Only for OUTCOME_APPLIED.
	AlreadyApplied bool `protobuf:"varint,5,opt,name=already_applied,json=alreadyApplied,proto3" json:"already_applied,omitempty"`
	// Only for OUTCOME_REFUSED.
	Refusal       *Refusal `protobuf:"bytes,6,opt,name=refusal,proto3" json:"refusal,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *SettleResult) Reset() {
	*x = SettleResult{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[25]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *SettleResult) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*SettleResult) ProtoMessage() {}

func (x *SettleResult) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[25]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use SettleResult.ProtoReflect.Descriptor instead.
func (*SettleResult) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{25}
}

func (x *SettleResult) GetOutcome() Outcome {
	if x != nil {
		return x.Outcome
	}
	return Outcome_OUTCOME_UNSPECIFIED
}

func (x *SettleResult) GetState() ItemState {
	if x != nil {
		return x.State
	}
	return ItemState_ITEM_STATE_UNSPECIFIED
}

func (x *SettleResult) GetAlreadyApplied() bool {
	if x != nil {
		return x.AlreadyApplied
	}
	return false
}

func (x *SettleResult) GetRefusal() *Refusal {
	if x != nil {
		return x.Refusal
	}
	return nil
}

// Wakes the claims that wait for items of one queue.
type WakeRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue. Required.
	Queue         string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *WakeRequest) Reset() {
	*x = WakeRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[26]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *WakeRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*WakeRequest) ProtoMessage() {}

func (x *WakeRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[26]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use WakeRequest.ProtoReflect.Descriptor instead.
func (*WakeRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{26}
}

func (x *WakeRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

// The answer to a wake-up.
type WakeResponse struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *WakeResponse) Reset() {
	*x = WakeResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[27]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *WakeResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*WakeResponse) ProtoMessage() {}

func (x *WakeResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[27]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use WakeResponse.ProtoReflect.Descriptor instead.
func (*WakeResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{27}
}

// Adds items to one queue.
type EnqueueRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of the queue. Required.
	Queue string `protobuf:"bytes,1,opt,name=queue,proto3" json:"queue,omitempty"`
	// The items to add, up to 1,000.
	Items []*NewItem `protobuf:"bytes,2,rep,name=items,proto3" json:"items,omitempty"`
	// A UUID that the caller makes for this list of items: 36 characters, not the nil UUID. If the call is sent again
	// with the same id, to any broker of the database, it returns the same keys and adds nothing. The queue remembers the
	// id for its enqueue_memory at least, 24 hours by default, from the commit of the items. A call that failed is not
	// remembered. The trace contexts of the items may differ, all else must be the same. Empty: the call adds its items
	// each time that it is sent. A call without items returns OK with every valid id, which the queue does not remember
	// for it.
	RequestId     string `protobuf:"bytes,3,opt,name=request_id,json=requestId,proto3" json:"request_id,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *EnqueueRequest) Reset() {
	*x = EnqueueRequest{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[28]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *EnqueueRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*EnqueueRequest) ProtoMessage() {}

func (x *EnqueueRequest) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[28]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use EnqueueRequest.ProtoReflect.Descriptor instead.
func (*EnqueueRequest) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{28}
}

func (x *EnqueueRequest) GetQueue() string {
	if x != nil {
		return x.Queue
	}
	return ""
}

func (x *EnqueueRequest) GetItems() []*NewItem {
	if x != nil {
		return x.Items
	}
	return nil
}

func (x *EnqueueRequest) GetRequestId() string {
	if x != nil {
		return x.RequestId
	}
	return ""
}

// An item to add.
type NewItem struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The values of the row's columns, by column name. A column that is left out gets the table's default.
	Columns map[string]*ColumnValue `protobuf:"bytes,1,rep,name=columns,proto3" json:"columns,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	// The delay before the item is ready, up to 366 days. Absent: it is ready immediately.
	Delay *durationpb.Duration `protobuf:"bytes,2,opt,name=delay,proto3" json:"delay,omitempty"`
	// The W3C trace context of the span that adds the item. Of a version after 00, the first four fields count. Leases of
	// the item continue its trace. Empty: for Enqueue that of the call's header traceparent, for a follow-up that of the
	// completed lease.
	TraceParent   string `protobuf:"bytes,3,opt,name=trace_parent,json=traceParent,proto3" json:"trace_parent,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *NewItem) Reset() {
	*x = NewItem{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[29]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *NewItem) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*NewItem) ProtoMessage() {}

func (x *NewItem) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[29]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use NewItem.ProtoReflect.Descriptor instead.
func (*NewItem) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{29}
}

func (x *NewItem) GetColumns() map[string]*ColumnValue {
	if x != nil {
		return x.Columns
	}
	return nil
}

func (x *NewItem) GetDelay() *durationpb.Duration {
	if x != nil {
		return x.Delay
	}
	return nil
}

func (x *NewItem) GetTraceParent() string {
	if x != nil {
		return x.TraceParent
	}
	return ""
}

// The results of an Enqueue call.
type EnqueueResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// One result per item, in request order.
	Results       []*EnqueueResult `protobuf:"bytes,2,rep,name=results,proto3" json:"results,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *EnqueueResponse) Reset() {
	*x = EnqueueResponse{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[30]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *EnqueueResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*EnqueueResponse) ProtoMessage() {}

func (x *EnqueueResponse) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[30]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use EnqueueResponse.ProtoReflect.Descriptor instead.
func (*EnqueueResponse) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{30}
}

func (x *EnqueueResponse) GetResults() []*EnqueueResult {
	if x != nil {
		return x.Results
	}
	return nil
}

// The result of adding one item.
type EnqueueResult struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The identity of the item, in the form of Item.key.
	Key string `protobuf:"bytes,1,opt,name=key,proto3" json:"key,omitempty"`
	// True: an earlier call with the same request_id has added the item, and this call changed nothing.
	AlreadyAdded  bool `protobuf:"varint,2,opt,name=already_added,json=alreadyAdded,proto3" json:"already_added,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *EnqueueResult) Reset() {
	*x = EnqueueResult{}
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[31]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *EnqueueResult) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*EnqueueResult) ProtoMessage() {}

func (x *EnqueueResult) ProtoReflect() protoreflect.Message {
	mi := &file_leasebroker_v1_lease_broker_proto_msgTypes[31]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use EnqueueResult.ProtoReflect.Descriptor instead.
func (*EnqueueResult) Descriptor() ([]byte, []int) {
	return file_leasebroker_v1_lease_broker_proto_rawDescGZIP(), []int{31}
}

func (x *EnqueueResult) GetKey() string {
	if x != nil {
		return x.Key
	}
	return ""
}

func (x *EnqueueResult) GetAlreadyAdded() bool {
	if x != nil {
		return x.AlreadyAdded
	}
	return false
}

var File_leasebroker_v1_lease_broker_proto protoreflect.FileDescriptor

const file_leasebroker_v1_lease_broker_proto_rawDesc = "" +
	"\n" +
	"!leasebroker/v1/lease_broker.proto\x12\x0eleasebroker.v1\x1a\x1egoogle/protobuf/duration.proto\x1a\x1cgoogle/protobuf/struct.proto\x1a\x1fgoogle/protobuf/timestamp.proto\"\xd0\x02\n" +
	"\x11ClaimBatchRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x12\x1b\n" +
	"\tworker_id\x18\x02 \x01(\tR\bworkerId\x12\x1b\n" +
	"\tmax_items\x18\x03 \x01(\x05R\bmaxItems\x12@\n" +
	"\x0elease_duration\x18\x04 \x01(\v2\x19.google.protobuf.DurationR\rleaseDuration\x12<\n" +
	"\fwait_timeout\x18\x05 \x01(\v2\x19.google.protobuf.DurationR\vwaitTimeout\x12\x1d\n" +
	"\n" +
	"request_id\x18\x06 \x01(\tR\trequestId\x12\x1b\n" +
	"\tmax_bytes\x18\a \x01(\x05R\bmaxBytes\x12\x16\n" +
	"\x06groups\x18\b \x03(\tR\x06groups\x12\x17\n" +
	"\amax_run\x18\t \x01(\x05R\x06maxRun\"\xf1\x01\n" +
	"\x12ClaimBatchResponse\x12-\n" +
	"\x06leases\x18\x01 \x03(\v2\x15.leasebroker.v1.LeaseR\x06leases\x129\n" +
	"\ttoo_large\x18\x02 \x03(\v2\x1c.leasebroker.v1.TooLargeItemR\btooLarge\x125\n" +
	"\theld_back\x18\x03 \x01(\x0e2\x18.leasebroker.v1.HeldBackR\bheldBack\x12:\n" +
	"\vretry_after\x18\x05 \x01(\v2\x19.google.protobuf.DurationR\n" +
	"retryAfter\"?\n" +
	"\fTooLargeItem\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x1d\n" +
	"\n" +
	"size_bytes\x18\x02 \x01(\x05R\tsizeBytes\"\xc7\x03\n" +
	"\x05Lease\x12\x19\n" +
	"\blease_id\x18\x01 \x01(\tR\aleaseId\x12(\n" +
	"\x04item\x18\x02 \x01(\v2\x14.leasebroker.v1.ItemR\x04item\x12\x18\n" +
	"\aattempt\x18\x03 \x01(\x05R\aattempt\x12#\n" +
	"\rfencing_token\x18\x04 \x01(\x03R\ffencingToken\x12;\n" +
	"\vexpire_time\x18\x05 \x01(\v2\x1a.google.protobuf.TimestampR\n" +
	"expireTime\x126\n" +
	"\ttime_left\x18\x06 \x01(\v2\x19.google.protobuf.DurationR\btimeLeft\x12!\n" +
	"\ftrace_parent\x18\a \x01(\tR\vtraceParent\x12!\n" +
	"\fmax_attempts\x18\b \x01(\x05R\vmaxAttempts\x129\n" +
	"\n" +
	"ready_time\x18\t \x01(\v2\x1a.google.protobuf.TimestampR\treadyTime\x12#\n" +
	"\n" +
	"checkpoint\x18\n" +
	" \x01(\fH\x00R\n" +
	"checkpoint\x88\x01\x01\x12\x10\n" +
	"\x03run\x18\v \x01(\x05R\x03runB\r\n" +
	"\v_checkpoint\"\xae\x01\n" +
	"\x04Item\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12;\n" +
	"\acolumns\x18\x02 \x03(\v2!.leasebroker.v1.Item.ColumnsEntryR\acolumns\x1aW\n" +
	"\fColumnsEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x121\n" +
	"\x05value\x18\x02 \x01(\v2\x1b.leasebroker.v1.ColumnValueR\x05value:\x028\x01\"\xf1\x02\n" +
	"\vColumnValue\x12\x1f\n" +
	"\n" +
	"bool_value\x18\x01 \x01(\bH\x00R\tboolValue\x12!\n" +
	"\vint64_value\x18\x02 \x01(\x03H\x00R\n" +
	"int64Value\x12#\n" +
	"\fdouble_value\x18\x03 \x01(\x01H\x00R\vdoubleValue\x12#\n" +
	"\fstring_value\x18\x04 \x01(\tH\x00R\vstringValue\x12!\n" +
	"\vbytes_value\x18\x05 \x01(\fH\x00R\n" +
	"bytesValue\x12E\n" +
	"\x0ftimestamp_value\x18\x06 \x01(\v2\x1a.google.protobuf.TimestampH\x00R\x0etimestampValue\x12%\n" +
	"\rdecimal_value\x18\a \x01(\tH\x00R\fdecimalValue\x12;\n" +
	"\n" +
	"null_value\x18\b \x01(\x0e2\x1a.google.protobuf.NullValueH\x00R\tnullValueB\x06\n" +
	"\x04kind\"\x90\x01\n" +
	"\aRefusal\x125\n" +
	"\x06reason\x18\x01 \x01(\x0e2\x1d.leasebroker.v1.RefusalReasonR\x06reason\x12\x14\n" +
	"\x05field\x18\x02 \x01(\tR\x05field\x12\x1e\n" +
	"\n" +
	"constraint\x18\x03 \x01(\tR\n" +
	"constraint\x12\x18\n" +
	"\amessage\x18\x04 \x01(\tR\amessage\"\x9f\x01\n" +
	"\x10HeartbeatRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x123\n" +
	"\brenewals\x18\x02 \x03(\v2\x17.leasebroker.v1.RenewalR\brenewals\x12@\n" +
	"\x0elease_duration\x18\x03 \x01(\v2\x19.google.protobuf.DurationR\rleaseDuration\"X\n" +
	"\aRenewal\x12\x19\n" +
	"\blease_id\x18\x01 \x01(\tR\aleaseId\x12#\n" +
	"\n" +
	"checkpoint\x18\x02 \x01(\fH\x00R\n" +
	"checkpoint\x88\x01\x01B\r\n" +
	"\v_checkpoint\"N\n" +
	"\x11HeartbeatResponse\x129\n" +
	"\aresults\x18\x01 \x03(\v2\x1f.leasebroker.v1.HeartbeatResultR\aresults\"\xd2\x02\n" +
	"\x0fHeartbeatResult\x121\n" +
	"\aoutcome\x18\x02 \x01(\x0e2\x17.leasebroker.v1.OutcomeR\aoutcome\x12;\n" +
	"\vexpire_time\x18\x03 \x01(\v2\x1a.google.protobuf.TimestampR\n" +
	"expireTime\x126\n" +
	"\ttime_left\x18\x04 \x01(\v2\x19.google.protobuf.DurationR\btimeLeft\x12/\n" +
	"\x05state\x18\x05 \x01(\x0e2\x19.leasebroker.v1.ItemStateR\x05state\x12#\n" +
	"\rcancel_reason\x18\x06 \x01(\tR\fcancelReason\x121\n" +
	"\arefusal\x18\a \x01(\v2\x17.leasebroker.v1.RefusalR\arefusalJ\x04\b\x01\x10\x02R\blease_id\"\x94\x01\n" +
	"\x0fCompleteRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x12<\n" +
	"\vcompletions\x18\x02 \x03(\v2\x1a.leasebroker.v1.CompletionR\vcompletions\x12-\n" +
	"\x04next\x18\x03 \x01(\v2\x19.leasebroker.v1.NextClaimR\x04next\"\xf4\x01\n" +
	"\tNextClaim\x12\x1b\n" +
	"\tworker_id\x18\x01 \x01(\tR\bworkerId\x12\x1b\n" +
	"\tmax_items\x18\x02 \x01(\x05R\bmaxItems\x12@\n" +
	"\x0elease_duration\x18\x03 \x01(\v2\x19.google.protobuf.DurationR\rleaseDuration\x12\x1d\n" +
	"\n" +
	"request_id\x18\x04 \x01(\tR\trequestId\x12\x1b\n" +
	"\tmax_bytes\x18\x05 \x01(\x05R\bmaxBytes\x12\x16\n" +
	"\x06groups\x18\x06 \x03(\tR\x06groups\x12\x17\n" +
	"\amax_run\x18\a \x01(\x05R\x06maxRun\"\xfc\x01\n" +
	"\n" +
	"Completion\x12\x19\n" +
	"\blease_id\x18\x01 \x01(\tR\aleaseId\x127\n" +
	"\n" +
	"follow_ups\x18\x02 \x03(\v2\x18.leasebroker.v1.FollowUpR\tfollowUps\x12A\n" +
	"\acolumns\x18\x03 \x03(\v2'.leasebroker.v1.Completion.ColumnsEntryR\acolumns\x1aW\n" +
	"\fColumnsEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x121\n" +
	"\x05value\x18\x02 \x01(\v2\x1b.leasebroker.v1.ColumnValueR\x05value:\x028\x01\"M\n" +
	"\bFollowUp\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x12+\n" +
	"\x04item\x18\x02 \x01(\v2\x17.leasebroker.v1.NewItemR\x04item\"\xe5\x01\n" +
	"\x10CompleteResponse\x126\n" +
	"\aresults\x18\x01 \x03(\v2\x1c.leasebroker.v1.SettleResultR\aresults\x126\n" +
	"\x04next\x18\x04 \x01(\v2\".leasebroker.v1.ClaimBatchResponseR\x04next\x128\n" +
	"\n" +
	"next_error\x18\x05 \x01(\v2\x19.leasebroker.v1.CallErrorR\tnextErrorJ\x04\b\x02\x10\x03J\x04\b\x03\x10\x04R\vnext_leasesR\x0enext_too_large\"\x8f\x02\n" +
	"\tCallError\x12\x12\n" +
	"\x04code\x18\x01 \x01(\x05R\x04code\x12\x16\n" +
	"\x06reason\x18\x02 \x01(\tR\x06reason\x12\x18\n" +
	"\amessage\x18\x03 \x01(\tR\amessage\x12C\n" +
	"\bmetadata\x18\x04 \x03(\v2'.leasebroker.v1.CallError.MetadataEntryR\bmetadata\x12:\n" +
	"\vretry_delay\x18\x05 \x01(\v2\x19.google.protobuf.DurationR\n" +
	"retryDelay\x1a;\n" +
	"\rMetadataEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\tR\x05value:\x028\x01\"\x87\x01\n" +
	"\vFailRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x123\n" +
	"\bfailures\x18\x02 \x03(\v2\x17.leasebroker.v1.FailureR\bfailures\x12-\n" +
	"\x04next\x18\x03 \x01(\v2\x19.leasebroker.v1.NextClaimR\x04next\"\xf3\x02\n" +
	"\aFailure\x12\x19\n" +
	"\blease_id\x18\x01 \x01(\tR\aleaseId\x12#\n" +
	"\rerror_message\x18\x02 \x01(\tR\ferrorMessage\x12:\n" +
	"\vretry_delay\x18\x03 \x01(\v2\x19.google.protobuf.DurationR\n" +
	"retryDelay\x12\x1f\n" +
	"\vdead_letter\x18\x04 \x01(\bR\n" +
	"deadLetter\x12>\n" +
	"\acolumns\x18\x05 \x03(\v2$.leasebroker.v1.Failure.ColumnsEntryR\acolumns\x12#\n" +
	"\n" +
	"checkpoint\x18\x06 \x01(\fH\x00R\n" +
	"checkpoint\x88\x01\x01\x1aW\n" +
	"\fColumnsEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x121\n" +
	"\x05value\x18\x02 \x01(\v2\x1b.leasebroker.v1.ColumnValueR\x05value:\x028\x01B\r\n" +
	"\v_checkpoint\"\xe1\x01\n" +
	"\fFailResponse\x126\n" +
	"\aresults\x18\x01 \x03(\v2\x1c.leasebroker.v1.SettleResultR\aresults\x126\n" +
	"\x04next\x18\x04 \x01(\v2\".leasebroker.v1.ClaimBatchResponseR\x04next\x128\n" +
	"\n" +
	"next_error\x18\x05 \x01(\v2\x19.leasebroker.v1.CallErrorR\tnextErrorJ\x04\b\x02\x10\x03J\x04\b\x03\x10\x04R\vnext_leasesR\x0enext_too_large\"\x7f\n" +
	"\x0eReleaseRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x123\n" +
	"\breleases\x18\x02 \x03(\v2\x17.leasebroker.v1.ReleaseR\breleasesJ\x04\b\x03\x10\x04J\x04\b\x04\x10\x05R\tworker_idR\vrequest_ids\"\x89\x01\n" +
	"\aRelease\x12\x19\n" +
	"\blease_id\x18\x01 \x01(\tR\aleaseId\x12/\n" +
	"\x05delay\x18\x02 \x01(\v2\x19.google.protobuf.DurationR\x05delay\x12#\n" +
	"\n" +
	"checkpoint\x18\x03 \x01(\fH\x00R\n" +
	"checkpoint\x88\x01\x01B\r\n" +
	"\v_checkpoint\"g\n" +
	"\x0fReleaseResponse\x126\n" +
	"\aresults\x18\x01 \x03(\v2\x1c.leasebroker.v1.SettleResultR\aresultsJ\x04\b\x02\x10\x03R\x16released_by_request_id\"j\n" +
	"\x14ReleaseClaimsRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x12\x1b\n" +
	"\tworker_id\x18\x02 \x01(\tR\bworkerId\x12\x1f\n" +
	"\vrequest_ids\x18\x03 \x03(\tR\n" +
	"requestIds\"3\n" +
	"\x15ReleaseClaimsResponse\x12\x1a\n" +
	"\breleased\x18\x01 \x01(\x05R\breleased\"\xed\x01\n" +
	"\fSettleResult\x121\n" +
	"\aoutcome\x18\x02 \x01(\x0e2\x17.leasebroker.v1.OutcomeR\aoutcome\x12/\n" +
	"\x05state\x18\x03 \x01(\x0e2\x19.leasebroker.v1.ItemStateR\x05state\x12'\n" +
	"\x0falready_applied\x18\x05 \x01(\bR\x0ealreadyApplied\x121\n" +
	"\arefusal\x18\x06 \x01(\v2\x17.leasebroker.v1.RefusalR\arefusalJ\x04\b\x01\x10\x02J\x04\b\x04\x10\x05R\blease_idR\aproblem\"#\n" +
	"\vWakeRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\"\x0e\n" +
	"\fWakeResponse\"t\n" +
	"\x0eEnqueueRequest\x12\x14\n" +
	"\x05queue\x18\x01 \x01(\tR\x05queue\x12-\n" +
	"\x05items\x18\x02 \x03(\v2\x17.leasebroker.v1.NewItemR\x05items\x12\x1d\n" +
	"\n" +
	"request_id\x18\x03 \x01(\tR\trequestId\"\xf6\x01\n" +
	"\aNewItem\x12>\n" +
	"\acolumns\x18\x01 \x03(\v2$.leasebroker.v1.NewItem.ColumnsEntryR\acolumns\x12/\n" +
	"\x05delay\x18\x02 \x01(\v2\x19.google.protobuf.DurationR\x05delay\x12!\n" +
	"\ftrace_parent\x18\x03 \x01(\tR\vtraceParent\x1aW\n" +
	"\fColumnsEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x121\n" +
	"\x05value\x18\x02 \x01(\v2\x1b.leasebroker.v1.ColumnValueR\x05value:\x028\x01\"V\n" +
	"\x0fEnqueueResponse\x127\n" +
	"\aresults\x18\x02 \x03(\v2\x1d.leasebroker.v1.EnqueueResultR\aresultsJ\x04\b\x01\x10\x02R\x04keys\"F\n" +
	"\rEnqueueResult\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12#\n" +
	"\ralready_added\x18\x02 \x01(\bR\falreadyAdded*\x82\x02\n" +
	"\bHeldBack\x12\x19\n" +
	"\x15HELD_BACK_UNSPECIFIED\x10\x00\x12\x1b\n" +
	"\x17HELD_BACK_NOTHING_READY\x10\x01\x12\x17\n" +
	"\x13HELD_BACK_TOO_LARGE\x10\x02\x12\x16\n" +
	"\x12HELD_BACK_STOPPING\x10\x03\x12\x16\n" +
	"\x12HELD_BACK_RELEASED\x10\x04\x12\x14\n" +
	"\x10HELD_BACK_PAUSED\x10\x05\x12\x19\n" +
	"\x15HELD_BACK_GROUPS_BUSY\x10\x06\x12\x18\n" +
	"\x14HELD_BACK_MAX_LEASES\x10\a\x12\x12\n" +
	"\x0eHELD_BACK_RATE\x10\b\x12\x16\n" +
	"\x12HELD_BACK_SUSPECTS\x10\t*v\n" +
	"\aOutcome\x12\x17\n" +
	"\x13OUTCOME_UNSPECIFIED\x10\x00\x12\x13\n" +
	"\x0fOUTCOME_APPLIED\x10\x01\x12\x16\n" +
	"\x12OUTCOME_LEASE_LOST\x10\x02\x12\x10\n" +
	"\fOUTCOME_GONE\x10\x03\x12\x13\n" +
	"\x0fOUTCOME_REFUSED\x10\x04*\xf2\x02\n" +
	"\rRefusalReason\x12\x1e\n" +
	"\x1aREFUSAL_REASON_UNSPECIFIED\x10\x00\x12 \n" +
	"\x1cREFUSAL_REASON_INVALID_FIELD\x10\x01\x12\"\n" +
	"\x1eREFUSAL_REASON_QUEUE_NOT_FOUND\x10\x02\x12&\n" +
	"\"REFUSAL_REASON_COLUMN_NOT_WRITABLE\x10\x03\x12\x1e\n" +
	"\x1aREFUSAL_REASON_VALUE_UNFIT\x10\x04\x12!\n" +
	"\x1dREFUSAL_REASON_ALREADY_EXISTS\x10\x05\x12\x18\n" +
	"\x14REFUSAL_REASON_CHECK\x10\x06\x12\x1e\n" +
	"\x1aREFUSAL_REASON_FOREIGN_KEY\x10\a\x12\x1a\n" +
	"\x16REFUSAL_REASON_TRIGGER\x10\b\x12\x1f\n" +
	"\x1bREFUSAL_REASON_OUT_OF_ORDER\x10\t\x12\x19\n" +
	"\x15REFUSAL_REASON_LOCKED\x10\n" +
	"*\x9b\x01\n" +
	"\tItemState\x12\x1a\n" +
	"\x16ITEM_STATE_UNSPECIFIED\x10\x00\x12\x14\n" +
	"\x10ITEM_STATE_READY\x10\x01\x12\x15\n" +
	"\x11ITEM_STATE_LEASED\x10\x02\x12\x16\n" +
	"\x12ITEM_STATE_DELAYED\x10\x03\x12\x18\n" +
	"\x14ITEM_STATE_COMPLETED\x10\x04\x12\x13\n" +
	"\x0fITEM_STATE_DEAD\x10\x052\x80\x05\n" +
	"\fLeaseService\x12S\n" +
	"\n" +
	"ClaimBatch\x12!.leasebroker.v1.ClaimBatchRequest\x1a\".leasebroker.v1.ClaimBatchResponse\x12P\n" +
	"\tHeartbeat\x12 .leasebroker.v1.HeartbeatRequest\x1a!.leasebroker.v1.HeartbeatResponse\x12M\n" +
	"\bComplete\x12\x1f.leasebroker.v1.CompleteRequest\x1a .leasebroker.v1.CompleteResponse\x12A\n" +
	"\x04Fail\x12\x1b.leasebroker.v1.FailRequest\x1a\x1c.leasebroker.v1.FailResponse\x12J\n" +
	"\aRelease\x12\x1e.leasebroker.v1.ReleaseRequest\x1a\x1f.leasebroker.v1.ReleaseResponse\x12\\\n" +
	"\rReleaseClaims\x12$.leasebroker.v1.ReleaseClaimsRequest\x1a%.leasebroker.v1.ReleaseClaimsResponse\x12A\n" +
	"\x04Wake\x12\x1b.leasebroker.v1.WakeRequest\x1a\x1c.leasebroker.v1.WakeResponse\x12J\n" +
	"\aEnqueue\x12\x1e.leasebroker.v1.EnqueueRequest\x1a\x1f.leasebroker.v1.EnqueueResponseBb\n" +
	"\x1acom.example.leasebroker.v1P\x01Z1example.com/lease-broker/clients/go/leasebrokerv1\xaa\x02\x0eLeaseBroker.V1b\x06proto3"

var (
	file_leasebroker_v1_lease_broker_proto_rawDescOnce sync.Once
	file_leasebroker_v1_lease_broker_proto_rawDescData []byte
)

func file_leasebroker_v1_lease_broker_proto_rawDescGZIP() []byte {
	file_leasebroker_v1_lease_broker_proto_rawDescOnce.Do(func() {
		file_leasebroker_v1_lease_broker_proto_rawDescData = protoimpl.X.CompressGZIP(unsafe.Slice(unsafe.StringData(file_leasebroker_v1_lease_broker_proto_rawDesc), len(file_leasebroker_v1_lease_broker_proto_rawDesc)))
	})
	return file_leasebroker_v1_lease_broker_proto_rawDescData
}

var file_leasebroker_v1_lease_broker_proto_enumTypes = make([]protoimpl.EnumInfo, 4)
var file_leasebroker_v1_lease_broker_proto_msgTypes = make([]protoimpl.MessageInfo, 37)
var file_leasebroker_v1_lease_broker_proto_goTypes = []any{
	(HeldBack)(0),                 // 0: leasebroker.v1.HeldBack
	(Outcome)(0),                  // 1: leasebroker.v1.Outcome
	(RefusalReason)(0),            // 2: leasebroker.v1.RefusalReason
	(ItemState)(0),                // 3: leasebroker.v1.ItemState
	(*ClaimBatchRequest)(nil),     // 4: leasebroker.v1.ClaimBatchRequest
	(*ClaimBatchResponse)(nil),    // 5: leasebroker.v1.ClaimBatchResponse
	(*TooLargeItem)(nil),          // 6: leasebroker.v1.TooLargeItem
	(*Lease)(nil),                 // 7: leasebroker.v1.Lease
	(*Item)(nil),                  // 8: leasebroker.v1.Item
	(*ColumnValue)(nil),           // 9: leasebroker.v1.ColumnValue
	(*Refusal)(nil),               // 10: leasebroker.v1.Refusal
	(*HeartbeatRequest)(nil),      // 11: leasebroker.v1.HeartbeatRequest
	(*Renewal)(nil),               // 12: leasebroker.v1.Renewal
	(*HeartbeatResponse)(nil),     // 13: leasebroker.v1.HeartbeatResponse
	(*HeartbeatResult)(nil),       // 14: leasebroker.v1.HeartbeatResult
	(*CompleteRequest)(nil),       // 15: leasebroker.v1.CompleteRequest
	(*NextClaim)(nil),             // 16: leasebroker.v1.NextClaim
	(*Completion)(nil),            // 17: leasebroker.v1.Completion
	(*FollowUp)(nil),              // 18: leasebroker.v1.FollowUp
	(*CompleteResponse)(nil),      // 19: leasebroker.v1.CompleteResponse
	(*CallError)(nil),             // 20: leasebroker.v1.CallError
	(*FailRequest)(nil),           // 21: leasebroker.v1.FailRequest
	(*Failure)(nil),               // 22: leasebroker.v1.Failure
	(*FailResponse)(nil),          // 23: leasebroker.v1.FailResponse
	(*ReleaseRequest)(nil),        // 24: leasebroker.v1.ReleaseRequest
	(*Release)(nil),               // 25: leasebroker.v1.Release
	(*ReleaseResponse)(nil),       // 26: leasebroker.v1.ReleaseResponse
	(*ReleaseClaimsRequest)(nil),  // 27: leasebroker.v1.ReleaseClaimsRequest
	(*ReleaseClaimsResponse)(nil), // 28: leasebroker.v1.ReleaseClaimsResponse
	(*SettleResult)(nil),          // 29: leasebroker.v1.SettleResult
	(*WakeRequest)(nil),           // 30: leasebroker.v1.WakeRequest
	(*WakeResponse)(nil),          // 31: leasebroker.v1.WakeResponse
	(*EnqueueRequest)(nil),        // 32: leasebroker.v1.EnqueueRequest
	(*NewItem)(nil),               // 33: leasebroker.v1.NewItem
	(*EnqueueResponse)(nil),       // 34: leasebroker.v1.EnqueueResponse
	(*EnqueueResult)(nil),         // 35: leasebroker.v1.EnqueueResult
	nil,                           // 36: leasebroker.v1.Item.ColumnsEntry
	nil,                           // 37: leasebroker.v1.Completion.ColumnsEntry
	nil,                           // 38: leasebroker.v1.CallError.MetadataEntry
	nil,                           // 39: leasebroker.v1.Failure.ColumnsEntry
	nil,                           // 40: leasebroker.v1.NewItem.ColumnsEntry
	(*durationpb.Duration)(nil),   // 41: google.protobuf.Duration
	(*timestamppb.Timestamp)(nil), // 42: google.protobuf.Timestamp
	(structpb.NullValue)(0),       // 43: google.protobuf.NullValue
}
var file_leasebroker_v1_lease_broker_proto_depIdxs = []int32{
	41, // 0: leasebroker.v1.ClaimBatchRequest.lease_duration:type_name -> google.protobuf.Duration
	41, // 1: leasebroker.v1.ClaimBatchRequest.wait_timeout:type_name -> google.protobuf.Duration
	7,  // 2: leasebroker.v1.ClaimBatchResponse.leases:type_name -> leasebroker.v1.Lease
	6,  // 3: leasebroker.v1.ClaimBatchResponse.too_large:type_name -> leasebroker.v1.TooLargeItem
	0,  // 4: leasebroker.v1.ClaimBatchResponse.held_back:type_name -> leasebroker.v1.HeldBack
	41, // 5: leasebroker.v1.ClaimBatchResponse.retry_after:type_name -> google.protobuf.Duration
	8,  // 6: leasebroker.v1.Lease.item:type_name -> leasebroker.v1.Item
	42, // 7: leasebroker.v1.Lease.expire_time:type_name -> google.protobuf.Timestamp
	41, // 8: leasebroker.v1.Lease.time_left:type_name -> google.protobuf.Duration
	42, // 9: leasebroker.v1.Lease.ready_time:type_name -> google.protobuf.Timestamp
	36, // 10: leasebroker.v1.Item.columns:type_name -> leasebroker.v1.Item.ColumnsEntry
	42, // 11: leasebroker.v1.ColumnValue.timestamp_value:type_name -> google.protobuf.Timestamp
	43, // 12: leasebroker.v1.ColumnValue.null_value:type_name -> google.protobuf.NullValue
	2,  // 13: leasebroker.v1.Refusal.reason:type_name -> leasebroker.v1.RefusalReason
	12, // 14: leasebroker.v1.HeartbeatRequest.renewals:type_name -> leasebroker.v1.Renewal
	41, // 15: leasebroker.v1.HeartbeatRequest.lease_duration:type_name -> google.protobuf.Duration
	14, // 16: leasebroker.v1.HeartbeatResponse.results:type_name -> leasebroker.v1.HeartbeatResult
	1,  // 17: leasebroker.v1.HeartbeatResult.outcome:type_name -> leasebroker.v1.Outcome
	42, // 18: leasebroker.v1.HeartbeatResult.expire_time:type_name -> google.protobuf.Timestamp
	41, // 19: leasebroker.v1.HeartbeatResult.time_left:type_name -> google.protobuf.Duration
	3,  // 20: leasebroker.v1.HeartbeatResult.state:type_name -> leasebroker.v1.ItemState
	10, // 21: leasebroker.v1.HeartbeatResult.refusal:type_name -> leasebroker.v1.Refusal
	17, // 22: leasebroker.v1.CompleteRequest.completions:type_name -> leasebroker.v1.Completion
	16, // 23: leasebroker.v1.CompleteRequest.next:type_name -> leasebroker.v1.NextClaim
	41, // 24: leasebroker.v1.NextClaim.lease_duration:type_name -> google.protobuf.Duration
	18, // 25: leasebroker.v1.Completion.follow_ups:type_name -> leasebroker.v1.FollowUp
	37, // 26: leasebroker.v1.Completion.columns:type_name -> leasebroker.v1.Completion.ColumnsEntry
	33, // 27: leasebroker.v1.FollowUp.item:type_name -> leasebroker.v1.NewItem
	29, // 28: leasebroker.v1.CompleteResponse.results:type_name -> leasebroker.v1.SettleResult
	5,  // 29: leasebroker.v1.CompleteResponse.next:type_name -> leasebroker.v1.ClaimBatchResponse
	20, // 30: leasebroker.v1.CompleteResponse.next_error:type_name -> leasebroker.v1.CallError
	38, // 31: leasebroker.v1.CallError.metadata:type_name -> leasebroker.v1.CallError.MetadataEntry
	41, // 32: leasebroker.v1.CallError.retry_delay:type_name -> google.protobuf.Duration
	22, // 33: leasebroker.v1.FailRequest.failures:type_name -> leasebroker.v1.Failure
	16, // 34: leasebroker.v1.FailRequest.next:type_name -> leasebroker.v1.NextClaim
	41, // 35: leasebroker.v1.Failure.retry_delay:type_name -> google.protobuf.Duration
	39, // 36: leasebroker.v1.Failure.columns:type_name -> leasebroker.v1.Failure.ColumnsEntry
	29, // 37: leasebroker.v1.FailResponse.results:type_name -> leasebroker.v1.SettleResult
	5,  // 38: leasebroker.v1.FailResponse.next:type_name -> leasebroker.v1.ClaimBatchResponse
	20, // 39: leasebroker.v1.FailResponse.next_error:type_name -> leasebroker.v1.CallError
	25, // 40: leasebroker.v1.ReleaseRequest.releases:type_name -> leasebroker.v1.Release
	41, // 41: leasebroker.v1.Release.delay:type_name -> google.protobuf.Duration
	29, // 42: leasebroker.v1.ReleaseResponse.results:type_name -> leasebroker.v1.SettleResult
	1,  // 43: leasebroker.v1.SettleResult.outcome:type_name -> leasebroker.v1.Outcome
	3,  // 44: leasebroker.v1.SettleResult.state:type_name -> leasebroker.v1.ItemState
	10, // 45: leasebroker.v1.SettleResult.refusal:type_name -> leasebroker.v1.Refusal
	33, // 46: leasebroker.v1.EnqueueRequest.items:type_name -> leasebroker.v1.NewItem
	40, // 47: leasebroker.v1.NewItem.columns:type_name -> leasebroker.v1.NewItem.ColumnsEntry
	41, // 48: leasebroker.v1.NewItem.delay:type_name -> google.protobuf.Duration
	35, // 49: leasebroker.v1.EnqueueResponse.results:type_name -> leasebroker.v1.EnqueueResult
	9,  // 50: leasebroker.v1.Item.ColumnsEntry.value:type_name -> leasebroker.v1.ColumnValue
	9,  // 51: leasebroker.v1.Completion.ColumnsEntry.value:type_name -> leasebroker.v1.ColumnValue
	9,  // 52: leasebroker.v1.Failure.ColumnsEntry.value:type_name -> leasebroker.v1.ColumnValue
	9,  // 53: leasebroker.v1.NewItem.ColumnsEntry.value:type_name -> leasebroker.v1.ColumnValue
	4,  // 54: leasebroker.v1.LeaseService.ClaimBatch:input_type -> leasebroker.v1.ClaimBatchRequest
	11, // 55: leasebroker.v1.LeaseService.Heartbeat:input_type -> leasebroker.v1.HeartbeatRequest
	15, // 56: leasebroker.v1.LeaseService.Complete:input_type -> leasebroker.v1.CompleteRequest
	21, // 57: leasebroker.v1.LeaseService.Fail:input_type -> leasebroker.v1.FailRequest
	24, // 58: leasebroker.v1.LeaseService.Release:input_type -> leasebroker.v1.ReleaseRequest
	27, // 59: leasebroker.v1.LeaseService.ReleaseClaims:input_type -> leasebroker.v1.ReleaseClaimsRequest
	30, // 60: leasebroker.v1.LeaseService.Wake:input_type -> leasebroker.v1.WakeRequest
	32, // 61: leasebroker.v1.LeaseService.Enqueue:input_type -> leasebroker.v1.EnqueueRequest
	5,  // 62: leasebroker.v1.LeaseService.ClaimBatch:output_type -> leasebroker.v1.ClaimBatchResponse
	13, // 63: leasebroker.v1.LeaseService.Heartbeat:output_type -> leasebroker.v1.HeartbeatResponse
	19, // 64: leasebroker.v1.LeaseService.Complete:output_type -> leasebroker.v1.CompleteResponse
	23, // 65: leasebroker.v1.LeaseService.Fail:output_type -> leasebroker.v1.FailResponse
	26, // 66: leasebroker.v1.LeaseService.Release:output_type -> leasebroker.v1.ReleaseResponse
	28, // 67: leasebroker.v1.LeaseService.ReleaseClaims:output_type -> leasebroker.v1.ReleaseClaimsResponse
	31, // 68: leasebroker.v1.LeaseService.Wake:output_type -> leasebroker.v1.WakeResponse
	34, // 69: leasebroker.v1.LeaseService.Enqueue:output_type -> leasebroker.v1.EnqueueResponse
	62, // [62:70] is the sub-list for method output_type
	54, // [54:62] is the sub-list for method input_type
	54, // [54:54] is the sub-list for extension type_name
	54, // [54:54] is the sub-list for extension extendee
	0,  // [0:54] is the sub-list for field type_name
}

func init() { file_leasebroker_v1_lease_broker_proto_init() }
func file_leasebroker_v1_lease_broker_proto_init() {
	if File_leasebroker_v1_lease_broker_proto != nil {
		return
	}
	file_leasebroker_v1_lease_broker_proto_msgTypes[3].OneofWrappers = []any{}
	file_leasebroker_v1_lease_broker_proto_msgTypes[5].OneofWrappers = []any{
		(*ColumnValue_BoolValue)(nil),
		(*ColumnValue_Int64Value)(nil),
		(*ColumnValue_DoubleValue)(nil),
		(*ColumnValue_StringValue)(nil),
		(*ColumnValue_BytesValue)(nil),
		(*ColumnValue_TimestampValue)(nil),
		(*ColumnValue_DecimalValue)(nil),
		(*ColumnValue_NullValue)(nil),
	}
	file_leasebroker_v1_lease_broker_proto_msgTypes[8].OneofWrappers = []any{}
	file_leasebroker_v1_lease_broker_proto_msgTypes[18].OneofWrappers = []any{}
	file_leasebroker_v1_lease_broker_proto_msgTypes[21].OneofWrappers = []any{}
	type x struct{}
	out := protoimpl.TypeBuilder{
		File: protoimpl.DescBuilder{
			GoPackagePath: reflect.TypeOf(x{}).PkgPath(),
			RawDescriptor: unsafe.Slice(unsafe.StringData(file_leasebroker_v1_lease_broker_proto_rawDesc), len(file_leasebroker_v1_lease_broker_proto_rawDesc)),
			NumEnums:      4,
			NumMessages:   37,
			NumExtensions: 0,
			NumServices:   1,
		},
		GoTypes:           file_leasebroker_v1_lease_broker_proto_goTypes,
		DependencyIndexes: file_leasebroker_v1_lease_broker_proto_depIdxs,
		EnumInfos:         file_leasebroker_v1_lease_broker_proto_enumTypes,
		MessageInfos:      file_leasebroker_v1_lease_broker_proto_msgTypes,
	}.Build()
	File_leasebroker_v1_lease_broker_proto = out.File
	file_leasebroker_v1_lease_broker_proto_goTypes = nil
	file_leasebroker_v1_lease_broker_proto_depIdxs = nil
}
