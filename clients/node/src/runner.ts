/** Runs handlers and turns their results into endings. */

import { inOwnContext } from "./async_context.js";
import { now } from "./clock.js";
import { type Ending, failed, ofReturn, ofThrow } from "./endings.js";
import { BatchError, decisionIn, errorText } from "./errors.js";
import type { Item } from "./item.js";
import type { Context, HeldLease, Run } from "./leases.js";
import { logThrown } from "./options.js";
import type { State } from "./state.js";
import type { Tracing } from "./tracing.js";

/** A handler as the worker calls it: with an item, or with the items of a batch. */
export type AnyHandler = (items: Item | readonly Item[], context: Context) => unknown;
/**
 * Surrounds a handler. It gets the item, or the items of a batch, and the context, and calls `next` to run the handler. What it
 * returns is the result.
 */
export type Middleware = (items: Item | readonly Item[], context: Context, next: () => unknown) => unknown;

/** The milliseconds after which handlers that block the event loop let other work run in between. */
const MAX_BLOCKED = 10;

/** Runs handlers on the event loop. */
export class Runner {
  readonly #handler: AnyHandler;
  #waiting: Run[] = [];
  #scheduled = false;

  constructor(
    private readonly state: State,
    handler: AnyHandler,
    private readonly tracing: Tracing,
  ) {
    this.#handler = state.options.middleware.reduceRight<AnyHandler>(
      (inner, middleware) => (items, context) => middleware(items, context, () => inner(items, context)),
      handler,
    );
  }

  /** Starts the handler of a run soon, in the order of the calls. */
  readonly start = (run: Run): void => {
    this.#waiting.push(run);
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(this.#startWaiting);
  };

  readonly #startWaiting = (): void => {
    const begun = now();
    let started = 0;
    for (const run of this.#waiting) {
      started += 1;
      void this.#handle(run);
      // A signal to stop and the keeper's reports must not wait for all handlers of a claim.
      if (now() - begun > MAX_BLOCKED) break;
    }
    this.#waiting = this.#waiting.slice(started);
    this.#scheduled = this.#waiting.length > 0;
    if (this.#scheduled) setImmediate(this.#startWaiting);
  };

  async #handle(run: Run): Promise<void> {
    const { state } = this;
    const leases = state.begin(run);
    const [first] = leases;
    if (first === undefined) {
      state.end(run, []);
      return;
    }
    const items = state.options.isBatch ? leases.map((lease) => lease.item) : first.item;
    let endings: Ending[];
    try {
      const value = await inOwnContext(() => this.tracing.run(run.context.traceParent, () => this.#handler(items, run.context)));
      endings = ofReturn(leases, state.options.isBatch, value);
    } catch (error) {
      endings = endingsOf(run, leases, error, state.options.timeLimit);
    }
    state.end(run, endings);
  }
}

/** Returns the endings for the error that a handler has thrown, and logs the error. Does not throw. */
function endingsOf(run: Run, leases: readonly HeldLease[], error: unknown, timeLimit: number | null): Ending[] {
  try {
    logError(run, leases, error);
    return ofThrow(run, leases, error, timeLimit);
  } catch (problem) {
    // The error is a wrong BatchError, or a proxy that throws when its type is asked for.
    return leases.map((lease) => failed(lease, errorText(problem)));
  }
}

/** Logs an error that a handler did not throw on purpose, with its stack. */
function logError(run: Run, leases: readonly HeldLease[], error: unknown): void {
  if (error instanceof BatchError || (error !== null && decisionIn(error) === error) || run.cancelled !== null) return;
  logThrown(run.logger, `the handler of ${leases.map((lease) => lease.item.key).join(", ")} failed`, error);
}
