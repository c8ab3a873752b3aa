/** The options of a worker, their defaults and their ranges. */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import { type Duration, milliseconds } from "./clock.js";
import type { Credentials, TokenSource } from "./credentials.js";
import { errorText } from "./errors.js";
import type { Observer } from "./events.js";
import type { Middleware } from "./runner.js";

/** The largest number of items in one call. */
export const MAX_ITEMS_PER_CALL = 1_000;
/** The largest number of bytes in one call: below the broker's default of 4 MiB. */
export const MAX_BYTES_PER_CALL = 3 << 20;

const MAX_GROUPS = 100;
/** The milliseconds for which a claim can wait. */
const MAX_WAIT = 60_000;

/** A log. `console` is one. */
export interface Logger {
  debug(message: string, ...details: unknown[]): void;
  info(message: string, ...details: unknown[]): void;
  warn(message: string, ...details: unknown[]): void;
  error(message: string, ...details: unknown[]): void;
}

/** The options of a queue of a worker. */
export interface QueueOptions {
  /** The number of handlers that run at the same time. Default: 1. */
  readonly concurrency?: number;
  /** The duration of the leases. Default: the queue's. */
  readonly lease?: Duration;
  /** False: no heartbeats are sent, and a handler is cancelled at half of its lease. Default: true. */
  readonly heartbeat?: boolean;
  /** The longest run of a handler. Default: no limit. */
  readonly timeLimit?: Duration;
  /** The time that a claim waits for items, up to 60 s. Default: 20 s. */
  readonly wait?: Duration;
  /** The groups whose items are claimed, up to 100, each in the form of `Item.key`. Default: any item is claimed. */
  readonly groups?: readonly string[];
  /** The time after its cancellation at which a handler that still runs is reported as stuck. Default: 30 s. */
  readonly stuckAfter?: Duration;
  /** The number of stuck handlers whose slots are replaced. Default: `concurrency`. */
  readonly maxStuck?: number;
  /** Functions around the handler, the first one outermost. */
  readonly middleware?: readonly Middleware[];
  /** Gets every event. */
  readonly onEvent?: Observer;
}

/** The options of a queue whose handler gets batches. */
export interface BatchQueueOptions extends QueueOptions {
  /** The number of items that one call of the handler gets, 1 to 1,000. */
  readonly batch: number;
}

/** The options of a worker and of its first queue. */
export interface WorkerOptions extends QueueOptions {
  /** The name of the worker, up to 128 UTF-16 units. Default: host, process and random digits. */
  readonly workerId?: string;
  /** The time that handlers have to end when the worker stops. Default: 15 s. */
  readonly grace?: Duration;
  /**
   * Where heartbeats are sent from. "thread" (the default): a worker thread, so that a handler that blocks the event loop
   * keeps its lease. "loop": the event loop. A bundled program that lacks the thread's file uses it too, with a warning.
   */
  readonly keeper?: "thread" | "loop";
  /** The security of the connection. Default: `plaintext()`, which only calls this machine. */
  readonly credentials?: Credentials;
  /** A bearer token. */
  readonly token?: TokenSource;
  /** The log. Default: warnings and errors go to `console`. */
  readonly logger?: Logger;
}

/** The options of a worker whose first queue has a handler of batches. */
export interface BatchOptions extends WorkerOptions, BatchQueueOptions {}

/** The checked options of a queue. Durations are in milliseconds. */
export interface Options {
  readonly queue: string;
  readonly workerId: string;
  readonly concurrency: number;
  /** The number of items that one handler gets. */
  readonly slotSize: number;
  readonly isBatch: boolean;
  readonly lease: number | null;
  readonly heartbeat: boolean;
  readonly timeLimit: number | null;
  readonly wait: number;
  readonly groups: readonly string[];
  readonly stuckAfter: number;
  readonly maxStuck: number;
  readonly middleware: readonly Middleware[];
  readonly logger: Logger;
}

export const DEFAULT_LOGGER: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (message, ...details) => {
    console.warn(`lease-broker: ${message}`, ...details);
  },
  error: (message, ...details) => {
    console.error(`lease-broker: ${message}`, ...details);
  },
};

/** Logs a value that code of the program has thrown. If the log cannot read the value, its text is logged. Does not throw. */
export function logThrown(logger: Logger, message: string, error: unknown): void {
  for (const detail of [error, errorText(error)]) {
    try {
      logger.error(message, detail);
      return;
    } catch {
      // The value has a getter that throws, or the log does not work.
    }
  }
}

/** Throws a `TypeError` if a value is no function. Otherwise every item of the queue would fail. */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== "function") throw new TypeError(`${name} is ${typeof value}; pass a function`);
}

/** Returns the checked options of a queue. Throws a `RangeError` for an option out of its range, and a `TypeError` for another type. */
export function checkOptions(
  queue: string,
  workerId: string,
  logger: Logger,
  options: QueueOptions & { readonly batch?: number },
): Options {
  if (typeof (queue as unknown) !== "string") throw new TypeError(`queue is ${typeof queue}; pass its name`);
  if (queue === "") throw new RangeError("queue is empty; pass its name");
  if (workerId === "") throw new RangeError("workerId is empty");
  const concurrency = count("concurrency", options.concurrency ?? 1);
  const slotSize = count("batch", options.batch ?? 1);
  if (slotSize > MAX_ITEMS_PER_CALL) {
    throw new RangeError(`batch is ${slotSize}; a call returns at most ${MAX_ITEMS_PER_CALL} items`);
  }
  const groups = options.groups ?? [];
  if (groups.length > MAX_GROUPS) throw new RangeError(`groups has ${groups.length} entries; it must have at most ${MAX_GROUPS}`);
  const wait = milliseconds("wait", options.wait ?? "20s");
  if (wait > MAX_WAIT) throw new RangeError(`wait is ${options.wait}; it must be at most 60 s`);
  const middleware = options.middleware ?? [];
  if (!Array.isArray(middleware)) throw new TypeError(`middleware is ${typeof middleware}; pass a list of functions`);
  for (const each of middleware) checkFunction(`a middleware of the queue ${queue}`, each);
  return {
    queue,
    workerId,
    concurrency,
    slotSize,
    isBatch: options.batch !== undefined,
    lease: options.lease === undefined ? null : positive("lease", options.lease),
    heartbeat: options.heartbeat ?? true,
    timeLimit: options.timeLimit === undefined ? null : positive("timeLimit", options.timeLimit),
    wait,
    groups,
    stuckAfter: positive("stuckAfter", options.stuckAfter ?? "30s"),
    maxStuck: count("maxStuck", options.maxStuck ?? concurrency),
    middleware,
    logger,
  };
}

/** Returns a name made of the host, the process and random digits. */
export function defaultWorkerId(): string {
  return `${hostname().slice(0, 90)}-${process.pid}-${randomBytes(3).toString("hex")}`;
}

function count(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1) throw new RangeError(`${name} is ${value}; it must be a whole number and at least 1`);
  return value;
}

function positive(name: string, duration: Duration): number {
  const value = milliseconds(name, duration);
  if (value === 0) throw new RangeError(`${name} is ${duration}; it must be greater than 0`);
  return value;
}
