/** Reads the details of a failed call: the broker's reason, the time to wait, and the refused field. */

import { fromBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { type ServiceError, status } from "@grpc/grpc-js";

import { durationMilliseconds } from "./clock.js";
import { LeaseBrokerError } from "./errors.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema, StatusSchema } from "./gen/google/rpc/details_pb.js";

const DOMAIN = "leasebroker";

/** The status of a failed call. */
export interface Failure {
  readonly code: status;
  readonly message: string;
  /** The broker's reason. Null: the error does not come from the broker. */
  readonly reason: string | null;
  /** The milliseconds that the broker asks to wait. Negative: a retry cannot help. Null: the broker says nothing. */
  readonly pushback: number | null;
  /** The path of the refused field, and why it was refused. */
  readonly violation: { readonly field: string; readonly description: string } | null;
}

/** Returns the status of a failed call. */
export function readFailure(error: ServiceError): Failure {
  const details = readDetails(error.metadata.get("grpc-status-details-bin")[0]);
  const pushback = error.metadata.get("grpc-retry-pushback-ms")[0];
  return {
    code: error.code,
    message: error.details,
    reason: details.reason,
    pushback: pushback === undefined ? details.retryAfter : readPushback(String(pushback)),
    violation: details.violation,
  };
}

/** Returns the error for a failure that is final. */
export function asError(rpc: string, failure: Failure): LeaseBrokerError {
  const { code, reason, message, violation } = failure;
  return new LeaseBrokerError(rpc, status[code], reason, message, violation?.field ?? null);
}

/** A value that is not a number has the meaning of -1 (gRFC A6). */
function readPushback(text: string): number {
  return /^[0-9]+$/.test(text) ? Number(text) : -1;
}

function readDetails(value: string | Buffer | undefined) {
  let reason: string | null = null;
  let retryAfter: number | null = null;
  let violation: Failure["violation"] = null;
  if (!(value instanceof Uint8Array)) return { reason, retryAfter, violation };
  try {
    for (const detail of fromBinary(StatusSchema, value).details) {
      const info = anyUnpack(detail, ErrorInfoSchema);
      const retry = anyUnpack(detail, RetryInfoSchema);
      const badRequest = anyUnpack(detail, BadRequestSchema);
      if (info?.domain === DOMAIN) reason = info.reason;
      if (retry) retryAfter = durationMilliseconds(retry.retryDelay);
      if (badRequest) violation = badRequest.fieldViolations[0] ?? null;
    }
  } catch {
    // Details that cannot be decoded are left out. The status code still counts.
  }
  return { reason, retryAfter, violation };
}
