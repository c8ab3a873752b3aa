/** Errors of calls, the errors by which a handler says how its item ends, and the reasons of a cancellation. */

import { type Duration, milliseconds } from "./clock.js";
import type { Item } from "./item.js";

/** The reason why a handler is cancelled. */
export type Cause = "lease_lost" | "time_limit" | "shutdown";

/** Whether a call that failed can have changed something. */
export type Applied = "no" | "partly" | "unknown";

/** A call that failed, and that was not sent again or not any more. */
export class LeaseBrokerError extends Error {
  override name = "LeaseBrokerError";

  constructor(
    /** The name of the rpc, such as "ClaimBatch". */
    readonly rpc: string,
    /** The name of the gRPC status, such as "NOT_FOUND". */
    readonly code: string,
    /** The broker's reason, such as "QUEUE_NOT_FOUND". Null: the error does not come from the broker. */
    readonly reason: string | null,
    /** The text of the status. */
    readonly details: string,
    /** The path of the field that the broker refused, such as `items[0].columns["Total"]`. */
    readonly field: string | null = null,
    /**
     * "no": the call has changed nothing and will change nothing. "partly": an `enqueue` has added the rows of `keys`, and will not
     * add the others. "unknown": its changes may have been or may still be made.
     */
    readonly applied: Applied = "unknown",
    /** True if the same call can succeed later: only the time for retries is over. */
    readonly temporary = false,
    /** The keys of the first rows of an `enqueue`, which were added by earlier calls. */
    readonly keys: readonly string[] = [],
  ) {
    super(`${rpc}: ${code}${reason === null ? "" : ` (${reason})`}: ${details}`);
  }
}

/** Returns the error of an `enqueue` whose earlier calls have added rows with these keys. */
export function afterRows(error: LeaseBrokerError, keys: readonly string[]): LeaseBrokerError {
  const { length } = keys;
  // The index at the beginning of a field's path is that of the caller's row.
  const shift = (text: string) => text.replace(/^items\[([0-9]+)\]/, (_, index: string) => `items[${Number(index) + length}]`);
  const details = `${shift(error.details)}; the first ${length} rows were added`;
  const field = error.field === null ? null : shift(error.field);
  const applied = error.applied === "no" ? "partly" : "unknown";
  // Not temporary: the same rows again would add the first ones twice.
  return new LeaseBrokerError(error.rpc, error.code, error.reason, details, field, applied, false, keys);
}

/** Returns the option `after` in milliseconds. Null: it is absent. Without the check, a delay that is no option would be ignored. */
function readAfter(options: { readonly after?: Duration } | null): number | null {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`expected options such as { after: "30s" }, and not ${String(options)}`);
  }
  return options.after === undefined ? null : milliseconds("after", options.after);
}

/** Thrown by a handler: the item failed. It is tried again after `after`, or after the queue's backoff. */
export class Retry extends Error {
  override name = "Retry";
  /** The milliseconds until the next attempt. Null: the queue's backoff. */
  readonly after: number | null;

  constructor(message = "", options: { after?: Duration; cause?: unknown } = {}) {
    const after = readAfter(options);
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.after = after;
  }
}

/** Thrown by a handler: the item failed and is not tried again. It becomes dead. */
export class DeadLetter extends Error {
  override name = "DeadLetter";
}

/** Thrown by a handler: the item is released, and its attempt does not count. It is ready after `after`, or immediately. */
export class Release extends Error {
  override name = "Release";
  /** The milliseconds until the item is ready. Null: it is ready immediately. */
  readonly after: number | null;

  constructor(options: { after?: Duration } = {}) {
    super("released");
    this.after = readAfter(options);
  }
}

/**
 * Thrown by the handler of a batch: the listed items failed with these errors. The others are completed. If a key is no item of the
 * batch, the whole batch fails.
 */
export class BatchError extends Error {
  override name = "BatchError";

  constructor(readonly errors: ReadonlyMap<Item, unknown>) {
    super(`${errors.size} items failed`);
    if (!(errors instanceof Map)) throw new TypeError("a BatchError has a Map by item, such as new Map([[item, error]])");
  }
}

const MAX_CAUSES = 100;

/** Returns the first error that says how the item ends, among an error and its causes. Null: there is none. */
export function decisionIn(error: unknown): Retry | DeadLetter | Release | null {
  let cause = error;
  // The causes can form a circle.
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth += 1) {
    if (cause instanceof Retry || cause instanceof DeadLetter || cause instanceof Release) return cause;
    cause = cause.cause;
  }
  return null;
}

/** The reason of a cancelled handler's signal. After "lease_lost" another worker may have the item, and nothing is sent for it any more. */
export class Cancelled extends Error {
  override name = "Cancelled";

  constructor(
    override readonly cause: Cause,
    message: string,
  ) {
    super(message);
  }
}

/** Returns the text of an error that is stored on the row: `TypeName: message`. Does not throw, however odd the error is. */
export function errorText(error: unknown): string {
  try {
    if (!(error instanceof Error)) return `${typeof error}: ${String(error)}`;
    // Classes that extend Error and do not set `name` have the name "Error". A program can set both fields to any value.
    const { name, message }: { name: unknown; message: unknown } = error;
    const type = name === "Error" ? error.constructor.name || name : String(name);
    return message === "" ? type : `${type}: ${String(message)}`;
  } catch {
    return `${typeof error}: a value without a text`;
  }
}
