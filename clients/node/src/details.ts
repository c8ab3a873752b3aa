/** Reads the details of a failed call: the broker's reason, the time to wait, and the refused field. */

import { fromBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { type ServiceError, status } from "@grpc/grpc-js";

import { durationMilliseconds } from "./clock.js";
import { type Applied, LeaseBrokerError } from "./errors.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema, StatusSchema } from "./gen/google/rpc/details_pb.js";
import type { CallError } from "./v1.js";

const DOMAIN = "leasebroker";

/** The status of a failed call. */
export interface Failure {
  readonly code: status;
  readonly message: string;
  /** The broker's reason. Null: the error does not come from the broker. */
  readonly reason: string | null;
  /** The milliseconds that the broker asks to wait. Negative: a retry cannot help. Null: the broker says nothing. */
  readonly pushback: number | null;
  /** The path of the refused field. */
  readonly field: string | null;
  /** Whether the call can have changed something. */
  readonly applied: Applied;
}

/** Returns the status of a failed call. */
export function readFailure(error: ServiceError): Failure {
  const { retryAfter, ...details } = readDetails(error.metadata.get("grpc-status-details-bin")[0]);
  const pushback = error.metadata.get("grpc-retry-pushback-ms")[0];
  const failure: Failure = {
    code: error.code,
    message: error.details,
    pushback: pushback === undefined ? retryAfter : readPushback(String(pushback)),
    ...details,
  };
  if (failure.code === status.UNAVAILABLE && failure.message.startsWith(NOT_CONNECTED)) return { ...failure, applied: "no" };
  if (failure.code !== status.UNKNOWN || failure.reason !== null || !STATUS_413.test(failure.message)) return failure;
  // The answer of a proxy has the code of gRPC for a request that is too large. No broker has got the request.
  return { ...failure, code: status.RESOURCE_EXHAUSTED, applied: "no" };
}

/** The text of gRPC for a response with the HTTP status 413, Content Too Large. */
const STATUS_413 = /\bHTTP status code 413\b/;

/** The text of gRPC for a call without a connection, which was not sent. A connection that breaks during a call has another. */
const NOT_CONNECTED = "No connection established";

/** Returns the status of a claim in a `next` that failed. */
export function failureOfNext({ code: number, message, reason, metadata, retryDelay }: CallError): Failure {
  const code = status[(status[number] ?? "UNKNOWN") as keyof typeof status];
  const pushback = retryDelay === undefined ? null : durationMilliseconds(retryDelay);
  return { code, message, reason: reason || null, pushback, field: null, applied: readApplied(metadata) };
}

/** Returns the error for a failure that is final. */
export function asError(rpc: string, failure: Failure): LeaseBrokerError {
  const { code, reason, message, field, applied } = failure;
  return new LeaseBrokerError(rpc, status[code], reason, message, field, applied, mayRetry(failure));
}

/** Returns true if the same request can succeed later. */
export function mayRetry({ code, reason, pushback }: Failure): boolean {
  // The broker sends a pushback of -1 with its own DEADLINE_EXCEEDED. The next attempt has a deadline of its own.
  if (code === status.DEADLINE_EXCEEDED) return true;
  if (pushback !== null) return asksToWait({ pushback });
  switch (code) {
    case status.UNAVAILABLE:
    case status.CANCELLED:
      return true;
    case status.UNKNOWN:
    case status.INTERNAL:
      // Without a reason of the broker the error is the connection's.
      return reason === null;
    case status.RESOURCE_EXHAUSTED:
      // Without a reason of the broker it is this program's own limit, and the next response is as large.
      return reason === "OVERLOADED";
    default:
      return false;
  }
}

/** Returns true if the broker asks to send the request again after some time. */
export function asksToWait({ pushback }: Pick<Failure, "pushback">): boolean {
  return pushback !== null && pushback >= 0;
}

/** A value that is not a number has the meaning of -1 (gRFC A6). */
function readPushback(text: string): number {
  return /^[0-9]+$/.test(text) ? Number(text) : -1;
}

function readDetails(value: string | Buffer | undefined) {
  let reason: string | null = null;
  let retryAfter: number | null = null;
  let field: string | null = null;
  let applied: Applied = "unknown";
  if (!(value instanceof Uint8Array)) return { reason, retryAfter, field, applied };
  try {
    for (const detail of fromBinary(StatusSchema, value).details) {
      const info = anyUnpack(detail, ErrorInfoSchema);
      const retry = anyUnpack(detail, RetryInfoSchema);
      const badRequest = anyUnpack(detail, BadRequestSchema);
      if (info?.domain === DOMAIN) {
        reason = info.reason;
        applied = readApplied(info.metadata);
      }
      if (retry) retryAfter = durationMilliseconds(retry.retryDelay);
      if (badRequest) field = badRequest.fieldViolations[0]?.field ?? null;
    }
  } catch {
    // Details that cannot be decoded are left out. The status code still counts.
  }
  return { reason, retryAfter, field, applied };
}

function readApplied(metadata: Readonly<Record<string, string>>): Applied {
  return metadata.applied === "no" ? "no" : "unknown";
}
