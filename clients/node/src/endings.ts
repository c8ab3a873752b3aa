/** Endings: how items end, from the result or the error of their handler. */

import { create, toBinary } from "@bufbuild/protobuf";

import { durationMessage, milliseconds } from "./clock.js";
import { BatchError, DeadLetter, decisionIn, errorText, Release, Retry } from "./errors.js";
import { followUpMessage, type Item, type Result } from "./item.js";
import type { HeldLease, Run } from "./leases.js";
import {
  type Completion,
  CompletionSchema,
  type Failure,
  FailureSchema,
  type Release as ReleaseMessage,
  ReleaseSchema,
} from "./v1.js";
import { isPlainObject, rowToMessages } from "./values.js";

const MAX_ERROR_LENGTH = 1_024;
/** The bytes that a completion without additions takes at most. */
const PLAIN_SIZE = 256;

/**
 * How an item ends.
 *
 * `size` is the number of bytes that the message takes in a request, approximately. It is known as soon as the ending is made, so a
 * message that cannot be encoded fails its item, and not the call that it would share with other endings.
 */
export type Ending = { readonly lease: HeldLease; readonly size: number } & (
  | { readonly kind: "complete"; readonly message: Completion }
  | { readonly kind: "fail"; readonly message: Failure }
  | { readonly kind: "release"; readonly message: ReleaseMessage }
);

/** Returns the ending of an item whose work is done. Throws if a value cannot be sent. */
export function completed(lease: HeldLease, { columns, followUps }: Result = {}): Ending {
  const message = create(CompletionSchema, { leaseId: lease.id });
  if (columns !== undefined) message.columns = rowToMessages(columns);
  if (followUps !== undefined) message.followUps = followUps.map(followUpMessage);
  const isPlain = columns === undefined && followUps === undefined;
  return { kind: "complete", lease, message, size: isPlain ? PLAIN_SIZE : toBinary(CompletionSchema, message).length };
}

/** Returns the ending of an item that failed. `after` is in milliseconds. Throws if it cannot be sent. */
export function failed(lease: HeldLease, text: string, after: number | null = null, deadLetter = false): Ending {
  const message = create(FailureSchema, { leaseId: lease.id, errorMessage: cut(text), deadLetter });
  if (after !== null) message.retryDelay = durationMessage(milliseconds("after", after));
  if (lease.checkpoint !== null) message.checkpoint = lease.checkpoint;
  return { kind: "fail", lease, message, size: toBinary(FailureSchema, message).length };
}

/** Returns the ending of an item that is released. `after` is in milliseconds. Throws if it cannot be sent. */
export function released(lease: HeldLease, after: number | null = null): Ending {
  const message = create(ReleaseSchema, { leaseId: lease.id });
  if (after !== null) message.delay = durationMessage(milliseconds("after", after));
  if (lease.checkpoint !== null) message.checkpoint = lease.checkpoint;
  return { kind: "release", lease, message, size: toBinary(ReleaseSchema, message).length };
}

/** Returns the endings for the return value of a handler. Throws a `TypeError` for the result of something that is no item. */
export function ofReturn(leases: readonly HeldLease[], isBatch: boolean, value: unknown): Ending[] {
  if (!isBatch) return leases.map((lease) => ofResult(lease, value));
  if (value === undefined || value === null) return leases.map((lease) => completed(lease));
  if (!(value instanceof Map)) {
    const text = "TypeError: the handler of a batch must return a Map of results by item, or nothing";
    return leases.map((lease) => failed(lease, text));
  }
  const results = value as ReadonlyMap<Item, unknown>;
  checkKeys(leases, results, "the results");
  return leases.map((lease) => ofResult(lease, results.get(lease.item)));
}

/** Returns the endings for the error that a handler has thrown. Throws a `TypeError` for the error of something that is no item. */
export function ofThrow(run: Run, leases: readonly HeldLease[], error: unknown, timeLimit: number | null): Ending[] {
  if (!(error instanceof BatchError)) return leases.map((lease) => ofError(run, lease, error, timeLimit));
  checkKeys(leases, error.errors, "the BatchError");
  return leases.map((lease) =>
    error.errors.has(lease.item)
      ? ofError(run, lease, error.errors.get(lease.item), timeLimit)
      : completed(lease),
  );
}

/** Returns the text of an item whose handler took too long. `timeLimit` is in milliseconds. */
export function limitText(timeLimit: number | null): string {
  return timeLimit === null ? "time limit of half of the lease" : `time limit of ${timeLimit / 1_000} s`;
}

/** Otherwise an item that the handler names by its key would be completed, although it has failed. */
function checkKeys(leases: readonly HeldLease[], entries: ReadonlyMap<unknown, unknown>, what: string): void {
  const items = new Set<unknown>(leases.map((lease) => lease.item));
  for (const key of entries.keys()) {
    if (items.has(key)) continue;
    throw new TypeError(`a key of ${what} is no item of the batch (${errorText(key)}); use the items as keys, not their names`);
  }
}

function ofResult(lease: HeldLease, value: unknown): Ending {
  if (value === undefined || value === null) return completed(lease);
  if (!isResult(value)) {
    // A promise in the results of a batch. Its rejection would end the process.
    if (value instanceof Promise) value.catch(() => undefined);
    return failed(lease, "TypeError: the handler must return { columns, followUps } or nothing");
  }
  try {
    return completed(lease, value);
  } catch (error) {
    return failed(lease, errorText(error));
  }
}

function ofError(run: Run, lease: HeldLease, error: unknown, timeLimit: number | null): Ending {
  try {
    const decision = decisionIn(error);
    if (decision instanceof Retry) return failed(lease, errorText(error), decision.after);
    if (decision instanceof Release) return released(lease, decision.after);
    if (decision instanceof DeadLetter) return failed(lease, errorText(error), null, true);
  } catch (problem) {
    return failed(lease, errorText(problem));
  }
  if (run.context.cause === "shutdown") return released(lease);
  if (run.context.cause === "time_limit" && isAbort(run, error)) return failed(lease, limitText(timeLimit));
  return failed(lease, errorText(error));
}

/** Returns true if a handler has thrown an error only because it was cancelled. */
function isAbort(run: Run, error: unknown): boolean {
  return error === run.cancelled || (error instanceof Error && error.name === "AbortError");
}

function isResult(value: unknown): value is Result {
  return isPlainObject(value) && Object.keys(value).every((name) => name === "columns" || name === "followUps");
}

/** Cuts a text. A character of two halves at the end is left out, because the wire format cannot carry one half. */
function cut(text: string): string {
  return text.slice(0, MAX_ERROR_LENGTH).toWellFormed();
}
