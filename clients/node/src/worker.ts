/** A worker: claims the items of one queue, runs a handler for each, and settles them. */

import { status } from "@grpc/grpc-js";

import { AbandonedClaims } from "./abandoned.js";
import { Caller } from "./calls.js";
import { type Duration, milliseconds, now } from "./clock.js";
import { checkPlaintext } from "./credentials.js";
import { ShutdownError } from "./errors.js";
import { type EventName, Events, type Observer } from "./events.js";
import { CallHealth } from "./health.js";
import type { Report } from "./heartbeats.js";
import type { Item, Result } from "./item.js";
import { type Keeper, startKeeper } from "./keeper.js";
import type { Context } from "./leases.js";
import { type BatchOptions, checkOptions, type Options, type WorkerOptions } from "./options.js";
import { Poller } from "./poller.js";
import { type AnyHandler, Runner } from "./runner.js";
import { Settler } from "./settler.js";
import { State } from "./state.js";
import { loadTracing } from "./tracing.js";
import { Transport } from "./transport.js";
import { Watchdog } from "./watchdog.js";

/** The milliseconds that a cancelled handler has to end when the worker stops. */
const CANCEL_GRACE = 5_000;
/** The milliseconds after that for which settlements are sent again. */
const SETTLE_GRACE = 3_000;

type MaybePromise<T> = T | Promise<T>;

/** Handles one item. Its result or its error says how the item ends. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- A handler without a return statement returns void.
export type Handler = (item: Item, context: Context) => MaybePromise<Result | void>;

/** Handles a batch of items. Its results by item, or its error, say how they end. */
export type BatchHandler = (
  items: readonly Item[],
  context: Context,
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- As above.
) => MaybePromise<ReadonlyMap<Item, Result | undefined> | void>;

/** The parts of a worker that has started. */
interface Started {
  readonly transport: Transport;
  readonly abandoned: AbandonedClaims;
  readonly poller: Poller;
  readonly keeper: Keeper;
  readonly watchdog: Watchdog;
}

/** A worker of one queue. */
export class Worker {
  readonly #options: Options;
  readonly #events: Events;
  readonly #state: State;
  readonly #handler: AnyHandler;
  readonly #health: CallHealth;
  #starting: Promise<void> | null = null;
  #started: Started | null = null;
  #stopping: Promise<boolean> | null = null;
  #error: unknown = null;
  #hurry = false;
  #requestStop!: () => void;
  /** Resolves when the worker must stop: by a signal, or by an error. */
  readonly #stopRequested = new Promise<void>((resolve) => {
    this.#requestStop = resolve;
  });

  /**
   * Creates a worker. It connects when it starts. `address` is "host:port", "dns:///host:port", or a list of addresses
   * with IP addresses.
   *
   * Throws a `RangeError` for an option out of its range, and an `Error` for an address of another machine without TLS.
   */
  constructor(
    address: string | readonly string[],
    queue: string,
    handler: Handler,
    options?: WorkerOptions & { readonly batch?: never },
  );
  constructor(address: string | readonly string[], queue: string, handler: BatchHandler, options: BatchOptions);
  constructor(
    address: string | readonly string[],
    queue: string,
    handler: Handler | BatchHandler,
    options: WorkerOptions & { readonly batch?: number } = {},
  ) {
    this.#options = checkOptions(address, queue, options);
    checkPlaintext(typeof address === "string" ? [address] : address, this.#options.credentials);
    this.#events = new Events(queue, this.#options.logger, options.onEvent);
    this.#state = new State(this.#options, this.#events);
    this.#handler = handler as AnyHandler;
    this.#health = new CallHealth(address, this.#options.logger);
  }

  /** Adds an observer of one kind of events. */
  on(name: EventName, observer: Observer): this {
    this.#events.on(name, observer);
    return this;
  }

  /**
   * Works until SIGTERM or SIGINT, then stops in order. A second signal cancels the handlers at once.
   *
   * If handlers do not stop, the process ends with code 1. Rejects with a `LeaseBrokerError` if the broker refuses the
   * worker, for example because the queue does not exist.
   */
  async run(): Promise<void> {
    const onSignal = () => {
      this.#hurry = this.#stopping !== null;
      this.#requestStop();
      this.#state.changed();
    };
    process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
    try {
      await this.start();
      await this.#stopRequested;
      // Timers and sockets of handlers that do not stop would keep the process.
      if (!(await this.stop())) process.exit(1);
    } finally {
      process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    }
  }

  /**
   * Starts the worker and returns. For a program that handles its signals itself. Does nothing if the worker was stopped first.
   * Rejects if it was started before.
   */
  async start(): Promise<void> {
    if (this.#starting !== null) throw new Error("the worker was started before; make another one");
    if (this.#stopping !== null) return;
    this.#starting = this.#start();
    await this.#starting;
  }

  async #start(): Promise<void> {
    const options = this.#options;
    const state = this.#state;
    const transport = new Transport(options.address, options.credentials);
    const caller = new Caller(transport, options.token, (event) => {
      this.#events.emit("retry", undefined, event);
    }, this.#health);
    const abandoned = new AbandonedClaims(options, caller);
    const poller = new Poller(state, caller, abandoned, this.#health, this.#onFatal);
    const settler = new Settler(state, caller, abandoned, this.#onFatal);
    const watchdog = new Watchdog(state);
    const keeper = await startKeeper(options, this.#onReport, this.#onFatal);
    const runner = new Runner(state, this.#handler, await loadTracing());
    state.parts = { keeper, start: runner.start, watch: watchdog.watch, look: watchdog.look };
    this.#started = { transport, abandoned, poller, keeper, watchdog };
    transport.watchConnection((connected) => {
      this.#events.emit(connected ? "connected" : "disconnected");
    });
    this.#health.start();
    settler.start();
    poller.start();
  }

  /**
   * Stops in order: no more claims, handlers end within `grace`, then they are cancelled, and everything is settled.
   *
   * Returns false if handlers did not stop. Their leases expire. Rejects with the error of the broker if that has ended the
   * worker.
   */
  async stop(grace?: Duration): Promise<boolean> {
    const limit = grace === undefined ? this.#options.grace : milliseconds("grace", grace);
    this.#stopping ??= this.#stop(limit);
    const clean = await this.#stopping;
    if (this.#error !== null) throw this.#error as Error;
    return clean;
  }

  /**
   * Returns false if more than `maxStuck` handlers are stuck, if calls have failed for the time of a lease, or if the
   * broker refuses the worker.
   */
  health(): boolean {
    if (this.#state.tooManyStuck || this.#error !== null) return false;
    return this.#health.failingFor() <= this.#state.leaseDuration;
  }

  /** Returns the number of events by name. */
  counters(): Record<EventName, number> {
    return this.#events.counters();
  }

  async #stop(grace: number): Promise<boolean> {
    this.#requestStop();
    await this.#starting?.catch(() => undefined); // `start` rejects with this error.
    if (this.#started === null) return true;
    const { transport, abandoned, poller, keeper, watchdog } = this.#started;
    const state = this.#state;
    const begun = now();
    this.#events.emit("stopping");
    state.takesItems = false;
    state.settleUntil = begun + grace + CANCEL_GRACE + SETTLE_GRACE;
    state.releaseWaiting();
    await poller.stop();
    const released = abandoned.release({ forget: false });
    await state.waitFor(() => state.runs.size === 0 || this.#hurry, grace - (now() - begun));
    state.settleUntil = Math.min(state.settleUntil, now() + CANCEL_GRACE + SETTLE_GRACE);
    for (const run of state.runs) state.cancel(run, new ShutdownError());
    await state.waitFor(() => state.runs.size === 0, CANCEL_GRACE);
    const left = [...state.runs];
    for (const run of left) for (const lease of run.leases) if (lease.phase === "running") state.drop(lease);
    await state.waitFor(() => state.endings.length === 0 && !state.settling, state.settleUntil - now());
    watchdog.close();
    await keeper.close();
    await released;
    await abandoned.release({ forget: true });
    this.#health.close();
    transport.close();
    this.#events.emit("stopped");
    return left.length === 0;
  }

  /** Ends the worker because of an error that no retry can mend. */
  readonly #onFatal = (error: unknown): void => {
    if (this.#error !== null) return;
    this.#error = error;
    this.#options.logger.error("the worker stops", error);
    this.stop().catch(() => undefined);
  };

  readonly #onReport = (report: Report): void => {
    const state = this.#state;
    switch (report.type) {
      case "beat": {
        this.#health.note(null);
        const [only, ...others] = report.results;
        const item = only === undefined || others.length > 0 ? undefined : state.held.get(only.id)?.item;
        if (only !== undefined) this.#events.emit("heartbeat", item, { count: report.results.length });
        for (const { id, timeLeft, reason } of report.results) {
          const lease = state.held.get(id);
          if (lease === undefined) continue;
          if (timeLeft !== null) lease.extend(report.sentAt, timeLeft);
          // A lease that is being settled may have ended by that. The result of the settlement says so.
          else if (lease.phase === "waiting" || lease.phase === "running") state.lose(lease, reason || "the lease was lost");
        }
        break;
      }
      case "failed":
        this.#health.note(report.failure);
        this.#options.logger.debug(`a heartbeat failed: ${status[report.failure.code]}: ${report.failure.message}`);
        break;
      case "checkpoint_refused": {
        const lease = state.held.get(report.id);
        if ((lease?.checkpoint?.length ?? 0) >= report.bytes && lease !== undefined) lease.checkpoint = null;
        state.refuseCheckpoint(report.bytes, report.text);
        break;
      }
      case "ready":
      case "unauthenticated":
    }
  };
}
