/** A worker: claims the items of queues, runs a handler for each, and settles them. */

import { readAddresses } from "./addresses.js";
import { type Duration, milliseconds } from "./clock.js";
import { checkPlaintext, type Credentials, plaintext, Token } from "./credentials.js";
import type { EventName, Observer } from "./events.js";
import { CallHealth } from "./health.js";
import type { Item, Result } from "./item.js";
import { Keepers } from "./keeper.js";
import type { Context } from "./leases.js";
import {
  type BatchOptions,
  type BatchQueueOptions,
  checkFunction,
  checkOptions,
  DEFAULT_LOGGER,
  defaultWorkerId,
  type Logger,
  type QueueOptions,
  type WorkerOptions,
} from "./options.js";
import { QueueWorker } from "./queue_worker.js";
import type { AnyHandler } from "./runner.js";
import { Transport } from "./transport.js";

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

/** A worker of one queue, or of several. */
export class Worker {
  readonly #address: string | readonly string[];
  readonly #credentials: Credentials;
  readonly #token: Token | null;
  readonly #workerId: string;
  readonly #grace: number;
  readonly #place: "thread" | "loop";
  readonly #logger: Logger;
  readonly #queues: QueueWorker[] = [];
  readonly #health: CallHealth;
  readonly #keepers = new Keepers();
  #transport: Transport | null = null;
  #starting: Promise<void> | null = null;
  #stopping: Promise<boolean> | null = null;
  #error: unknown = null;
  #hurry = false;
  #requestStop!: () => void;
  /** Resolves when the worker must stop: by a signal, or by an error. */
  readonly #stopRequested = new Promise<void>((resolve) => {
    this.#requestStop = resolve;
  });

  /**
   * Creates a worker. It connects when it starts. `address` is "host:port", "dns:///host:port", or a list of "host:port".
   *
   * Throws a `RangeError` for an option out of its range, a `TypeError` for a handler that is no function, and an `Error` for an
   * address of another machine without TLS.
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
    this.#address = address;
    this.#credentials = options.credentials ?? plaintext();
    checkPlaintext(readAddresses(address), this.#credentials);
    this.#token = options.token === undefined ? null : new Token(options.token);
    this.#workerId = options.workerId ?? defaultWorkerId();
    this.#grace = milliseconds("grace", options.grace ?? "15s");
    this.#place = options.keeper ?? "thread";
    this.#logger = options.logger ?? DEFAULT_LOGGER;
    this.#health = new CallHealth(address, this.#logger, undefined, (answers) => {
      for (const { events } of this.#queues) events.emit(answers ? "connected" : "disconnected");
    });
    this.#add(queue, handler as AnyHandler, options);
  }

  /** Adds a queue, which shares the connections of the worker. Throws a `RangeError` for an option out of its range. */
  queue(queue: string, handler: Handler, options?: QueueOptions & { readonly batch?: never }): this;
  queue(queue: string, handler: BatchHandler, options: BatchQueueOptions): this;
  queue(queue: string, handler: Handler | BatchHandler, options: QueueOptions & { readonly batch?: number } = {}): this {
    this.#add(queue, handler as AnyHandler, options);
    return this;
  }

  #add(queue: string, handler: AnyHandler, options: QueueOptions & { readonly batch?: number }): void {
    if (this.#starting !== null) throw new Error(`queue ${queue}: add it before the worker is started`);
    if (this.#queues.some((part) => part.options.queue === queue)) throw new Error(`queue ${queue} was added before`);
    const checked = checkOptions(queue, this.#workerId, this.#logger, options);
    checkFunction(`the handler of the queue ${queue}`, handler);
    this.#queues.push(new QueueWorker(checked, handler, options.onEvent));
  }

  /** Adds an observer of one kind of events, in all queues. */
  on(name: EventName, observer: Observer): this {
    for (const { events } of this.#queues) events.on(name, observer);
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
      for (const { state } of this.#queues) state.changed();
    };
    process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
    try {
      await this.start();
      await this.#stopRequested;
      this.#stopping ??= this.#stop(this.#grace);
      // Timers and sockets of handlers that do not stop would keep the process. An error of the broker was logged.
      if (!(await this.#stopping)) process.exit(1);
      await this.stop();
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
    const transport = new Transport(this.#address, this.#credentials, (text) => {
      this.#logger.warn(text);
    });
    this.#transport = transport;
    const parts = this.#queues.map((part) => ({ part, keeper: part.addTo(this.#keepers, this.#health) }));
    const options = { address: this.#address, credentials: this.#credentials, token: this.#token };
    await this.#keepers.start({ ...options, place: this.#place, logger: this.#logger }, this.#onFatal);
    this.#health.start();
    const connections = { transport, token: this.#token, health: this.#health };
    for (const { part, keeper } of parts) await part.start(connections, keeper, this.#onFatal);
  }

  /**
   * Stops in order: no more claims, handlers end within `grace`, then they are cancelled, and everything is settled.
   *
   * Returns false if handlers did not stop. Their leases expire. Rejects with the error of the broker if that has ended the
   * worker.
   */
  async stop(grace?: Duration): Promise<boolean> {
    const limit = grace === undefined ? this.#grace : milliseconds("grace", grace);
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
    if (this.#error !== null || this.#queues.some(({ state }) => state.tooManyStuck)) return false;
    return this.#health.failingFor() <= Math.max(...this.#queues.map(({ state }) => state.leaseDuration));
  }

  /** Returns the number of events by name, of one queue or of all. */
  counters(queue?: string): Record<EventName, number> {
    const all = this.#queues.filter((part) => queue === undefined || part.options.queue === queue);
    const [first, ...others] = all.map((part) => part.events.counters());
    if (first === undefined) throw new RangeError(`the worker has no queue ${queue ?? ""}`);
    for (const each of others) for (const name of Object.keys(first) as EventName[]) first[name] += each[name];
    return first;
  }

  async #stop(grace: number): Promise<boolean> {
    this.#requestStop();
    await this.#starting?.catch(() => undefined); // `start` rejects with this error.
    if (this.#transport === null) return true;
    const clean = await Promise.all(this.#queues.map((part) => part.stop(grace, () => this.#hurry)));
    await this.#keepers.close();
    this.#health.close();
    this.#transport.close();
    for (const { events } of this.#queues) events.emit("stopped");
    return clean.every(Boolean);
  }

  /** Ends the worker because of an error that no retry can mend. */
  readonly #onFatal = (error: unknown): void => {
    if (this.#error !== null) return;
    this.#error = error;
    this.#logger.error("the worker stops", error);
    this.stop().catch(() => undefined);
  };
}
