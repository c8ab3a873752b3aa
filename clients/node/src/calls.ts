/**
 * Calls, and the only place where requests are sent again.
 *
 * gRPC's own retries are off. They end after five attempts, which take about three seconds, while a settlement is worth
 * sending until its lease ends. They also cannot be observed or stopped.
 */

import { setTimeout as sleep } from "node:timers/promises";

import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { type ServiceError, status } from "@grpc/grpc-js";

import { MAX_DELAY, now } from "./clock.js";
import { type Token, TokenError } from "./credentials.js";
import { asError, asksToWait, type Failure, mayRetry, readFailure } from "./details.js";
import { LeaseBrokerError } from "./errors.js";
import { CallHealth } from "./health.js";
import type { Broker, Transport } from "./transport.js";
import { HeldBack } from "./v1.js";

/** Milliseconds. */
const MIN_WAIT = 100;
const MAX_WAIT = 5_000;
/** The milliseconds after which an attempt is given up, unless the caller sets another time. */
export const ATTEMPT_TIMEOUT = 10_000;

/** A request that is about to be sent again. */
export interface RetryEvent {
  readonly rpc: string;
  readonly code: string;
  readonly reason: string | null;
  readonly error: string;
  /** How often the request was sent. */
  readonly attempt: number;
  /** The milliseconds until it is sent again. */
  readonly wait: number;
}

/** The response to a call. */
export interface Answer<Message> {
  readonly message: Message;
  /** The time of the monotonic clock before the answered attempt was sent. */
  readonly sentAt: number;
  /** The time of the monotonic clock before the first attempt was sent. */
  readonly firstSentAt: number;
  /** How often the request was sent. */
  readonly attempts: number;
}

export interface CallOptions {
  /** Returns the time of the monotonic clock until which the request is sent again. Absent: there is no limit. */
  readonly until?: () => number;
  /** The milliseconds after which one attempt is given up. */
  readonly attemptTimeout?: number;
  /** Ends the call. */
  readonly signal?: AbortSignal;
  /** Is called before the request is sent again. It can change the request. */
  readonly beforeRetry?: () => void;
  /** Takes each failure after which the request can be sent again. Returns true if that is of no use. */
  readonly givesUp?: (failure: Failure) => boolean;
}

/** The call was ended by its signal. */
export class Aborted extends Error {
  override name = "Aborted";

  constructor(
    /** As in `LeaseBrokerError`. */
    readonly applied: Failure["applied"] = "unknown",
  ) {
    super();
  }
}

/** Sends requests, and sends them again while that can help. */
export class Caller {
  constructor(
    private readonly transport: Transport,
    private readonly token: Token | null,
    private readonly onRetry: (event: RetryEvent) => void = () => undefined,
    private readonly health = new CallHealth(),
  ) {}

  /**
   * Returns the response to a request.
   *
   * Throws a `LeaseBrokerError` if sending the request again cannot help or if the time is over, and `Aborted` if the
   * signal has ended the call.
   */
  async call<I extends DescMessage, O extends DescMessage>(
    rpc: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    { until = () => Infinity, attemptTimeout = ATTEMPT_TIMEOUT, signal, beforeRetry, givesUp }: CallOptions = {},
  ): Promise<Answer<MessageShape<O>>> {
    let backoff = MIN_WAIT;
    let freshToken = false;
    let lastFailure: Failure | null = null;
    // Of all attempts together.
    let applied: Failure["applied"] = "no";
    const firstSentAt = now();
    for (let attempt = 1; ; attempt++) {
      if (signal?.aborted) throw new Aborted(applied);
      if (this.transport.isClosed) throw new LeaseBrokerError(rpc.name, "FAILED_PRECONDITION", null, "the client is closed", null, applied);
      const sentAt = now();
      const timeout = Math.max(Math.min(attemptTimeout, until() - sentAt), 1);
      const result = await this.#attempt(rpc, request, timeout, freshToken, signal);
      if (!("code" in result)) {
        this.health.note(null);
        return { message: result.message, sentAt, firstSentAt, attempts: attempt };
      }
      const failure = result;
      if (failure.applied === "unknown") applied = "unknown";
      if (signal?.aborted) throw new Aborted(applied);
      this.health.note(failure);
      let wait = 0;
      if (failure.code === status.UNAUTHENTICATED && !asksToWait(failure) && this.token !== null && !freshToken) {
        freshToken = true;
      } else if (mayRetry(failure) && !givesUp?.(failure)) {
        wait = waitOf(failure, backoff);
        backoff = Math.min(backoff * 2, longestWait(attemptTimeout));
      } else {
        throw asError(rpc.name, { ...failure, applied });
      }
      if (now() + wait >= until()) {
        // The last attempt can be cut short by the end of the time. Then the failure before it has the cause.
        const wasCut = failure.code === status.DEADLINE_EXCEEDED && timeout < attemptTimeout;
        throw asError(rpc.name, { ...(wasCut && lastFailure !== null ? lastFailure : failure), applied });
      }
      lastFailure = failure;
      const { reason, message } = failure;
      this.onRetry({ rpc: rpc.name, code: status[failure.code], reason, error: message, attempt, wait });
      beforeRetry?.();
      // The abort of the signal is seen by the next attempt.
      await pause(wait, signal).catch(() => undefined);
    }
  }

  /** Sends a request once. Returns its response or its failure. */
  async #attempt<I extends DescMessage, O extends DescMessage>(
    rpc: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    timeout: number,
    freshToken: boolean,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly message: MessageShape<O> } | Failure> {
    const end = now() + timeout;
    let token: string | null;
    let broker: Broker;
    try {
      token = this.token === null ? null : await within(timeout, this.token.text(freshToken), "the token has not arrived", signal);
      broker = await within(end - now(), this.transport.route(), "the name of the broker was not found", signal);
    } catch (error) {
      // A file that is being replaced, an identity service or a name server that is down or that does not answer.
      const failure = unavailable(error);
      return error instanceof TokenError ? { ...failure, code: status.UNAUTHENTICATED } : failure;
    }
    const sent = broker.send(rpc, request, Math.max(end - now(), 1), token);
    const cancel = () => {
      sent.cancel();
    };
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted) cancel();
    try {
      const message = await sent.response;
      this.transport.note(broker, { failed: (message as { heldBack?: HeldBack }).heldBack === HeldBack.STOPPING });
      return { message };
    } catch (error) {
      if (!isServiceError(error)) throw error;
      const failure = readFailure(error);
      noteFailure(this.transport, broker, failure);
      return failure;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  /**
   * Returns the milliseconds to wait before the next claim, after the claim in a `next` has failed. Throws a `LeaseBrokerError` if
   * a further claim cannot succeed.
   */
  pauseAfterNext(failure: Failure): number {
    if (!mayRetry(failure)) throw asError("ClaimBatch", failure);
    const wait = waitOf(failure, MIN_WAIT);
    const { reason, message } = failure;
    this.onRetry({ rpc: "ClaimBatch", code: status[failure.code], reason, error: message, attempt: 1, wait });
    return wait;
  }

  /**
   * Waits before entries are sent again that a lock has refused `tries` times. Throws a `LeaseBrokerError` if the wait does not end
   * before `until`.
   */
  async waitAfterLock(rpc: string, tries: number, until: number, attemptTimeout: number): Promise<void> {
    const wait = jitter(Math.min(MIN_WAIT * 2 ** (tries - 1), longestWait(attemptTimeout)));
    const [code, reason, error] = ["UNAVAILABLE", "LOCKED", "another transaction has locked the row"];
    if (now() + wait >= until) throw new LeaseBrokerError(rpc, code, reason, error, null, "no", true);
    this.onRetry({ rpc, code, reason, error, attempt: tries, wait });
    await pause(wait);
  }
}

/** Lets the next call use another broker, if this one does not work. */
export function noteFailure(transport: Pick<Transport, "note">, broker: Broker, failure: Failure): void {
  const { code, reason } = failure;
  const failed = code === status.UNAVAILABLE || (reason === null && mayRetry(failure));
  transport.note(broker, { failed, silent: code === status.DEADLINE_EXCEEDED && reason === null });
}

/** Returns the failure of a call that could not be sent. */
export function unavailable(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  return { code: status.UNAVAILABLE, message, reason: null, pushback: null, field: null, applied: "no" };
}

/** Returns true for the error of a call that has changed nothing. */
export function hasChangedNothing(error: unknown): boolean {
  return (error instanceof Aborted || error instanceof LeaseBrokerError) && error.applied === "no";
}

/** Throws a `LeaseBrokerError` if a response has not one result for each entry of the request. */
export function checkCount(rpc: string, { length: results }: readonly unknown[], { length: entries }: readonly unknown[]): void {
  if (results === entries) return;
  throw new LeaseBrokerError(rpc, "INTERNAL", null, `the response has ${results} results for ${entries} entries`);
}

/** Waits. Throws `Aborted` if the signal ends the wait. */
export async function pause(wait: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(Math.min(wait, MAX_DELAY), undefined, signal ? { signal } : {});
  } catch {
    throw new Aborted();
  }
}

/** Waits for a promise. Rejects with an error that begins with `problem` after the limit, and with `Aborted` by the signal. */
async function within<T>(limit: number, promise: Promise<T>, problem: string, signal?: AbortSignal): Promise<T> {
  let stop: () => void = () => undefined;
  const ended = new Promise<never>((_resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error(`${problem} within ${(limit / 1_000).toFixed(1)} s`));
    }, Math.min(limit, MAX_DELAY));
    const abort = () => {
      reject(new Aborted());
    };
    signal?.addEventListener("abort", abort);
    stop = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
  });
  try {
    return await Promise.race([promise, ended]);
  } finally {
    stop();
  }
}

/**
 * Returns the longest wait before a retry for which the broker asks for none. An attempt at a settlement may take half of the lease,
 * and at least 1 s. So a wait takes at most a quarter of the lease, or 0.5 s, and heartbeats extend the lease more often.
 */
function longestWait(attemptTimeout: number): number {
  return Math.min(MAX_WAIT, attemptTimeout / 2);
}

function waitOf({ pushback }: Failure, backoff: number): number {
  return pushback !== null && pushback >= 0 ? pushback : jitter(backoff);
}

/** Keeps many workers from sending at the same time. */
function jitter(backoff: number): number {
  return backoff * (0.5 + Math.random() / 2);
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && "code" in error && "metadata" in error;
}
