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

// Code generated by protoc-gen-go-grpc. DO NOT EDIT.
// versions:
// - protoc-gen-go-grpc v1.6.2
// - protoc             (unknown)
// source: leasebroker/v1/lease_broker.proto

package leasebrokerv1

import (
	context "context"
	grpc "google.golang.org/grpc"
	codes "google.golang.org/grpc/codes"
	status "google.golang.org/grpc/status"
)

// This is a compile-time assertion to ensure that this generated file
// is compatible with the grpc package it is being compiled against.
// Requires gRPC-Go v1.64.0 or later.
const _ = grpc.SupportPackageIsVersion9

const (
	LeaseService_ClaimBatch_FullMethodName    = "/leasebroker.v1.LeaseService/ClaimBatch"
	LeaseService_Heartbeat_FullMethodName     = "/leasebroker.v1.LeaseService/Heartbeat"
	LeaseService_Complete_FullMethodName      = "/leasebroker.v1.LeaseService/Complete"
	LeaseService_Fail_FullMethodName          = "/leasebroker.v1.LeaseService/Fail"
	LeaseService_Release_FullMethodName       = "/leasebroker.v1.LeaseService/Release"
	LeaseService_ReleaseClaims_FullMethodName = "/leasebroker.v1.LeaseService/ReleaseClaims"
	LeaseService_Wake_FullMethodName          = "/leasebroker.v1.LeaseService/Wake"
	LeaseService_Enqueue_FullMethodName       = "/leasebroker.v1.LeaseService/Enqueue"
)

// LeaseServiceClient is the client API for LeaseService service.
//
// For semantics around ctx use and closing/ending streaming RPCs, please refer to https://pkg.go.dev/google.golang.org/grpc/?tab=doc#ClientConn.NewStream.
//
// Leases rows of database tables to workers.
type LeaseServiceClient interface {
	// Leases up to max_items ready items, in the queue's order. With max_run, consecutive items of a group come together, as a
	// run.
	//
	// Returns as soon as it has at least one item. If no item is ready, it waits up to wait_timeout and then returns OK
	// with an empty list. held_back then says why there is none.
	//
	// If the caller cancels the call or loses its connection, the service releases the leases, unless it has already sent
	// the response. It cannot know whether a response that it has sent was received. Items in a lost response stay leased
	// until their leases expire. To avoid that, set request_id. The service then keeps the leases for you. If you still want
	// the items, send the call again with the same request_id. If you do not, call ReleaseClaims with it after the
	// cancelled call has ended.
	//
	// Errors: INVALID_FIELD (worker_id, max_items, lease_duration, wait_timeout, request_id, max_bytes, groups, groups[i],
	// max_run), LIMIT_EXCEEDED (worker_id, max_items, lease_duration, wait_timeout, groups), QUEUE_NOT_FOUND, OVERLOADED,
	// STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL. While this instance stops: UNAVAILABLE with the
	// reason DRAINING and RetryInfo. Send the call again, and another instance accepts it.
	//
	// A claim that is waiting when the instance begins to stop ends OK with an empty list, before its wait_timeout. An
	// error would fail every client without a retry policy. Send the next call on another connection: the instance
	// refuses new claims on this one and closes it.
	ClaimBatch(ctx context.Context, in *ClaimBatchRequest, opts ...grpc.CallOption) (*ClaimBatchResponse, error)
	// Extends leases. Each lease then lasts lease_duration from now, or without one as long as it was claimed for.
	//
	// A worker that needs more time sends it before the lease expires, for example after a third of time_left. It must
	// stop work on each item whose result is OUTCOME_LEASE_LOST, because another worker may have that item.
	//
	// Errors: INVALID_FIELD (lease_duration), LIMIT_EXCEEDED (renewals, lease_duration), QUEUE_NOT_FOUND, OVERLOADED,
	// STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	Heartbeat(ctx context.Context, in *HeartbeatRequest, opts ...grpc.CallOption) (*HeartbeatResponse, error)
	// Completes items: their work is done. If `next` is set, also claims items of the same queue.
	//
	// The queue's configuration decides whether the row is kept, deleted, archived, or made ready again after a delay.
	// A follow-up item takes the trace context of its lease (Lease.trace_parent), unless the item has its own. The
	// header traceparent of the call does not matter.
	//
	// A completion that cannot be applied has the outcome OUTCOME_REFUSED, for example because one of its follow-ups is
	// malformed, or is for a queue to which the caller may not add items. The other completions of the call are applied. A
	// field that belongs to the call as a whole is an error of the call. So is a name of a queue or column, or a number of
	// columns, above the limits of the service.
	//
	// The items of a run (Lease.run) are completed in their order. One call can complete several of them: the completions
	// count in the order of the call. A completion is refused with REFUSAL_REASON_OUT_OF_ORDER while an earlier item of its
	// run is leased.
	//
	// Errors: INVALID_FIELD (fields of next), LIMIT_EXCEEDED (completions; completions.columns; completions.follow_ups for all
	// follow-ups of the call together; completions.follow_ups.queue; completions.follow_ups.item.columns; fields of next),
	// QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	Complete(ctx context.Context, in *CompleteRequest, opts ...grpc.CallOption) (*CompleteResponse, error)
	// Reports that the work on items failed.
	//
	// An item with attempts left becomes ready again after a delay. An item without attempts left becomes dead. If `next`
	// is set, also claims items of the same queue.
	//
	// The failure of an item of a run (Lease.run) also releases the leases of the later items of the run. A failure is
	// refused with REFUSAL_REASON_OUT_OF_ORDER while an earlier item of its run is leased.
	//
	// Errors: INVALID_FIELD (fields of next), LIMIT_EXCEEDED (failures, failures.columns, fields of next),
	// QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	Fail(ctx context.Context, in *FailRequest, opts ...grpc.CallOption) (*FailResponse, error)
	// Returns items that were not processed. The attempt does not count.
	//
	// The release of an item of a run (Lease.run) also releases the leases of the later items of the run.
	//
	// Errors: LIMIT_EXCEEDED (releases), QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED,
	// DEADLINE_EXCEEDED, INTERNAL.
	Release(ctx context.Context, in *ReleaseRequest, opts ...grpc.CallOption) (*ReleaseResponse, error)
	// Releases every lease of claims by their request ids, after claims whose responses were not received.
	//
	// Every lease that such a claim got and that is still held is released without a delay. A claim that still waits at this
	// instance ends with an empty list. Leases of a claim that reaches the service only after this call are not released. Then,
	// or if in doubt, send this call again.
	//
	// Errors: INVALID_FIELD (worker_id, request_ids[i]), LIMIT_EXCEEDED (worker_id, request_ids), QUEUE_NOT_FOUND,
	// OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	ReleaseClaims(ctx context.Context, in *ReleaseClaimsRequest, opts ...grpc.CallOption) (*ReleaseClaimsResponse, error)
	// Wakes the claims that wait at this instance, so that they look for items immediately. A program that has inserted rows
	// by its own SQL calls it. Without it, waiting claims find the rows at their next poll. Calls that come at the same
	// moment share one look.
	//
	// Errors: QUEUE_NOT_FOUND, OVERLOADED, DEADLINE_EXCEEDED, INTERNAL.
	Wake(ctx context.Context, in *WakeRequest, opts ...grpc.CallOption) (*WakeResponse, error)
	// Adds items to a queue: all of them, or none.
	//
	// An item takes its own W3C trace context (NewItem.trace_parent). Without one it takes that of the call's header
	// traceparent. Its leases continue that trace.
	//
	// A call with a request_id can be sent again. Without one, a retry after an error with `applied` = `unknown`, after
	// CANCELLED or after a lost connection can add the items twice.
	//
	// Errors: INVALID_FIELD (request_id: not a UUID, or an earlier call with this id had other items;
	// items[i].columns["name"]: the column is unknown, the service itself sets it, it cannot hold the value, it makes the item
	// larger than any response to a claim, or a constraint of the table refuses the value; items[i].delay;
	// items[i].trace_parent), LIMIT_EXCEEDED (items, items[i].delay), QUEUE_NOT_FOUND, QUEUE_PAUSED, OVERLOADED,
	// STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL. If a row with the key or another unique value of an
	// item exists: ALREADY_EXISTS with the reason ALREADY_EXISTS (items[i].columns["name"]). The field is items[i] if the
	// database does not name a column.
	Enqueue(ctx context.Context, in *EnqueueRequest, opts ...grpc.CallOption) (*EnqueueResponse, error)
}

type leaseServiceClient struct {
	cc grpc.ClientConnInterface
}

func NewLeaseServiceClient(cc grpc.ClientConnInterface) LeaseServiceClient {
	return &leaseServiceClient{cc}
}

func (c *leaseServiceClient) ClaimBatch(ctx context.Context, in *ClaimBatchRequest, opts ...grpc.CallOption) (*ClaimBatchResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(ClaimBatchResponse)
	err := c.cc.Invoke(ctx, LeaseService_ClaimBatch_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *leaseServiceClient) Heartbeat(ctx context.Context, in *HeartbeatRequest, opts ...grpc.CallOption) (*HeartbeatResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(HeartbeatResponse)
	err := c.cc.Invoke(ctx, LeaseService_Heartbeat_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *leaseServiceClient) Complete(ctx context.Context, in *CompleteRequest, opts ...grpc.CallOption) (*CompleteResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(CompleteResponse)
	err := c.cc.Invoke(ctx, LeaseService_Complete_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *leaseServiceClient) Fail(ctx context.Context, in *FailRequest, opts ...grpc.CallOption) (*FailResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(FailResponse)
	err := c.cc.Invoke(ctx, LeaseService_Fail_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *leaseServiceClient) Release(ctx context.Context, in *ReleaseRequest, opts ...grpc.CallOption) (*ReleaseResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(ReleaseResponse)
	err := c.cc.Invoke(ctx, LeaseService_Release_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *leaseServiceClient) ReleaseClaims(ctx context.Context, in *ReleaseClaimsRequest, opts ...grpc.CallOption) (*ReleaseClaimsResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(ReleaseClaimsResponse)
	err := c.cc.Invoke(ctx, LeaseService_ReleaseClaims_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *leaseServiceClient) Wake(ctx context.Context, in *WakeRequest, opts ...grpc.CallOption) (*WakeResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(WakeResponse)
	err := c.cc.Invoke(ctx, LeaseService_Wake_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *leaseServiceClient) Enqueue(ctx context.Context, in *EnqueueRequest, opts ...grpc.CallOption) (*EnqueueResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(EnqueueResponse)
	err := c.cc.Invoke(ctx, LeaseService_Enqueue_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// LeaseServiceServer is the server API for LeaseService service.
// All implementations must embed UnimplementedLeaseServiceServer
// for forward compatibility.
//
// Leases rows of database tables to workers.
type LeaseServiceServer interface {
	// Leases up to max_items ready items, in the queue's order. With max_run, consecutive items of a group come together, as a
	// run.
	//
	// Returns as soon as it has at least one item. If no item is ready, it waits up to wait_timeout and then returns OK
	// with an empty list. held_back then says why there is none.
	//
	// If the caller cancels the call or loses its connection, the service releases the leases, unless it has already sent
	// the response. It cannot know whether a response that it has sent was received. Items in a lost response stay leased
	// until their leases expire. To avoid that, set request_id. The service then keeps the leases for you. If you still want
	// the items, send the call again with the same request_id. If you do not, call ReleaseClaims with it after the
	// cancelled call has ended.
	//
	// Errors: INVALID_FIELD (worker_id, max_items, lease_duration, wait_timeout, request_id, max_bytes, groups, groups[i],
	// max_run), LIMIT_EXCEEDED (worker_id, max_items, lease_duration, wait_timeout, groups), QUEUE_NOT_FOUND, OVERLOADED,
	// STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL. While this instance stops: UNAVAILABLE with the
	// reason DRAINING and RetryInfo. Send the call again, and another instance accepts it.
	//
	// A claim that is waiting when the instance begins to stop ends OK with an empty list, before its wait_timeout. An
	// error would fail every client without a retry policy. Send the next call on another connection: the instance
	// refuses new claims on this one and closes it.
	ClaimBatch(context.Context, *ClaimBatchRequest) (*ClaimBatchResponse, error)
	// Extends leases. Each lease then lasts lease_duration from now, or without one as long as it was claimed for.
	//
	// A worker that needs more time sends it before the lease expires, for example after a third of time_left. It must
	// stop work on each item whose result is OUTCOME_LEASE_LOST, because another worker may have that item.
	//
	// Errors: INVALID_FIELD (lease_duration), LIMIT_EXCEEDED (renewals, lease_duration), QUEUE_NOT_FOUND, OVERLOADED,
	// STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	Heartbeat(context.Context, *HeartbeatRequest) (*HeartbeatResponse, error)
	// Completes items: their work is done. If `next` is set, also claims items of the same queue.
	//
	// The queue's configuration decides whether the row is kept, deleted, archived, or made ready again after a delay.
	// A follow-up item takes the trace context of its lease (Lease.trace_parent), unless the item has its own. The
	// header traceparent of the call does not matter.
	//
	// A completion that cannot be applied has the outcome OUTCOME_REFUSED, for example because one of its follow-ups is
	// malformed, or is for a queue to which the caller may not add items. The other completions of the call are applied. A
	// field that belongs to the call as a whole is an error of the call. So is a name of a queue or column, or a number of
	// columns, above the limits of the service.
	//
	// The items of a run (Lease.run) are completed in their order. One call can complete several of them: the completions
	// count in the order of the call. A completion is refused with REFUSAL_REASON_OUT_OF_ORDER while an earlier item of its
	// run is leased.
	//
	// Errors: INVALID_FIELD (fields of next), LIMIT_EXCEEDED (completions; completions.columns; completions.follow_ups for all
	// follow-ups of the call together; completions.follow_ups.queue; completions.follow_ups.item.columns; fields of next),
	// QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	Complete(context.Context, *CompleteRequest) (*CompleteResponse, error)
	// Reports that the work on items failed.
	//
	// An item with attempts left becomes ready again after a delay. An item without attempts left becomes dead. If `next`
	// is set, also claims items of the same queue.
	//
	// The failure of an item of a run (Lease.run) also releases the leases of the later items of the run. A failure is
	// refused with REFUSAL_REASON_OUT_OF_ORDER while an earlier item of its run is leased.
	//
	// Errors: INVALID_FIELD (fields of next), LIMIT_EXCEEDED (failures, failures.columns, fields of next),
	// QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	Fail(context.Context, *FailRequest) (*FailResponse, error)
	// Returns items that were not processed. The attempt does not count.
	//
	// The release of an item of a run (Lease.run) also releases the leases of the later items of the run.
	//
	// Errors: LIMIT_EXCEEDED (releases), QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED,
	// DEADLINE_EXCEEDED, INTERNAL.
	Release(context.Context, *ReleaseRequest) (*ReleaseResponse, error)
	// Releases every lease of claims by their request ids, after claims whose responses were not received.
	//
	// Every lease that such a claim got and that is still held is released without a delay. A claim that still waits at this
	// instance ends with an empty list. Leases of a claim that reaches the service only after this call are not released. Then,
	// or if in doubt, send this call again.
	//
	// Errors: INVALID_FIELD (worker_id, request_ids[i]), LIMIT_EXCEEDED (worker_id, request_ids), QUEUE_NOT_FOUND,
	// OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
	ReleaseClaims(context.Context, *ReleaseClaimsRequest) (*ReleaseClaimsResponse, error)
	// Wakes the claims that wait at this instance, so that they look for items immediately. A program that has inserted rows
	// by its own SQL calls it. Without it, waiting claims find the rows at their next poll. Calls that come at the same
	// moment share one look.
	//
	// Errors: QUEUE_NOT_FOUND, OVERLOADED, DEADLINE_EXCEEDED, INTERNAL.
	Wake(context.Context, *WakeRequest) (*WakeResponse, error)
	// Adds items to a queue: all of them, or none.
	//
	// An item takes its own W3C trace context (NewItem.trace_parent). Without one it takes that of the call's header
	// traceparent. Its leases continue that trace.
	//
	// A call with a request_id can be sent again. Without one, a retry after an error with `applied` = `unknown`, after
	// CANCELLED or after a lost connection can add the items twice.
	//
	// Errors: INVALID_FIELD (request_id: not a UUID, or an earlier call with this id had other items;
	// items[i].columns["name"]: the column is unknown, the service itself sets it, it cannot hold the value, it makes the item
	// larger than any response to a claim, or a constraint of the table refuses the value; items[i].delay;
	// items[i].trace_parent), LIMIT_EXCEEDED (items, items[i].delay), QUEUE_NOT_FOUND, QUEUE_PAUSED, OVERLOADED,
	// STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL. If a row with the key or another unique value of an
	// item exists: ALREADY_EXISTS with the reason ALREADY_EXISTS (items[i].columns["name"]). The field is items[i] if the
	// database does not name a column.
	Enqueue(context.Context, *EnqueueRequest) (*EnqueueResponse, error)
	mustEmbedUnimplementedLeaseServiceServer()
}

// UnimplementedLeaseServiceServer must be embedded to have
// forward compatible implementations.
//
// NOTE: this should be embedded by value instead of pointer to avoid a nil
// pointer dereference when methods are called.
type UnimplementedLeaseServiceServer struct{}

func (UnimplementedLeaseServiceServer) ClaimBatch(context.Context, *ClaimBatchRequest) (*ClaimBatchResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method ClaimBatch not implemented")
}
func (UnimplementedLeaseServiceServer) Heartbeat(context.Context, *HeartbeatRequest) (*HeartbeatResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Heartbeat not implemented")
}
func (UnimplementedLeaseServiceServer) Complete(context.Context, *CompleteRequest) (*CompleteResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Complete not implemented")
}
func (UnimplementedLeaseServiceServer) Fail(context.Context, *FailRequest) (*FailResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Fail not implemented")
}
func (UnimplementedLeaseServiceServer) Release(context.Context, *ReleaseRequest) (*ReleaseResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Release not implemented")
}
func (UnimplementedLeaseServiceServer) ReleaseClaims(context.Context, *ReleaseClaimsRequest) (*ReleaseClaimsResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method ReleaseClaims not implemented")
}
func (UnimplementedLeaseServiceServer) Wake(context.Context, *WakeRequest) (*WakeResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Wake not implemented")
}
func (UnimplementedLeaseServiceServer) Enqueue(context.Context, *EnqueueRequest) (*EnqueueResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Enqueue not implemented")
}
func (UnimplementedLeaseServiceServer) mustEmbedUnimplementedLeaseServiceServer() {}
func (UnimplementedLeaseServiceServer) testEmbeddedByValue()                      {}

// UnsafeLeaseServiceServer may be embedded to opt out of forward compatibility for this service.
// Use of this interface is not recommended, as added methods to LeaseServiceServer will
// result in compilation errors.
type UnsafeLeaseServiceServer interface {
	mustEmbedUnimplementedLeaseServiceServer()
}

func RegisterLeaseServiceServer(s grpc.ServiceRegistrar, srv LeaseServiceServer) {
	// If the following call panics, it indicates UnimplementedLeaseServiceServer was
	// embedded by pointer and is nil.  This will cause panics if an
	// unimplemented method is ever invoked, so we test this at initialization
	// time to prevent it from happening at runtime later due to I/O.
	if t, ok := srv.(interface{ testEmbeddedByValue() }); ok {
		t.testEmbeddedByValue()
	}
	s.RegisterService(&LeaseService_ServiceDesc, srv)
}

func _LeaseService_ClaimBatch_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ClaimBatchRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).ClaimBatch(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_ClaimBatch_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).ClaimBatch(ctx, req.(*ClaimBatchRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _LeaseService_Heartbeat_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(HeartbeatRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).Heartbeat(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_Heartbeat_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).Heartbeat(ctx, req.(*HeartbeatRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _LeaseService_Complete_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(CompleteRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).Complete(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_Complete_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).Complete(ctx, req.(*CompleteRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _LeaseService_Fail_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(FailRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).Fail(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_Fail_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).Fail(ctx, req.(*FailRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _LeaseService_Release_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ReleaseRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).Release(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_Release_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).Release(ctx, req.(*ReleaseRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _LeaseService_ReleaseClaims_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ReleaseClaimsRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).ReleaseClaims(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_ReleaseClaims_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).ReleaseClaims(ctx, req.(*ReleaseClaimsRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _LeaseService_Wake_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(WakeRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).Wake(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_Wake_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).Wake(ctx, req.(*WakeRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _LeaseService_Enqueue_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(EnqueueRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(LeaseServiceServer).Enqueue(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: LeaseService_Enqueue_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(LeaseServiceServer).Enqueue(ctx, req.(*EnqueueRequest))
	}
	return interceptor(ctx, in, info, handler)
}

// LeaseService_ServiceDesc is the grpc.ServiceDesc for LeaseService service.
// It's only intended for direct use with grpc.RegisterService,
// and not to be introspected or modified (even as a copy)
var LeaseService_ServiceDesc = grpc.ServiceDesc{
	ServiceName: "leasebroker.v1.LeaseService",
	HandlerType: (*LeaseServiceServer)(nil),
	Methods: []grpc.MethodDesc{
		{
			MethodName: "ClaimBatch",
			Handler:    _LeaseService_ClaimBatch_Handler,
		},
		{
			MethodName: "Heartbeat",
			Handler:    _LeaseService_Heartbeat_Handler,
		},
		{
			MethodName: "Complete",
			Handler:    _LeaseService_Complete_Handler,
		},
		{
			MethodName: "Fail",
			Handler:    _LeaseService_Fail_Handler,
		},
		{
			MethodName: "Release",
			Handler:    _LeaseService_Release_Handler,
		},
		{
			MethodName: "ReleaseClaims",
			Handler:    _LeaseService_ReleaseClaims_Handler,
		},
		{
			MethodName: "Wake",
			Handler:    _LeaseService_Wake_Handler,
		},
		{
			MethodName: "Enqueue",
			Handler:    _LeaseService_Enqueue_Handler,
		},
	},
	Streams:  []grpc.StreamDesc{},
	Metadata: "leasebroker/v1/lease_broker.proto",
}
