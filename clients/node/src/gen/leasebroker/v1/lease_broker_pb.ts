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

// @generated by protoc-gen-es v2.13.0 with parameter "target=ts,import_extension=js"
// @generated from file leasebroker/v1/lease_broker.proto (package leasebroker.v1, syntax proto3)
/* eslint-disable */

import type { GenEnum, GenFile, GenMessage, GenService } from "@bufbuild/protobuf/codegenv2";
import { enumDesc, fileDesc, messageDesc, serviceDesc } from "@bufbuild/protobuf/codegenv2";
import type { Duration, NullValue, Timestamp } from "@bufbuild/protobuf/wkt";
import { file_google_protobuf_duration, file_google_protobuf_struct, file_google_protobuf_timestamp } from "@bufbuild/protobuf/wkt";
import type { Message } from "@bufbuild/protobuf";

/**
 * Describes the file leasebroker/v1/lease_broker.proto.
 */
export const file_leasebroker_v1_lease_broker: GenFile = /*@__PURE__*/
  fileDesc("CiFsZWFzZWJyb2tlci92MS9sZWFzZV9icm9rZXIucHJvdG8SDmxlYXNlYnJva2VyLnYxIvQBChFDbGFpbUJhdGNoUmVxdWVzdBINCgVxdWV1ZRgBIAEoCRIRCgl3b3JrZXJfaWQYAiABKAkSEQoJbWF4X2l0ZW1zGAMgASgFEjEKDmxlYXNlX2R1cmF0aW9uGAQgASgLMhkuZ29vZ2xlLnByb3RvYnVmLkR1cmF0aW9uEi8KDHdhaXRfdGltZW91dBgFIAEoCzIZLmdvb2dsZS5wcm90b2J1Zi5EdXJhdGlvbhISCgpyZXF1ZXN0X2lkGAYgASgJEhEKCW1heF9ieXRlcxgHIAEoBRIOCgZncm91cHMYCCADKAkSDwoHbWF4X3J1bhgJIAEoBSLJAQoSQ2xhaW1CYXRjaFJlc3BvbnNlEiUKBmxlYXNlcxgBIAMoCzIVLmxlYXNlYnJva2VyLnYxLkxlYXNlEi8KCXRvb19sYXJnZRgCIAMoCzIcLmxlYXNlYnJva2VyLnYxLlRvb0xhcmdlSXRlbRIrCgloZWxkX2JhY2sYAyABKA4yGC5sZWFzZWJyb2tlci52MS5IZWxkQmFjaxIuCgtyZXRyeV9hZnRlchgFIAEoCzIZLmdvb2dsZS5wcm90b2J1Zi5EdXJhdGlvbiIvCgxUb29MYXJnZUl0ZW0SCwoDa2V5GAEgASgJEhIKCnNpemVfYnl0ZXMYAiABKAUi1QIKBUxlYXNlEhAKCGxlYXNlX2lkGAEgASgJEiIKBGl0ZW0YAiABKAsyFC5sZWFzZWJyb2tlci52MS5JdGVtEg8KB2F0dGVtcHQYAyABKAUSFQoNZmVuY2luZ190b2tlbhgEIAEoAxIvCgtleHBpcmVfdGltZRgFIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5UaW1lc3RhbXASLAoJdGltZV9sZWZ0GAYgASgLMhkuZ29vZ2xlLnByb3RvYnVmLkR1cmF0aW9uEhQKDHRyYWNlX3BhcmVudBgHIAEoCRIUCgxtYXhfYXR0ZW1wdHMYCCABKAUSLgoKcmVhZHlfdGltZRgJIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5UaW1lc3RhbXASFwoKY2hlY2twb2ludBgKIAEoDEgAiAEBEgsKA3J1bhgLIAEoBUINCgtfY2hlY2twb2ludCKUAQoESXRlbRILCgNrZXkYASABKAkSMgoHY29sdW1ucxgCIAMoCzIhLmxlYXNlYnJva2VyLnYxLkl0ZW0uQ29sdW1uc0VudHJ5GksKDENvbHVtbnNFbnRyeRILCgNrZXkYASABKAkSKgoFdmFsdWUYAiABKAsyGy5sZWFzZWJyb2tlci52MS5Db2x1bW5WYWx1ZToCOAEiiwIKC0NvbHVtblZhbHVlEhQKCmJvb2xfdmFsdWUYASABKAhIABIVCgtpbnQ2NF92YWx1ZRgCIAEoA0gAEhYKDGRvdWJsZV92YWx1ZRgDIAEoAUgAEhYKDHN0cmluZ192YWx1ZRgEIAEoCUgAEhUKC2J5dGVzX3ZhbHVlGAUgASgMSAASNQoPdGltZXN0YW1wX3ZhbHVlGAYgASgLMhouZ29vZ2xlLnByb3RvYnVmLlRpbWVzdGFtcEgAEhcKDWRlY2ltYWxfdmFsdWUYByABKAlIABIwCgpudWxsX3ZhbHVlGAggASgOMhouZ29vZ2xlLnByb3RvYnVmLk51bGxWYWx1ZUgAQgYKBGtpbmQibAoHUmVmdXNhbBItCgZyZWFzb24YASABKA4yHS5sZWFzZWJyb2tlci52MS5SZWZ1c2FsUmVhc29uEg0KBWZpZWxkGAIgASgJEhIKCmNvbnN0cmFpbnQYAyABKAkSDwoHbWVzc2FnZRgEIAEoCSJ/ChBIZWFydGJlYXRSZXF1ZXN0Eg0KBXF1ZXVlGAEgASgJEikKCHJlbmV3YWxzGAIgAygLMhcubGVhc2Vicm9rZXIudjEuUmVuZXdhbBIxCg5sZWFzZV9kdXJhdGlvbhgDIAEoCzIZLmdvb2dsZS5wcm90b2J1Zi5EdXJhdGlvbiJDCgdSZW5ld2FsEhAKCGxlYXNlX2lkGAEgASgJEhcKCmNoZWNrcG9pbnQYAiABKAxIAIgBAUINCgtfY2hlY2twb2ludCJFChFIZWFydGJlYXRSZXNwb25zZRIwCgdyZXN1bHRzGAEgAygLMh8ubGVhc2Vicm9rZXIudjEuSGVhcnRiZWF0UmVzdWx0IpUCCg9IZWFydGJlYXRSZXN1bHQSKAoHb3V0Y29tZRgCIAEoDjIXLmxlYXNlYnJva2VyLnYxLk91dGNvbWUSLwoLZXhwaXJlX3RpbWUYAyABKAsyGi5nb29nbGUucHJvdG9idWYuVGltZXN0YW1wEiwKCXRpbWVfbGVmdBgEIAEoCzIZLmdvb2dsZS5wcm90b2J1Zi5EdXJhdGlvbhIoCgVzdGF0ZRgFIAEoDjIZLmxlYXNlYnJva2VyLnYxLkl0ZW1TdGF0ZRIVCg1jYW5jZWxfcmVhc29uGAYgASgJEigKB3JlZnVzYWwYByABKAsyFy5sZWFzZWJyb2tlci52MS5SZWZ1c2FsSgQIARACUghsZWFzZV9pZCJ6Cg9Db21wbGV0ZVJlcXVlc3QSDQoFcXVldWUYASABKAkSLwoLY29tcGxldGlvbnMYAiADKAsyGi5sZWFzZWJyb2tlci52MS5Db21wbGV0aW9uEicKBG5leHQYAyABKAsyGS5sZWFzZWJyb2tlci52MS5OZXh0Q2xhaW0irAEKCU5leHRDbGFpbRIRCgl3b3JrZXJfaWQYASABKAkSEQoJbWF4X2l0ZW1zGAIgASgFEjEKDmxlYXNlX2R1cmF0aW9uGAMgASgLMhkuZ29vZ2xlLnByb3RvYnVmLkR1cmF0aW9uEhIKCnJlcXVlc3RfaWQYBCABKAkSEQoJbWF4X2J5dGVzGAUgASgFEg4KBmdyb3VwcxgGIAMoCRIPCgdtYXhfcnVuGAcgASgFItMBCgpDb21wbGV0aW9uEhAKCGxlYXNlX2lkGAEgASgJEiwKCmZvbGxvd191cHMYAiADKAsyGC5sZWFzZWJyb2tlci52MS5Gb2xsb3dVcBI4Cgdjb2x1bW5zGAMgAygLMicubGVhc2Vicm9rZXIudjEuQ29tcGxldGlvbi5Db2x1bW5zRW50cnkaSwoMQ29sdW1uc0VudHJ5EgsKA2tleRgBIAEoCRIqCgV2YWx1ZRgCIAEoCzIbLmxlYXNlYnJva2VyLnYxLkNvbHVtblZhbHVlOgI4ASJACghGb2xsb3dVcBINCgVxdWV1ZRgBIAEoCRIlCgRpdGVtGAIgASgLMhcubGVhc2Vicm9rZXIudjEuTmV3SXRlbSLLAQoQQ29tcGxldGVSZXNwb25zZRItCgdyZXN1bHRzGAEgAygLMhwubGVhc2Vicm9rZXIudjEuU2V0dGxlUmVzdWx0EjAKBG5leHQYBCABKAsyIi5sZWFzZWJyb2tlci52MS5DbGFpbUJhdGNoUmVzcG9uc2USLQoKbmV4dF9lcnJvchgFIAEoCzIZLmxlYXNlYnJva2VyLnYxLkNhbGxFcnJvckoECAIQA0oECAMQBFILbmV4dF9sZWFzZXNSDm5leHRfdG9vX2xhcmdlItYBCglDYWxsRXJyb3ISDAoEY29kZRgBIAEoBRIOCgZyZWFzb24YAiABKAkSDwoHbWVzc2FnZRgDIAEoCRI5CghtZXRhZGF0YRgEIAMoCzInLmxlYXNlYnJva2VyLnYxLkNhbGxFcnJvci5NZXRhZGF0YUVudHJ5Ei4KC3JldHJ5X2RlbGF5GAUgASgLMhkuZ29vZ2xlLnByb3RvYnVmLkR1cmF0aW9uGi8KDU1ldGFkYXRhRW50cnkSCwoDa2V5GAEgASgJEg0KBXZhbHVlGAIgASgJOgI4ASJwCgtGYWlsUmVxdWVzdBINCgVxdWV1ZRgBIAEoCRIpCghmYWlsdXJlcxgCIAMoCzIXLmxlYXNlYnJva2VyLnYxLkZhaWx1cmUSJwoEbmV4dBgDIAEoCzIZLmxlYXNlYnJva2VyLnYxLk5leHRDbGFpbSKjAgoHRmFpbHVyZRIQCghsZWFzZV9pZBgBIAEoCRIVCg1lcnJvcl9tZXNzYWdlGAIgASgJEi4KC3JldHJ5X2RlbGF5GAMgASgLMhkuZ29vZ2xlLnByb3RvYnVmLkR1cmF0aW9uEhMKC2RlYWRfbGV0dGVyGAQgASgIEjUKB2NvbHVtbnMYBSADKAsyJC5sZWFzZWJyb2tlci52MS5GYWlsdXJlLkNvbHVtbnNFbnRyeRIXCgpjaGVja3BvaW50GAYgASgMSACIAQEaSwoMQ29sdW1uc0VudHJ5EgsKA2tleRgBIAEoCRIqCgV2YWx1ZRgCIAEoCzIbLmxlYXNlYnJva2VyLnYxLkNvbHVtblZhbHVlOgI4AUINCgtfY2hlY2twb2ludCLHAQoMRmFpbFJlc3BvbnNlEi0KB3Jlc3VsdHMYASADKAsyHC5sZWFzZWJyb2tlci52MS5TZXR0bGVSZXN1bHQSMAoEbmV4dBgEIAEoCzIiLmxlYXNlYnJva2VyLnYxLkNsYWltQmF0Y2hSZXNwb25zZRItCgpuZXh0X2Vycm9yGAUgASgLMhkubGVhc2Vicm9rZXIudjEuQ2FsbEVycm9ySgQIAhADSgQIAxAEUgtuZXh0X2xlYXNlc1IObmV4dF90b29fbGFyZ2UibgoOUmVsZWFzZVJlcXVlc3QSDQoFcXVldWUYASABKAkSKQoIcmVsZWFzZXMYAiADKAsyFy5sZWFzZWJyb2tlci52MS5SZWxlYXNlSgQIAxAESgQIBBAFUgl3b3JrZXJfaWRSC3JlcXVlc3RfaWRzIm0KB1JlbGVhc2USEAoIbGVhc2VfaWQYASABKAkSKAoFZGVsYXkYAiABKAsyGS5nb29nbGUucHJvdG9idWYuRHVyYXRpb24SFwoKY2hlY2twb2ludBgDIAEoDEgAiAEBQg0KC19jaGVja3BvaW50Il4KD1JlbGVhc2VSZXNwb25zZRItCgdyZXN1bHRzGAEgAygLMhwubGVhc2Vicm9rZXIudjEuU2V0dGxlUmVzdWx0SgQIAhADUhZyZWxlYXNlZF9ieV9yZXF1ZXN0X2lkIk0KFFJlbGVhc2VDbGFpbXNSZXF1ZXN0Eg0KBXF1ZXVlGAEgASgJEhEKCXdvcmtlcl9pZBgCIAEoCRITCgtyZXF1ZXN0X2lkcxgDIAMoCSIpChVSZWxlYXNlQ2xhaW1zUmVzcG9uc2USEAoIcmVsZWFzZWQYASABKAUixAEKDFNldHRsZVJlc3VsdBIoCgdvdXRjb21lGAIgASgOMhcubGVhc2Vicm9rZXIudjEuT3V0Y29tZRIoCgVzdGF0ZRgDIAEoDjIZLmxlYXNlYnJva2VyLnYxLkl0ZW1TdGF0ZRIXCg9hbHJlYWR5X2FwcGxpZWQYBSABKAgSKAoHcmVmdXNhbBgGIAEoCzIXLmxlYXNlYnJva2VyLnYxLlJlZnVzYWxKBAgBEAJKBAgEEAVSCGxlYXNlX2lkUgdwcm9ibGVtIhwKC1dha2VSZXF1ZXN0Eg0KBXF1ZXVlGAEgASgJIg4KDFdha2VSZXNwb25zZSJbCg5FbnF1ZXVlUmVxdWVzdBINCgVxdWV1ZRgBIAEoCRImCgVpdGVtcxgCIAMoCzIXLmxlYXNlYnJva2VyLnYxLk5ld0l0ZW0SEgoKcmVxdWVzdF9pZBgDIAEoCSLNAQoHTmV3SXRlbRI1Cgdjb2x1bW5zGAEgAygLMiQubGVhc2Vicm9rZXIudjEuTmV3SXRlbS5Db2x1bW5zRW50cnkSKAoFZGVsYXkYAiABKAsyGS5nb29nbGUucHJvdG9idWYuRHVyYXRpb24SFAoMdHJhY2VfcGFyZW50GAMgASgJGksKDENvbHVtbnNFbnRyeRILCgNrZXkYASABKAkSKgoFdmFsdWUYAiABKAsyGy5sZWFzZWJyb2tlci52MS5Db2x1bW5WYWx1ZToCOAEiTQoPRW5xdWV1ZVJlc3BvbnNlEi4KB3Jlc3VsdHMYAiADKAsyHS5sZWFzZWJyb2tlci52MS5FbnF1ZXVlUmVzdWx0SgQIARACUgRrZXlzIjMKDUVucXVldWVSZXN1bHQSCwoDa2V5GAEgASgJEhUKDWFscmVhZHlfYWRkZWQYAiABKAgqggIKCEhlbGRCYWNrEhkKFUhFTERfQkFDS19VTlNQRUNJRklFRBAAEhsKF0hFTERfQkFDS19OT1RISU5HX1JFQURZEAESFwoTSEVMRF9CQUNLX1RPT19MQVJHRRACEhYKEkhFTERfQkFDS19TVE9QUElORxADEhYKEkhFTERfQkFDS19SRUxFQVNFRBAEEhQKEEhFTERfQkFDS19QQVVTRUQQBRIZChVIRUxEX0JBQ0tfR1JPVVBTX0JVU1kQBhIYChRIRUxEX0JBQ0tfTUFYX0xFQVNFUxAHEhIKDkhFTERfQkFDS19SQVRFEAgSFgoSSEVMRF9CQUNLX1NVU1BFQ1RTEAkqdgoHT3V0Y29tZRIXChNPVVRDT01FX1VOU1BFQ0lGSUVEEAASEwoPT1VUQ09NRV9BUFBMSUVEEAESFgoST1VUQ09NRV9MRUFTRV9MT1NUEAISEAoMT1VUQ09NRV9HT05FEAMSEwoPT1VUQ09NRV9SRUZVU0VEEAQq8gIKDVJlZnVzYWxSZWFzb24SHgoaUkVGVVNBTF9SRUFTT05fVU5TUEVDSUZJRUQQABIgChxSRUZVU0FMX1JFQVNPTl9JTlZBTElEX0ZJRUxEEAESIgoeUkVGVVNBTF9SRUFTT05fUVVFVUVfTk9UX0ZPVU5EEAISJgoiUkVGVVNBTF9SRUFTT05fQ09MVU1OX05PVF9XUklUQUJMRRADEh4KGlJFRlVTQUxfUkVBU09OX1ZBTFVFX1VORklUEAQSIQodUkVGVVNBTF9SRUFTT05fQUxSRUFEWV9FWElTVFMQBRIYChRSRUZVU0FMX1JFQVNPTl9DSEVDSxAGEh4KGlJFRlVTQUxfUkVBU09OX0ZPUkVJR05fS0VZEAcSGgoWUkVGVVNBTF9SRUFTT05fVFJJR0dFUhAIEh8KG1JFRlVTQUxfUkVBU09OX09VVF9PRl9PUkRFUhAJEhkKFVJFRlVTQUxfUkVBU09OX0xPQ0tFRBAKKpsBCglJdGVtU3RhdGUSGgoWSVRFTV9TVEFURV9VTlNQRUNJRklFRBAAEhQKEElURU1fU1RBVEVfUkVBRFkQARIVChFJVEVNX1NUQVRFX0xFQVNFRBACEhYKEklURU1fU1RBVEVfREVMQVlFRBADEhgKFElURU1fU1RBVEVfQ09NUExFVEVEEAQSEwoPSVRFTV9TVEFURV9ERUFEEAUygAUKDExlYXNlU2VydmljZRJTCgpDbGFpbUJhdGNoEiEubGVhc2Vicm9rZXIudjEuQ2xhaW1CYXRjaFJlcXVlc3QaIi5sZWFzZWJyb2tlci52MS5DbGFpbUJhdGNoUmVzcG9uc2USUAoJSGVhcnRiZWF0EiAubGVhc2Vicm9rZXIudjEuSGVhcnRiZWF0UmVxdWVzdBohLmxlYXNlYnJva2VyLnYxLkhlYXJ0YmVhdFJlc3BvbnNlEk0KCENvbXBsZXRlEh8ubGVhc2Vicm9rZXIudjEuQ29tcGxldGVSZXF1ZXN0GiAubGVhc2Vicm9rZXIudjEuQ29tcGxldGVSZXNwb25zZRJBCgRGYWlsEhsubGVhc2Vicm9rZXIudjEuRmFpbFJlcXVlc3QaHC5sZWFzZWJyb2tlci52MS5GYWlsUmVzcG9uc2USSgoHUmVsZWFzZRIeLmxlYXNlYnJva2VyLnYxLlJlbGVhc2VSZXF1ZXN0Gh8ubGVhc2Vicm9rZXIudjEuUmVsZWFzZVJlc3BvbnNlElwKDVJlbGVhc2VDbGFpbXMSJC5sZWFzZWJyb2tlci52MS5SZWxlYXNlQ2xhaW1zUmVxdWVzdBolLmxlYXNlYnJva2VyLnYxLlJlbGVhc2VDbGFpbXNSZXNwb25zZRJBCgRXYWtlEhsubGVhc2Vicm9rZXIudjEuV2FrZVJlcXVlc3QaHC5sZWFzZWJyb2tlci52MS5XYWtlUmVzcG9uc2USSgoHRW5xdWV1ZRIeLmxlYXNlYnJva2VyLnYxLkVucXVldWVSZXF1ZXN0Gh8ubGVhc2Vicm9rZXIudjEuRW5xdWV1ZVJlc3BvbnNlQmIKGmNvbS5leGFtcGxlLmxlYXNlYnJva2VyLnYxUAFaMWV4YW1wbGUuY29tL2xlYXNlLWJyb2tlci9jbGllbnRzL2dvL2xlYXNlYnJva2VydjGqAg5MZWFzZUJyb2tlci5WMWIGcHJvdG8z", [file_google_protobuf_duration, file_google_protobuf_struct, file_google_protobuf_timestamp]);

/**
 * Claims items of one queue.
 *
 * @generated from message leasebroker.v1.ClaimBatchRequest
 */
export type ClaimBatchRequest = Message<"leasebroker.v1.ClaimBatchRequest"> & {
  /**
   * The name of the queue, as configured. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The name of the worker, for people who look for the holder of a lease: host and process, for example. 1 to 128
   * UTF-16 units: a character beyond U+FFFF, such as an emoji, counts as two. Required.
   *
   * @generated from field: string worker_id = 2;
   */
  workerId: string;

  /**
   * The maximum number of items, 1 to 1,000. Required. Fewer are leased if max_bytes has no room for more.
   *
   * @generated from field: int32 max_items = 3;
   */
  maxItems: number;

  /**
   * The duration of the leases, 1 second to 12 hours unless the queue sets other bounds. Absent: the queue's default.
   *
   * @generated from field: google.protobuf.Duration lease_duration = 4;
   */
  leaseDuration?: Duration | undefined;

  /**
   * The time to wait for at least one item, up to 60 seconds. Absent: the call does not wait. If the caller's deadline
   * is sooner, the call returns shortly before the deadline.
   *
   * @generated from field: google.protobuf.Duration wait_timeout = 5;
   */
  waitTimeout?: Duration | undefined;

  /**
   * A UUID that the caller chooses, so that a claim whose response was lost can be sent again: 36 characters, not the
   * nil UUID. A call with the same id, queue, worker_id and caller returns the leases of the first call that are still
   * held, and claims no further items. The other fields need not be equal: with a smaller max_items the call still
   * returns all of these leases. But send the same lease_duration again: it becomes part of the returned lease ids, and
   * a Heartbeat without one uses it. If all leases have expired or were settled, the call claims items like a new one.
   * Empty: every call claims new items.
   *
   * @generated from field: string request_id = 6;
   */
  requestId: string;

  /**
   * The maximum size of the response in bytes, 65,536 or more. The message limit of the service also bounds it. Items
   * that do not fit are not leased: they stay ready, in their order, for the next claim. If an item is larger than
   * max_bytes by itself, the call passes over it and names it in too_large. If you raise max_bytes, raise the message
   * limit of your client too. Absent or 0: 4 MiB, which most clients accept.
   *
   * @generated from field: int32 max_bytes = 7;
   */
  maxBytes: number;

  /**
   * Only items of these groups: values of the column that names groups, each as text in the form of Item.key, up to 100. The
   * queue must have groups in its configuration. The call obeys the rules of the groups as other calls do, and other groups
   * keep their turns. Empty: items of all groups, and those that belong to none.
   *
   * @generated from field: repeated string groups = 8;
   */
  groups: string[];

  /**
   * The maximum number of consecutive items of a group that the call leases together, as a run. The queue must allow runs in
   * its configuration, and its own maximum counts if it is smaller. The worker processes the items of a run one after the
   * other, in the order of the response. It begins an item only after the completion of the one before was applied. 0 or 1:
   * one item of a group. Without effect on a queue without runs.
   *
   * @generated from field: int32 max_run = 9;
   */
  maxRun: number;
};

/**
 * Describes the message leasebroker.v1.ClaimBatchRequest.
 * Use `create(ClaimBatchRequestSchema)` to create a new message.
 */
export const ClaimBatchRequestSchema: GenMessage<ClaimBatchRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 0);

/**
 * The leases of a claim.
 *
 * @generated from message leasebroker.v1.ClaimBatchResponse
 */
export type ClaimBatchResponse = Message<"leasebroker.v1.ClaimBatchResponse"> & {
  /**
   * The leases, in the queue's order. With groups: group by group in their turns, the items of a run in the queue's order.
   * Empty if no item was ready.
   *
   * @generated from field: repeated leasebroker.v1.Lease leases = 1;
   */
  leases: Lease[];

  /**
   * The first ready items that are larger than max_bytes by themselves, at most 10. They are not leased and not changed.
   * A claim with a larger max_bytes gets them. A claim looks at no more than max_items + 100 ready items. An item that is larger
   * than the service's server.max_message_bytes or limits.max_item_bytes becomes dead when a claim meets it. Enqueue refuses such
   * an item, but another program can insert one, and the columns and checkpoints that workers write can make one.
   *
   * @generated from field: repeated leasebroker.v1.TooLargeItem too_large = 2;
   */
  tooLarge: TooLargeItem[];

  /**
   * Why there is no lease. HELD_BACK_UNSPECIFIED if there is one.
   *
   * @generated from field: leasebroker.v1.HeldBack held_back = 3;
   */
  heldBack: HeldBack;

  /**
   * The time to wait before the next claim. It is set if an earlier claim would get nothing. It is also set if this call did not wait
   * because the caller's identity has reached its limit of waiting claims. Absent: the time is not known. A worker may then claim
   * again immediately, with a wait_timeout. If the answer came before the end of its wait_timeout, it pauses for about 100 ms first.
   *
   * Number 4 is kept for the time at which the next item becomes ready, 8 and 9 for the columns of all leases in lists by column.
   *
   * @generated from field: google.protobuf.Duration retry_after = 5;
   */
  retryAfter?: Duration | undefined;
};

/**
 * Describes the message leasebroker.v1.ClaimBatchResponse.
 * Use `create(ClaimBatchResponseSchema)` to create a new message.
 */
export const ClaimBatchResponseSchema: GenMessage<ClaimBatchResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 1);

/**
 * A ready item that a claim passed over because of its size.
 *
 * @generated from message leasebroker.v1.TooLargeItem
 */
export type TooLargeItem = Message<"leasebroker.v1.TooLargeItem"> & {
  /**
   * The identity of the item, as in Item.key.
   *
   * @generated from field: string key = 1;
   */
  key: string;

  /**
   * The size of its lease in a response, in bytes. It is an estimate that is not too low. On SQL Server 2017 a text
   * counts as in UTF-16.
   *
   * @generated from field: int32 size_bytes = 2;
   */
  sizeBytes: number;
};

/**
 * Describes the message leasebroker.v1.TooLargeItem.
 * Use `create(TooLargeItemSchema)` to create a new message.
 */
export const TooLargeItemSchema: GenMessage<TooLargeItem> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 2);

/**
 * The right to work on one item until a point in time.
 *
 * @generated from message leasebroker.v1.Lease
 */
export type Lease = Message<"leasebroker.v1.Lease"> & {
  /**
   * The id of the lease, for Heartbeat, Complete, Fail and Release. It is opaque and cannot be guessed. At most 4,096
   * characters.
   *
   * @generated from field: string lease_id = 1;
   */
  leaseId: string;

  /**
   * The leased item.
   *
   * @generated from field: leasebroker.v1.Item item = 2;
   */
  item?: Item | undefined;

  /**
   * The number of this attempt, 1 for the first.
   *
   * @generated from field: int32 attempt = 3;
   */
  attempt: number;

  /**
   * A number that grows with every claim of this item. Send it to the systems that you write to. They can then refuse a
   * worker whose lease was lost, because its number is smaller than one that they have seen.
   *
   * @generated from field: int64 fencing_token = 4;
   */
  fencingToken: bigint;

  /**
   * The time at which the lease expires, by the database's clock.
   *
   * @generated from field: google.protobuf.Timestamp expire_time = 5;
   */
  expireTime?: Timestamp | undefined;

  /**
   * The time that the lease had left when the database answered. Workers that use it need no synchronized clock.
   *
   * @generated from field: google.protobuf.Duration time_left = 6;
   */
  timeLeft?: Duration | undefined;

  /**
   * The W3C trace context of the lease's span, 55 characters. Use it as the parent of the worker's spans. Empty: the broker
   * records no spans, and the item's producer has no trace.
   *
   * @generated from field: string trace_parent = 7;
   */
  traceParent: string;

  /**
   * The number of attempts after which a failure or an expiry makes the item dead. 0: no limit.
   *
   * @generated from field: int32 max_attempts = 8;
   */
  maxAttempts: number;

  /**
   * The time at which the item became ready, by the database's clock. Absent if it is not known: another program has
   * inserted the row into a SQLite file, the row was in its table before the queue was set up, or the response repeats the
   * leases of an earlier call with the same request_id.
   *
   * @generated from field: google.protobuf.Timestamp ready_time = 9;
   */
  readyTime?: Timestamp | undefined;

  /**
   * The checkpoint that an earlier lease of this item stored last. Continue the work from there. Absent: there is none,
   * or the queue has no checkpoints.
   *
   * @generated from field: optional bytes checkpoint = 10;
   */
  checkpoint?: Uint8Array | undefined;

  /**
   * The number of the run to which the lease belongs: leases of one response with the same number are one run, in the order
   * of the response. If an item of the run fails, is released, is cancelled or expires, the leases of the later items are
   * released with it: they have the outcome OUTCOME_LEASE_LOST from then on, and their attempts do not count. 0: the lease
   * belongs to no run, because the claim asked for none, the item belongs to no group, or the last lease of the item has
   * expired (HELD_BACK_SUSPECTS).
   *
   * @generated from field: int32 run = 11;
   */
  run: number;
};

/**
 * Describes the message leasebroker.v1.Lease.
 * Use `create(LeaseSchema)` to create a new message.
 */
export const LeaseSchema: GenMessage<Lease> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 3);

/**
 * A row of the queue's table.
 *
 * @generated from message leasebroker.v1.Item
 */
export type Item = Message<"leasebroker.v1.Item"> & {
  /**
   * The identity of the item. For one key column it is the value as text, with bytes in lower-case hexadecimal. For
   * several key columns it is a JSON array of the values.
   *
   * @generated from field: string key = 1;
   */
  key: string;

  /**
   * The values of the columns that the queue is configured to send to workers, by column name.
   *
   * @generated from field: map<string, leasebroker.v1.ColumnValue> columns = 2;
   */
  columns: { [key: string]: ColumnValue };
};

/**
 * Describes the message leasebroker.v1.Item.
 * Use `create(ItemSchema)` to create a new message.
 */
export const ItemSchema: GenMessage<Item> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 4);

/**
 * The value of a column.
 *
 * @generated from message leasebroker.v1.ColumnValue
 */
export type ColumnValue = Message<"leasebroker.v1.ColumnValue"> & {
  /**
   * The value, by its type. One of these fields is set. None: the value has a kind that the reader does not know, because the
   * writer is newer. It is not NULL. The service refuses such a value. Numbers 9 to 15 are kept for further kinds: date, time,
   * timestamp with offset, UUID, JSON, unsigned integer.
   *
   * @generated from oneof leasebroker.v1.ColumnValue.kind
   */
  kind: {
    /**
     * True or false.
     *
     * @generated from field: bool bool_value = 1;
     */
    value: boolean;
    case: "boolValue";
  } | {
    /**
     * A signed integer of up to 64 bits.
     *
     * @generated from field: int64 int64_value = 2;
     */
    value: bigint;
    case: "int64Value";
  } | {
    /**
     * A floating-point number. NaN is refused.
     *
     * @generated from field: double double_value = 3;
     */
    value: number;
    case: "doubleValue";
  } | {
    /**
     * Text.
     *
     * @generated from field: string string_value = 4;
     */
    value: string;
    case: "stringValue";
  } | {
    /**
     * Bytes.
     *
     * @generated from field: bytes bytes_value = 5;
     */
    value: Uint8Array;
    case: "bytesValue";
  } | {
    /**
     * A point in time in UTC, in the years 0001 to 9999.
     *
     * @generated from field: google.protobuf.Timestamp timestamp_value = 6;
     */
    value: Timestamp;
    case: "timestampValue";
  } | {
    /**
     * An exact decimal number as text, such as "-12.50". Decimal and money columns have such values.
     *
     * @generated from field: string decimal_value = 7;
     */
    value: string;
    case: "decimalValue";
  } | {
    /**
     * SQL NULL.
     *
     * @generated from field: google.protobuf.NullValue null_value = 8;
     */
    value: NullValue;
    case: "nullValue";
  } | { case: undefined; value?: undefined };
};

/**
 * Describes the message leasebroker.v1.ColumnValue.
 * Use `create(ColumnValueSchema)` to create a new message.
 */
export const ColumnValueSchema: GenMessage<ColumnValue> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 5);

/**
 * Why one entry of a call was refused.
 *
 * @generated from message leasebroker.v1.Refusal
 */
export type Refusal = Message<"leasebroker.v1.Refusal"> & {
  /**
   * The kind of problem, for programs.
   *
   * @generated from field: leasebroker.v1.RefusalReason reason = 1;
   */
  reason: RefusalReason;

  /**
   * The path of the refused field in the entry, such as follow_ups[1].item.columns["Total"]. Empty: the database refused the
   * change, and the field is not known.
   *
   * @generated from field: string field = 2;
   */
  field: string;

  /**
   * The name of the constraint, index, foreign key or trigger that refused the change, as the database gives it. Empty: there
   * is none, or the database does not name it.
   *
   * @generated from field: string constraint = 3;
   */
  constraint: string;

  /**
   * The problem as text for people, up to 1,024 bytes. It has no value of a column.
   *
   * @generated from field: string message = 4;
   */
  message: string;
};

/**
 * Describes the message leasebroker.v1.Refusal.
 * Use `create(RefusalSchema)` to create a new message.
 */
export const RefusalSchema: GenMessage<Refusal> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 6);

/**
 * Extends leases of one queue.
 *
 * @generated from message leasebroker.v1.HeartbeatRequest
 */
export type HeartbeatRequest = Message<"leasebroker.v1.HeartbeatRequest"> & {
  /**
   * The name of the queue that the leases belong to. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The leases to extend, up to 1,000.
   *
   * @generated from field: repeated leasebroker.v1.Renewal renewals = 2;
   */
  renewals: Renewal[];

  /**
   * The duration of each lease from now, 1 second to 12 hours unless the queue sets other bounds. Absent: each lease
   * lasts as long as it was claimed for, by the call that returned this lease id.
   *
   * @generated from field: google.protobuf.Duration lease_duration = 3;
   */
  leaseDuration?: Duration | undefined;
};

/**
 * Describes the message leasebroker.v1.HeartbeatRequest.
 * Use `create(HeartbeatRequestSchema)` to create a new message.
 */
export const HeartbeatRequestSchema: GenMessage<HeartbeatRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 7);

/**
 * Extends one lease.
 *
 * @generated from message leasebroker.v1.Renewal
 */
export type Renewal = Message<"leasebroker.v1.Renewal"> & {
  /**
   * The lease on the item.
   *
   * @generated from field: string lease_id = 1;
   */
  leaseId: string;

  /**
   * A checkpoint: bytes that describe how far the work on the item has come. Their form is the worker's own. The statement
   * that extends the lease stores them on the row, so only if the lease is held: a late worker never overwrites the
   * checkpoint of a newer one. The next lease of the item has it as Lease.checkpoint, also after an expiry or a
   * cancellation. A completion removes it. Absent: the stored checkpoint stays. Empty: it is removed. Only for queues
   * whose setting `checkpoint` is on; up to its max_bytes, 4,096 unless configured.
   *
   * @generated from field: optional bytes checkpoint = 2;
   */
  checkpoint?: Uint8Array | undefined;
};

/**
 * Describes the message leasebroker.v1.Renewal.
 * Use `create(RenewalSchema)` to create a new message.
 */
export const RenewalSchema: GenMessage<Renewal> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 8);

/**
 * The results of a heartbeat.
 *
 * @generated from message leasebroker.v1.HeartbeatResponse
 */
export type HeartbeatResponse = Message<"leasebroker.v1.HeartbeatResponse"> & {
  /**
   * One result per renewal, in request order.
   *
   * @generated from field: repeated leasebroker.v1.HeartbeatResult results = 1;
   */
  results: HeartbeatResult[];
};

/**
 * Describes the message leasebroker.v1.HeartbeatResponse.
 * Use `create(HeartbeatResponseSchema)` to create a new message.
 */
export const HeartbeatResponseSchema: GenMessage<HeartbeatResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 9);

/**
 * The result of a heartbeat for one lease.
 *
 * @generated from message leasebroker.v1.HeartbeatResult
 */
export type HeartbeatResult = Message<"leasebroker.v1.HeartbeatResult"> & {
  /**
   * OUTCOME_APPLIED, OUTCOME_LEASE_LOST, or OUTCOME_REFUSED for a checkpoint that cannot be stored, or for a row that another
   * transaction has locked. A refused renewal does not extend the lease. With REFUSAL_REASON_LOCKED, send it again as it is after
   * a moment. With another reason, send it again without the checkpoint.
   *
   * @generated from field: leasebroker.v1.Outcome outcome = 2;
   */
  outcome: Outcome;

  /**
   * The time at which the lease now expires, by the database's clock. Only for OUTCOME_APPLIED.
   *
   * @generated from field: google.protobuf.Timestamp expire_time = 3;
   */
  expireTime?: Timestamp | undefined;

  /**
   * The time that the lease had left when the database answered. Only for OUTCOME_APPLIED.
   *
   * @generated from field: google.protobuf.Duration time_left = 4;
   */
  timeLeft?: Duration | undefined;

  /**
   * The present state of the item, also if the lease is lost. A worker that has completed or failed the item itself can
   * tell by it that its lease was settled and not lost. ITEM_STATE_LEASED of a lost lease: another worker holds the item,
   * or the lease has expired and the item was not made ready yet. ITEM_STATE_UNSPECIFIED: the row no longer exists, for
   * example because its completion removed it, or the lease id is invalid.
   *
   * @generated from field: leasebroker.v1.ItemState state = 5;
   */
  state: ItemState;

  /**
   * The reason given to CancelLeases, if the lease was cancelled and the item has not been claimed since then.
   *
   * @generated from field: string cancel_reason = 6;
   */
  cancelReason: string;

  /**
   * Only for OUTCOME_REFUSED.
   *
   * @generated from field: leasebroker.v1.Refusal refusal = 7;
   */
  refusal?: Refusal | undefined;
};

/**
 * Describes the message leasebroker.v1.HeartbeatResult.
 * Use `create(HeartbeatResultSchema)` to create a new message.
 */
export const HeartbeatResultSchema: GenMessage<HeartbeatResult> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 10);

/**
 * Completes items of one queue.
 *
 * @generated from message leasebroker.v1.CompleteRequest
 */
export type CompleteRequest = Message<"leasebroker.v1.CompleteRequest"> & {
  /**
   * The name of the queue that the leases belong to. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The completions, up to 1,000, with up to 1,000 follow-ups in total. If a lease is in the list twice, the second entry is
   * treated as in a later call. Failures and releases are too.
   *
   * @generated from field: repeated leasebroker.v1.Completion completions = 2;
   */
  completions: Completion[];

  /**
   * A claim of items from the same queue. A worker that processes one item after another then needs half as many calls.
   * Absent: the call claims nothing.
   *
   * @generated from field: leasebroker.v1.NextClaim next = 3;
   */
  next?: NextClaim | undefined;
};

/**
 * Describes the message leasebroker.v1.CompleteRequest.
 * Use `create(CompleteRequestSchema)` to create a new message.
 */
export const CompleteRequestSchema: GenMessage<CompleteRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 11);

/**
 * A claim that is part of a Complete or Fail call. It does not wait for items. Use ClaimBatch to wait.
 *
 * The broker runs the settlements and the claim side by side. They often share one commit, so that the call costs one
 * instead of two. They can also be two transactions, in either order: another reader of the table may for a moment see
 * the new leases while the settled ones are still held. The response is sent after both.
 *
 * @generated from message leasebroker.v1.NextClaim
 */
export type NextClaim = Message<"leasebroker.v1.NextClaim"> & {
  /**
   * The name of the worker, as in ClaimBatchRequest. Required.
   *
   * @generated from field: string worker_id = 1;
   */
  workerId: string;

  /**
   * The maximum number of items, as in ClaimBatchRequest. Required.
   *
   * @generated from field: int32 max_items = 2;
   */
  maxItems: number;

  /**
   * The duration of the leases, as in ClaimBatchRequest. Absent: the queue's default.
   *
   * @generated from field: google.protobuf.Duration lease_duration = 3;
   */
  leaseDuration?: Duration | undefined;

  /**
   * UUID of this claim, as in ClaimBatchRequest. If you send the whole call again with the same id, you get the same
   * leases. Empty: every call claims new items.
   *
   * @generated from field: string request_id = 4;
   */
  requestId: string;

  /**
   * The maximum size of the response in bytes, as in ClaimBatchRequest. The results of the settlements count too.
   *
   * @generated from field: int32 max_bytes = 5;
   */
  maxBytes: number;

  /**
   * Only items of these groups, as in ClaimBatchRequest.
   *
   * @generated from field: repeated string groups = 6;
   */
  groups: string[];

  /**
   * The maximum number of consecutive items of a group, as in ClaimBatchRequest.
   *
   * @generated from field: int32 max_run = 7;
   */
  maxRun: number;
};

/**
 * Describes the message leasebroker.v1.NextClaim.
 * Use `create(NextClaimSchema)` to create a new message.
 */
export const NextClaimSchema: GenMessage<NextClaim> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 12);

/**
 * Completes one item.
 *
 * @generated from message leasebroker.v1.Completion
 */
export type Completion = Message<"leasebroker.v1.Completion"> & {
  /**
   * The lease on the item.
   *
   * @generated from field: string lease_id = 1;
   */
  leaseId: string;

  /**
   * Items to add to queues. They are added in the same transaction as the completion. If the lease is lost, they are
   * not added.
   *
   * @generated from field: repeated leasebroker.v1.FollowUp follow_ups = 2;
   */
  followUps: FollowUp[];

  /**
   * Values to write into columns of the item's own row, by column name. The statement that completes the item writes
   * them, only if the lease is held: row, state and follow-ups change together or not at all. A repeated Complete does
   * not write again. Only columns that the queue's setting `writable` lists. A column that is not listed or cannot store
   * the value, or whose constraint refuses it, refuses this completion (OUTCOME_REFUSED). An archived row has the
   * written values.
   *
   * @generated from field: map<string, leasebroker.v1.ColumnValue> columns = 3;
   */
  columns: { [key: string]: ColumnValue };
};

/**
 * Describes the message leasebroker.v1.Completion.
 * Use `create(CompletionSchema)` to create a new message.
 */
export const CompletionSchema: GenMessage<Completion> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 13);

/**
 * An item that a completion adds.
 *
 * @generated from message leasebroker.v1.FollowUp
 */
export type FollowUp = Message<"leasebroker.v1.FollowUp"> & {
  /**
   * The name of the queue that the item is added to. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The item to add. Required.
   *
   * @generated from field: leasebroker.v1.NewItem item = 2;
   */
  item?: NewItem | undefined;
};

/**
 * Describes the message leasebroker.v1.FollowUp.
 * Use `create(FollowUpSchema)` to create a new message.
 */
export const FollowUpSchema: GenMessage<FollowUp> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 14);

/**
 * The results of a Complete call.
 *
 * @generated from message leasebroker.v1.CompleteResponse
 */
export type CompleteResponse = Message<"leasebroker.v1.CompleteResponse"> & {
  /**
   * One result per completion, in request order.
   *
   * @generated from field: repeated leasebroker.v1.SettleResult results = 1;
   */
  results: SettleResult[];

  /**
   * The result of the claim in `next`. It does not depend on the results of the completions. Absent: the request had no
   * `next`, or the claim failed.
   *
   * @generated from field: leasebroker.v1.ClaimBatchResponse next = 4;
   */
  next?: ClaimBatchResponse | undefined;

  /**
   * The error of the claim in `next`, if only the claim failed. Absent: it did not fail.
   *
   * @generated from field: leasebroker.v1.CallError next_error = 5;
   */
  nextError?: CallError | undefined;
};

/**
 * Describes the message leasebroker.v1.CompleteResponse.
 * Use `create(CompleteResponseSchema)` to create a new message.
 */
export const CompleteResponseSchema: GenMessage<CompleteResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 15);

/**
 * The error of a call, as a message. It has the same contents as the status, the google.rpc.ErrorInfo and the
 * google.rpc.RetryInfo of a call that fails alone.
 *
 * @generated from message leasebroker.v1.CallError
 */
export type CallError = Message<"leasebroker.v1.CallError"> & {
  /**
   * The gRPC status code, such as 14 for UNAVAILABLE.
   *
   * @generated from field: int32 code = 1;
   */
  code: number;

  /**
   * The reason, such as STORE_UNAVAILABLE.
   *
   * @generated from field: string reason = 2;
   */
  reason: string;

  /**
   * The problem as text for people, up to 1,024 bytes.
   *
   * @generated from field: string message = 3;
   */
  message: string;

  /**
   * The metadata, such as applied.
   *
   * @generated from field: map<string, string> metadata = 4;
   */
  metadata: { [key: string]: string };

  /**
   * The time to wait before the call is sent again. Absent: sending it again does not help.
   *
   * @generated from field: google.protobuf.Duration retry_delay = 5;
   */
  retryDelay?: Duration | undefined;
};

/**
 * Describes the message leasebroker.v1.CallError.
 * Use `create(CallErrorSchema)` to create a new message.
 */
export const CallErrorSchema: GenMessage<CallError> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 16);

/**
 * Reports failures of items of one queue.
 *
 * @generated from message leasebroker.v1.FailRequest
 */
export type FailRequest = Message<"leasebroker.v1.FailRequest"> & {
  /**
   * The name of the queue that the leases belong to. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The failures, up to 1,000.
   *
   * @generated from field: repeated leasebroker.v1.Failure failures = 2;
   */
  failures: Failure[];

  /**
   * A claim of items from the same queue, as in CompleteRequest. Absent: the call claims nothing.
   *
   * @generated from field: leasebroker.v1.NextClaim next = 3;
   */
  next?: NextClaim | undefined;
};

/**
 * Describes the message leasebroker.v1.FailRequest.
 * Use `create(FailRequestSchema)` to create a new message.
 */
export const FailRequestSchema: GenMessage<FailRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 17);

/**
 * Reports that the work on one item failed.
 *
 * @generated from message leasebroker.v1.Failure
 */
export type Failure = Message<"leasebroker.v1.Failure"> & {
  /**
   * The lease on the item.
   *
   * @generated from field: string lease_id = 1;
   */
  leaseId: string;

  /**
   * A description of the error. It is stored on the row, cut to 1,024 UTF-16 units.
   *
   * @generated from field: string error_message = 2;
   */
  errorMessage: string;

  /**
   * The delay before the next attempt, up to 366 days. Absent: the queue's backoff. Ignored if no attempts are left,
   * and with dead_letter.
   *
   * @generated from field: google.protobuf.Duration retry_delay = 3;
   */
  retryDelay?: Duration | undefined;

  /**
   * True: the item becomes dead immediately, even if attempts are left.
   *
   * @generated from field: bool dead_letter = 4;
   */
  deadLetter: boolean;

  /**
   * Values to write into columns of the item's own row, as in Completion. The statement that records the failure writes
   * them.
   *
   * @generated from field: map<string, leasebroker.v1.ColumnValue> columns = 5;
   */
  columns: { [key: string]: ColumnValue };

  /**
   * A checkpoint for the next attempt, as in Renewal.
   *
   * @generated from field: optional bytes checkpoint = 6;
   */
  checkpoint?: Uint8Array | undefined;
};

/**
 * Describes the message leasebroker.v1.Failure.
 * Use `create(FailureSchema)` to create a new message.
 */
export const FailureSchema: GenMessage<Failure> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 18);

/**
 * The results of a Fail call.
 *
 * @generated from message leasebroker.v1.FailResponse
 */
export type FailResponse = Message<"leasebroker.v1.FailResponse"> & {
  /**
   * One result per failure, in request order.
   *
   * @generated from field: repeated leasebroker.v1.SettleResult results = 1;
   */
  results: SettleResult[];

  /**
   * The result of the claim in `next`, as in CompleteResponse.
   *
   * @generated from field: leasebroker.v1.ClaimBatchResponse next = 4;
   */
  next?: ClaimBatchResponse | undefined;

  /**
   * The error of the claim in `next`, as in CompleteResponse.
   *
   * @generated from field: leasebroker.v1.CallError next_error = 5;
   */
  nextError?: CallError | undefined;
};

/**
 * Describes the message leasebroker.v1.FailResponse.
 * Use `create(FailResponseSchema)` to create a new message.
 */
export const FailResponseSchema: GenMessage<FailResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 19);

/**
 * Releases items of one queue.
 *
 * @generated from message leasebroker.v1.ReleaseRequest
 */
export type ReleaseRequest = Message<"leasebroker.v1.ReleaseRequest"> & {
  /**
   * The name of the queue that the leases belong to. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The leases to release, up to 1,000.
   *
   * @generated from field: repeated leasebroker.v1.Release releases = 2;
   */
  releases: Release[];
};

/**
 * Describes the message leasebroker.v1.ReleaseRequest.
 * Use `create(ReleaseRequestSchema)` to create a new message.
 */
export const ReleaseRequestSchema: GenMessage<ReleaseRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 20);

/**
 * Releases one item.
 *
 * @generated from message leasebroker.v1.Release
 */
export type Release = Message<"leasebroker.v1.Release"> & {
  /**
   * The lease on the item.
   *
   * @generated from field: string lease_id = 1;
   */
  leaseId: string;

  /**
   * The delay before the item is ready again, up to 366 days. Absent: it is ready immediately.
   *
   * @generated from field: google.protobuf.Duration delay = 2;
   */
  delay?: Duration | undefined;

  /**
   * A checkpoint for the next lease, as in Renewal. A worker that gives up its work on shutdown stores its progress so.
   *
   * @generated from field: optional bytes checkpoint = 3;
   */
  checkpoint?: Uint8Array | undefined;
};

/**
 * Describes the message leasebroker.v1.Release.
 * Use `create(ReleaseSchema)` to create a new message.
 */
export const ReleaseSchema: GenMessage<Release> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 21);

/**
 * The results of a Release call.
 *
 * @generated from message leasebroker.v1.ReleaseResponse
 */
export type ReleaseResponse = Message<"leasebroker.v1.ReleaseResponse"> & {
  /**
   * One result per release, in request order.
   *
   * @generated from field: repeated leasebroker.v1.SettleResult results = 1;
   */
  results: SettleResult[];
};

/**
 * Describes the message leasebroker.v1.ReleaseResponse.
 * Use `create(ReleaseResponseSchema)` to create a new message.
 */
export const ReleaseResponseSchema: GenMessage<ReleaseResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 22);

/**
 * Releases the leases of claims of one queue.
 *
 * @generated from message leasebroker.v1.ReleaseClaimsRequest
 */
export type ReleaseClaimsRequest = Message<"leasebroker.v1.ReleaseClaimsRequest"> & {
  /**
   * The name of the queue that was claimed from. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The name of the worker that sent the claims, as in these claims. Required.
   *
   * @generated from field: string worker_id = 2;
   */
  workerId: string;

  /**
   * The request ids of claims of this worker, of ClaimBatch calls or of `next`, up to 1,000.
   *
   * @generated from field: repeated string request_ids = 3;
   */
  requestIds: string[];
};

/**
 * Describes the message leasebroker.v1.ReleaseClaimsRequest.
 * Use `create(ReleaseClaimsRequestSchema)` to create a new message.
 */
export const ReleaseClaimsRequestSchema: GenMessage<ReleaseClaimsRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 23);

/**
 * The result of a ReleaseClaims call.
 *
 * @generated from message leasebroker.v1.ReleaseClaimsResponse
 */
export type ReleaseClaimsResponse = Message<"leasebroker.v1.ReleaseClaimsResponse"> & {
  /**
   * The number of leases that this call has released. If the call is sent again, those that it has released before do not
   * count.
   *
   * @generated from field: int32 released = 1;
   */
  released: number;
};

/**
 * Describes the message leasebroker.v1.ReleaseClaimsResponse.
 * Use `create(ReleaseClaimsResponseSchema)` to create a new message.
 */
export const ReleaseClaimsResponseSchema: GenMessage<ReleaseClaimsResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 24);

/**
 * The result of settling one lease: of a completion, a failure or a release.
 *
 * @generated from message leasebroker.v1.SettleResult
 */
export type SettleResult = Message<"leasebroker.v1.SettleResult"> & {
  /**
   * OUTCOME_APPLIED, OUTCOME_LEASE_LOST or OUTCOME_REFUSED. For a completion also OUTCOME_GONE.
   *
   * @generated from field: leasebroker.v1.Outcome outcome = 2;
   */
  outcome: Outcome;

  /**
   * The state of the item after the call. ITEM_STATE_UNSPECIFIED unless the outcome is OUTCOME_APPLIED.
   *
   * @generated from field: leasebroker.v1.ItemState state = 3;
   */
  state: ItemState;

  /**
   * True: an earlier call of the same kind has settled the lease, and this call changed nothing. Only for OUTCOME_APPLIED.
   *
   * @generated from field: bool already_applied = 5;
   */
  alreadyApplied: boolean;

  /**
   * Only for OUTCOME_REFUSED.
   *
   * @generated from field: leasebroker.v1.Refusal refusal = 6;
   */
  refusal?: Refusal | undefined;
};

/**
 * Describes the message leasebroker.v1.SettleResult.
 * Use `create(SettleResultSchema)` to create a new message.
 */
export const SettleResultSchema: GenMessage<SettleResult> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 25);

/**
 * Wakes the claims that wait for items of one queue.
 *
 * @generated from message leasebroker.v1.WakeRequest
 */
export type WakeRequest = Message<"leasebroker.v1.WakeRequest"> & {
  /**
   * The name of the queue. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;
};

/**
 * Describes the message leasebroker.v1.WakeRequest.
 * Use `create(WakeRequestSchema)` to create a new message.
 */
export const WakeRequestSchema: GenMessage<WakeRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 26);

/**
 * The answer to a wake-up.
 *
 * @generated from message leasebroker.v1.WakeResponse
 */
export type WakeResponse = Message<"leasebroker.v1.WakeResponse"> & {
};

/**
 * Describes the message leasebroker.v1.WakeResponse.
 * Use `create(WakeResponseSchema)` to create a new message.
 */
export const WakeResponseSchema: GenMessage<WakeResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 27);

/**
 * Adds items to one queue.
 *
 * @generated from message leasebroker.v1.EnqueueRequest
 */
export type EnqueueRequest = Message<"leasebroker.v1.EnqueueRequest"> & {
  /**
   * The name of the queue. Required.
   *
   * @generated from field: string queue = 1;
   */
  queue: string;

  /**
   * The items to add, up to 1,000.
   *
   * @generated from field: repeated leasebroker.v1.NewItem items = 2;
   */
  items: NewItem[];

  /**
   * A UUID that the caller makes for this list of items: 36 characters, not the nil UUID. If the call is sent again
   * with the same id, to any broker of the database, it returns the same keys and adds nothing. The queue remembers the
   * id for its enqueue_memory at least, 24 hours by default, from the commit of the items. A call that failed is not
   * remembered. The trace contexts of the items may differ, all else must be the same. Empty: the call adds its items
   * each time that it is sent. A call without items returns OK with every valid id, which the queue does not remember
   * for it.
   *
   * @generated from field: string request_id = 3;
   */
  requestId: string;
};

/**
 * Describes the message leasebroker.v1.EnqueueRequest.
 * Use `create(EnqueueRequestSchema)` to create a new message.
 */
export const EnqueueRequestSchema: GenMessage<EnqueueRequest> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 28);

/**
 * An item to add.
 *
 * @generated from message leasebroker.v1.NewItem
 */
export type NewItem = Message<"leasebroker.v1.NewItem"> & {
  /**
   * The values of the row's columns, by column name. A column that is left out gets the table's default.
   *
   * @generated from field: map<string, leasebroker.v1.ColumnValue> columns = 1;
   */
  columns: { [key: string]: ColumnValue };

  /**
   * The delay before the item is ready, up to 366 days. Absent: it is ready immediately.
   *
   * @generated from field: google.protobuf.Duration delay = 2;
   */
  delay?: Duration | undefined;

  /**
   * The W3C trace context of the span that adds the item. Of a version after 00, the first four fields count. Leases of
   * the item continue its trace. Empty: for Enqueue that of the call's header traceparent, for a follow-up that of the
   * completed lease.
   *
   * @generated from field: string trace_parent = 3;
   */
  traceParent: string;
};

/**
 * Describes the message leasebroker.v1.NewItem.
 * Use `create(NewItemSchema)` to create a new message.
 */
export const NewItemSchema: GenMessage<NewItem> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 29);

/**
 * The results of an Enqueue call.
 *
 * @generated from message leasebroker.v1.EnqueueResponse
 */
export type EnqueueResponse = Message<"leasebroker.v1.EnqueueResponse"> & {
  /**
   * One result per item, in request order.
   *
   * @generated from field: repeated leasebroker.v1.EnqueueResult results = 2;
   */
  results: EnqueueResult[];
};

/**
 * Describes the message leasebroker.v1.EnqueueResponse.
 * Use `create(EnqueueResponseSchema)` to create a new message.
 */
export const EnqueueResponseSchema: GenMessage<EnqueueResponse> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 30);

/**
 * The result of adding one item.
 *
 * @generated from message leasebroker.v1.EnqueueResult
 */
export type EnqueueResult = Message<"leasebroker.v1.EnqueueResult"> & {
  /**
   * The identity of the item, in the form of Item.key.
   *
   * @generated from field: string key = 1;
   */
  key: string;

  /**
   * True: an earlier call with the same request_id has added the item, and this call changed nothing.
   *
   * @generated from field: bool already_added = 2;
   */
  alreadyAdded: boolean;
};

/**
 * Describes the message leasebroker.v1.EnqueueResult.
 * Use `create(EnqueueResultSchema)` to create a new message.
 */
export const EnqueueResultSchema: GenMessage<EnqueueResult> = /*@__PURE__*/
  messageDesc(file_leasebroker_v1_lease_broker, 31);

/**
 * Why a claim got no lease. A client treats an unknown value as HELD_BACK_NOTHING_READY.
 *
 * @generated from enum leasebroker.v1.HeldBack
 */
export enum HeldBack {
  /**
   * The claim got leases.
   *
   * @generated from enum value: HELD_BACK_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * No item is ready.
   *
   * @generated from enum value: HELD_BACK_NOTHING_READY = 1;
   */
  NOTHING_READY = 1,

  /**
   * The ready items that the claim looked at are larger than its max_bytes. too_large has them.
   *
   * @generated from enum value: HELD_BACK_TOO_LARGE = 2;
   */
  TOO_LARGE = 2,

  /**
   * This instance of the service stops, and gives no more leases. Send the next claim on another connection.
   *
   * @generated from enum value: HELD_BACK_STOPPING = 3;
   */
  STOPPING = 3,

  /**
   * The claim was ended by ReleaseClaims.
   *
   * @generated from enum value: HELD_BACK_RELEASED = 4;
   */
  RELEASED = 4,

  /**
   * The queue is paused.
   *
   * @generated from enum value: HELD_BACK_PAUSED = 5;
   */
  PAUSED = 5,

  /**
   * Items are ready, and their groups hold them back: by a lease, by an item before them, by a limit, or by a pause.
   *
   * @generated from enum value: HELD_BACK_GROUPS_BUSY = 6;
   */
  GROUPS_BUSY = 6,

  /**
   * The queue has as many leases as it may have.
   *
   * @generated from enum value: HELD_BACK_MAX_LEASES = 7;
   */
  MAX_LEASES = 7,

  /**
   * The rate of the queue is used up. retry_after has the time until the next item can be given out.
   *
   * @generated from enum value: HELD_BACK_RATE = 8;
   */
  RATE = 8,

  /**
   * The worker holds an item whose last lease expired, or it holds leases while such an item waits. Such an item goes alone to a
   * worker that holds nothing else. Settle the leases, and then claim again. Other items need not be ready.
   *
   * @generated from enum value: HELD_BACK_SUSPECTS = 9;
   */
  SUSPECTS = 9,
}

/**
 * Describes the enum leasebroker.v1.HeldBack.
 */
export const HeldBackSchema: GenEnum<HeldBack> = /*@__PURE__*/
  enumDesc(file_leasebroker_v1_lease_broker, 0);

/**
 * The result for one entry of a call. A client treats an unknown value as OUTCOME_LEASE_LOST.
 *
 * @generated from enum leasebroker.v1.Outcome
 */
export enum Outcome {
  /**
   * Never sent.
   *
   * @generated from enum value: OUTCOME_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * Applied by this call, or already applied by an earlier call of the same kind for this lease.
   *
   * @generated from enum value: OUTCOME_APPLIED = 1;
   */
  APPLIED = 1,

  /**
   * The lease has expired, was settled in another way, or never existed. The call changed nothing for it.
   *
   * @generated from enum value: OUTCOME_LEASE_LOST = 2;
   */
  LEASE_LOST = 2,

  /**
   * Only for Complete: the table has no row with the key of this lease. An earlier Complete of this lease removed the
   * row, or another lease's Complete did after this lease had expired, or another program deleted the row. The service
   * cannot tell these apart. This entry has added no follow-ups. Fail, Release and Heartbeat have the outcome
   * OUTCOME_LEASE_LOST in these cases.
   *
   * @generated from enum value: OUTCOME_GONE = 3;
   */
  GONE = 3,

  /**
   * The service or the database cannot apply this entry as it was sent. The call changed nothing for it, and a lease
   * that was held is still held, until it expires. The result's refusal has the reason. The same entry has the same outcome
   * when it is sent again. Correct it, or report the problem with Fail. Two reasons are different, because nothing is wrong
   * with the entry: REFUSAL_REASON_OUT_OF_ORDER and REFUSAL_REASON_LOCKED say when to send it again as it is.
   *
   * @generated from enum value: OUTCOME_REFUSED = 4;
   */
  REFUSED = 4,
}

/**
 * Describes the enum leasebroker.v1.Outcome.
 */
export const OutcomeSchema: GenEnum<Outcome> = /*@__PURE__*/
  enumDesc(file_leasebroker_v1_lease_broker, 1);

/**
 * The kinds of refusals. A client treats an unknown value as REFUSAL_REASON_UNSPECIFIED.
 *
 * @generated from enum leasebroker.v1.RefusalReason
 */
export enum RefusalReason {
  /**
   * Another problem. Refusal.message has it.
   *
   * @generated from enum value: REFUSAL_REASON_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * A field is malformed or out of its bounds: a duration, a checkpoint, a value without a kind, a key.
   *
   * @generated from enum value: REFUSAL_REASON_INVALID_FIELD = 1;
   */
  INVALID_FIELD = 1,

  /**
   * The queue of a follow-up is not configured, or the caller has no role for Enqueue on it.
   *
   * @generated from enum value: REFUSAL_REASON_QUEUE_NOT_FOUND = 2;
   */
  QUEUE_NOT_FOUND = 2,

  /**
   * The call cannot write this column: the table does not have it, the service itself or the database sets it, or the
   * queue's setting `writable` does not list it.
   *
   * @generated from enum value: REFUSAL_REASON_COLUMN_NOT_WRITABLE = 3;
   */
  COLUMN_NOT_WRITABLE = 3,

  /**
   * The column cannot hold the value: its type, its length, its range, or NULL in a column that is never NULL.
   *
   * @generated from enum value: REFUSAL_REASON_VALUE_UNFIT = 4;
   */
  VALUE_UNFIT = 4,

  /**
   * A row with this key or this unique value exists.
   *
   * @generated from enum value: REFUSAL_REASON_ALREADY_EXISTS = 5;
   */
  ALREADY_EXISTS = 5,

  /**
   * A CHECK constraint refuses the row.
   *
   * @generated from enum value: REFUSAL_REASON_CHECK = 6;
   */
  CHECK = 6,

  /**
   * A foreign key refuses the row, or rows of another table refer to the row that the completion removes.
   *
   * @generated from enum value: REFUSAL_REASON_FOREIGN_KEY = 7;
   */
  FOREIGN_KEY = 7,

  /**
   * A trigger refuses the change.
   *
   * @generated from enum value: REFUSAL_REASON_TRIGGER = 8;
   */
  TRIGGER = 8,

  /**
   * An earlier item of the run is still leased. Complete the items of a run in their order (Lease.run), and send this entry
   * again after them.
   *
   * @generated from enum value: REFUSAL_REASON_OUT_OF_ORDER = 9;
   */
  OUT_OF_ORDER = 9,

  /**
   * Another transaction has locked the row, or another row that the change needs. Nothing has changed for the entry, and a lease
   * that was held is still held, until it expires. Send the same entry again after a moment: 100 ms at first, then twice as long
   * after each further refusal, and at most 5 seconds. Keep the lease by heartbeats until its settlement is applied. They can be
   * refused for the same reason. If the lease expires first, the entry gets OUTCOME_LEASE_LOST. The other entries of the call need
   * not be sent again. A call in which no entry was applied can instead fail as a whole with STORE_UNAVAILABLE.
   *
   * @generated from enum value: REFUSAL_REASON_LOCKED = 10;
   */
  LOCKED = 10,
}

/**
 * Describes the enum leasebroker.v1.RefusalReason.
 */
export const RefusalReasonSchema: GenEnum<RefusalReason> = /*@__PURE__*/
  enumDesc(file_leasebroker_v1_lease_broker, 2);

/**
 * The state of an item.
 *
 * @generated from enum leasebroker.v1.ItemState
 */
export enum ItemState {
  /**
   * Unknown, because the lease was lost or the row is gone.
   *
   * @generated from enum value: ITEM_STATE_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * A worker can claim the item.
   *
   * @generated from enum value: ITEM_STATE_READY = 1;
   */
  READY = 1,

  /**
   * A worker holds a lease on the item.
   *
   * @generated from enum value: ITEM_STATE_LEASED = 2;
   */
  LEASED = 2,

  /**
   * The item becomes ready at a later time.
   *
   * @generated from enum value: ITEM_STATE_DELAYED = 3;
   */
  DELAYED = 3,

  /**
   * The item is completed. Its row was kept, deleted or archived, as the queue is configured.
   *
   * @generated from enum value: ITEM_STATE_COMPLETED = 4;
   */
  COMPLETED = 4,

  /**
   * The item is a dead letter. It is not tried again unless an operator redrives it.
   *
   * @generated from enum value: ITEM_STATE_DEAD = 5;
   */
  DEAD = 5,
}

/**
 * Describes the enum leasebroker.v1.ItemState.
 */
export const ItemStateSchema: GenEnum<ItemState> = /*@__PURE__*/
  enumDesc(file_leasebroker_v1_lease_broker, 3);

/**
 * Leases rows of database tables to workers.
 *
 * @generated from service leasebroker.v1.LeaseService
 */
export const LeaseService: GenService<{
  /**
   * Leases up to max_items ready items, in the queue's order. With max_run, consecutive items of a group come together, as a
   * run.
   *
   * Returns as soon as it has at least one item. If no item is ready, it waits up to wait_timeout and then returns OK
   * with an empty list. held_back then says why there is none.
   *
   * If the caller cancels the call or loses its connection, the service releases the leases, unless it has already sent
   * the response. It cannot know whether a response that it has sent was received. Items in a lost response stay leased
   * until their leases expire. To avoid that, set request_id. The service then keeps the leases for you. If you still want
   * the items, send the call again with the same request_id. If you do not, call ReleaseClaims with it after the
   * cancelled call has ended.
   *
   * Errors: INVALID_FIELD (worker_id, max_items, lease_duration, wait_timeout, request_id, max_bytes, groups, groups[i],
   * max_run), LIMIT_EXCEEDED (worker_id, max_items, lease_duration, wait_timeout, groups), QUEUE_NOT_FOUND, OVERLOADED,
   * STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL. While this instance stops: UNAVAILABLE with the
   * reason DRAINING and RetryInfo. Send the call again, and another instance accepts it.
   *
   * A claim that is waiting when the instance begins to stop ends OK with an empty list, before its wait_timeout. An
   * error would fail every client without a retry policy. Send the next call on another connection: the instance
   * refuses new claims on this one and closes it.
   *
   * @generated from rpc leasebroker.v1.LeaseService.ClaimBatch
   */
  claimBatch: {
    methodKind: "unary";
    input: typeof ClaimBatchRequestSchema;
    output: typeof ClaimBatchResponseSchema;
  },
  /**
   * Extends leases. Each lease then lasts lease_duration from now, or without one as long as it was claimed for.
   *
   * A worker that needs more time sends it before the lease expires, for example after a third of time_left. It must
   * stop work on each item whose result is OUTCOME_LEASE_LOST, because another worker may have that item.
   *
   * Errors: INVALID_FIELD (lease_duration), LIMIT_EXCEEDED (renewals, lease_duration), QUEUE_NOT_FOUND, OVERLOADED,
   * STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
   *
   * @generated from rpc leasebroker.v1.LeaseService.Heartbeat
   */
  heartbeat: {
    methodKind: "unary";
    input: typeof HeartbeatRequestSchema;
    output: typeof HeartbeatResponseSchema;
  },
  /**
   * Completes items: their work is done. If `next` is set, also claims items of the same queue.
   *
   * The queue's configuration decides whether the row is kept, deleted, archived, or made ready again after a delay.
   * A follow-up item takes the trace context of its lease (Lease.trace_parent), unless the item has its own. The
   * header traceparent of the call does not matter.
   *
   * A completion that cannot be applied has the outcome OUTCOME_REFUSED, for example because one of its follow-ups is
   * malformed, or is for a queue to which the caller may not add items. The other completions of the call are applied. A
   * field that belongs to the call as a whole is an error of the call. So is a name of a queue or column, or a number of
   * columns, above the limits of the service.
   *
   * The items of a run (Lease.run) are completed in their order. One call can complete several of them: the completions
   * count in the order of the call. A completion is refused with REFUSAL_REASON_OUT_OF_ORDER while an earlier item of its
   * run is leased.
   *
   * Errors: INVALID_FIELD (fields of next), LIMIT_EXCEEDED (completions; completions.columns; completions.follow_ups for all
   * follow-ups of the call together; completions.follow_ups.queue; completions.follow_ups.item.columns; fields of next),
   * QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
   *
   * @generated from rpc leasebroker.v1.LeaseService.Complete
   */
  complete: {
    methodKind: "unary";
    input: typeof CompleteRequestSchema;
    output: typeof CompleteResponseSchema;
  },
  /**
   * Reports that the work on items failed.
   *
   * An item with attempts left becomes ready again after a delay. An item without attempts left becomes dead. If `next`
   * is set, also claims items of the same queue.
   *
   * The failure of an item of a run (Lease.run) also releases the leases of the later items of the run. A failure is
   * refused with REFUSAL_REASON_OUT_OF_ORDER while an earlier item of its run is leased.
   *
   * Errors: INVALID_FIELD (fields of next), LIMIT_EXCEEDED (failures, failures.columns, fields of next),
   * QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
   *
   * @generated from rpc leasebroker.v1.LeaseService.Fail
   */
  fail: {
    methodKind: "unary";
    input: typeof FailRequestSchema;
    output: typeof FailResponseSchema;
  },
  /**
   * Returns items that were not processed. The attempt does not count.
   *
   * The release of an item of a run (Lease.run) also releases the leases of the later items of the run.
   *
   * Errors: LIMIT_EXCEEDED (releases), QUEUE_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED,
   * DEADLINE_EXCEEDED, INTERNAL.
   *
   * @generated from rpc leasebroker.v1.LeaseService.Release
   */
  release: {
    methodKind: "unary";
    input: typeof ReleaseRequestSchema;
    output: typeof ReleaseResponseSchema;
  },
  /**
   * Releases every lease of claims by their request ids, after claims whose responses were not received.
   *
   * Every lease that such a claim got and that is still held is released without a delay. A claim that still waits at this
   * instance ends with an empty list. Leases of a claim that reaches the service only after this call are not released. Then,
   * or if in doubt, send this call again.
   *
   * Errors: INVALID_FIELD (worker_id, request_ids[i]), LIMIT_EXCEEDED (worker_id, request_ids), QUEUE_NOT_FOUND,
   * OVERLOADED, STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL.
   *
   * @generated from rpc leasebroker.v1.LeaseService.ReleaseClaims
   */
  releaseClaims: {
    methodKind: "unary";
    input: typeof ReleaseClaimsRequestSchema;
    output: typeof ReleaseClaimsResponseSchema;
  },
  /**
   * Wakes the claims that wait at this instance, so that they look for items immediately. A program that has inserted rows
   * by its own SQL calls it. Without it, waiting claims find the rows at their next poll. Calls that come at the same
   * moment share one look.
   *
   * Errors: QUEUE_NOT_FOUND, OVERLOADED, DEADLINE_EXCEEDED, INTERNAL.
   *
   * @generated from rpc leasebroker.v1.LeaseService.Wake
   */
  wake: {
    methodKind: "unary";
    input: typeof WakeRequestSchema;
    output: typeof WakeResponseSchema;
  },
  /**
   * Adds items to a queue: all of them, or none.
   *
   * An item takes its own W3C trace context (NewItem.trace_parent). Without one it takes that of the call's header
   * traceparent. Its leases continue that trace.
   *
   * A call with a request_id can be sent again. Without one, a retry after an error with `applied` = `unknown`, after
   * CANCELLED or after a lost connection can add the items twice.
   *
   * Errors: INVALID_FIELD (request_id: not a UUID, or an earlier call with this id had other items;
   * items[i].columns["name"]: the column is unknown, the service itself sets it, it cannot hold the value, it makes the item
   * larger than any response to a claim, or a constraint of the table refuses the value; items[i].delay;
   * items[i].trace_parent), LIMIT_EXCEEDED (items, items[i].delay), QUEUE_NOT_FOUND, QUEUE_PAUSED, OVERLOADED,
   * STORE_UNAVAILABLE, STORE_MISCONFIGURED, DEADLINE_EXCEEDED, INTERNAL. If a row with the key or another unique value of an
   * item exists: ALREADY_EXISTS with the reason ALREADY_EXISTS (items[i].columns["name"]). The field is items[i] if the
   * database does not name a column.
   *
   * @generated from rpc leasebroker.v1.LeaseService.Enqueue
   */
  enqueue: {
    methodKind: "unary";
    input: typeof EnqueueRequestSchema;
    output: typeof EnqueueResponseSchema;
  },
}> = /*@__PURE__*/
  serviceDesc(file_leasebroker_v1_lease_broker, 0);

