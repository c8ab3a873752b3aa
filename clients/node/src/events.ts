/** Events of a worker, their observers, and the counters of events. */

import { inOwnContext } from "./async_context.js";
import type { Cause } from "./errors.js";
import type { Item } from "./item.js";
import { type Logger, logThrown } from "./options.js";

/** The names of all events. */
export const EVENT_NAMES = [
  "claimed",
  "started",
  "completed",
  "failed",
  "released",
  "lost",
  "refused",
  "unknown",
  "heartbeat",
  "heartbeat_missed",
  "cancelled",
  "stuck",
  "retry",
  "connected",
  "disconnected",
  "stopping",
  "stopped",
] as const;

/** The name of an event. */
export type EventName = (typeof EVENT_NAMES)[number];

/** The fields that only some kinds of events have. */
export interface EventDetails {
  /** Of "cancelled" and "stuck": why the handler was cancelled. */
  cause?: Cause | undefined;
  /** Of "lost", "cancelled" and "refused": the reason in words. Of "retry": the broker's reason, or null. */
  reason?: string | null | undefined;
  /** Of "failed", "unknown" and "retry": the text of the error. */
  error?: string | undefined;
  /** Of "heartbeat": the number of leases in the call. */
  count?: number | undefined;
  /** Of "retry": the rpc. */
  rpc?: string | undefined;
  /** Of "retry": the name of the gRPC status. */
  code?: string | undefined;
  /** Of "retry": the milliseconds until the request is sent again. */
  wait?: number | undefined;
}

/** An event of a worker. */
export interface Event extends EventDetails {
  readonly name: EventName;
  readonly queue: string;
  /** The key of the item, if the event is about one. */
  readonly key?: string;
  /** The item's attempt. Of "retry": how often the request was sent. */
  readonly attempt?: number;
  /** The fencing token of the lease. */
  readonly fencingToken?: bigint;
}

/** A function that gets events. If it throws or rejects, the error is logged once, and the function is not called again. */
export type Observer = (event: Event) => unknown;

/** Counts events and passes them to observers. */
export class Events {
  readonly #counters = new Map<EventName, number>(EVENT_NAMES.map((name) => [name, 0]));
  readonly #observers = new Map<EventName, Set<Observer>>();

  constructor(
    private readonly queue: string,
    private readonly logger: Logger,
    observer?: Observer,
  ) {
    if (observer !== undefined) for (const name of EVENT_NAMES) this.on(name, observer);
  }

  /** Adds an observer of one kind of events. */
  on(name: EventName, observer: Observer): void {
    const observers = this.#observers.get(name) ?? new Set();
    this.#observers.set(name, observers.add(observer));
  }

  /** Reports an event. */
  emit(name: EventName, item?: Item, details?: EventDetails & { attempt?: number }): void {
    this.#counters.set(name, (this.#counters.get(name) ?? 0) + 1);
    const observers = this.#observers.get(name);
    if (observers === undefined) return;
    const about = item && { key: item.key, attempt: item.attempt, fencingToken: item.fencingToken };
    const event: Event = { name, queue: this.queue, ...about, ...details };
    for (const observer of observers) this.#notify(observer, event);
  }

  /** Returns the number of events by name. */
  counters(): Record<EventName, number> {
    return Object.fromEntries(this.#counters) as Record<EventName, number>;
  }

  #notify(observer: Observer, event: Event): void {
    const onError = (error: unknown) => {
      this.#drop(observer, error);
    };
    try {
      const returned = inOwnContext(() => observer(event));
      if (returned instanceof Promise) returned.catch(onError);
    } catch (error) {
      onError(error);
    }
  }

  #drop(observer: Observer, error: unknown): void {
    const dropped = [...this.#observers.values()].filter((observers) => observers.delete(observer));
    // An async function can get further events before its first error is known.
    if (dropped.length === 0) return;
    logThrown(this.logger, "an observer of events threw an error and is not called again", error);
  }
}
