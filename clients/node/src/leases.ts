/** A lease as its worker holds it, the run of a handler, and the context that the handler gets. */

import { inOwnContext } from "./async_context.js";
import { durationMilliseconds, now } from "./clock.js";
import type { Cancelled, Cause } from "./errors.js";
import { type Item, readItem } from "./item.js";
import type { Logger } from "./options.js";
import type { Lease } from "./v1.js";

/**
 * The progress of a lease:
 * - waiting: its handler has not begun.
 * - running: its handler runs.
 * - done: its handler has returned. The ending waits while an earlier group is being settled.
 * - settling: the call that settles it is in its first attempt. No heartbeat is sent, and one that answers LEASE_LOST is ignored:
 *   the settlement can be the cause.
 * - resending: that call is sent again, or waits because the row is locked. Heartbeats keep the lease.
 * - ended: it was settled, lost or given up.
 */
export type Phase = "waiting" | "running" | "done" | "settling" | "resending" | "ended";

/** A lease. Times are milliseconds of the monotonic clock. */
export class HeldLease {
  readonly id: string;
  readonly item: Item;
  duration: number;
  /**
   * True if the claim has waited for items, so that the start of the lease is not known until the first heartbeat. Until
   * then the lease counts from the arrival of the response.
   */
  needsBeat: boolean;
  /** The time until which the lease is valid. Unless `needsBeat` is true, it is not later than the database's. */
  deadline: number;
  /** The time at which the last successful claim or heartbeat was sent. */
  lastAnswer: number;
  phase: Phase = "waiting";
  run: Run | null = null;
  /** True if its item was released, and not processed. */
  isReleased = false;
  /** How often its ending was refused because the row is locked. */
  tries = 0;
  /** The last checkpoint of the handler. */
  checkpoint: Uint8Array | null = null;
  /** True if `heartbeat_missed` was reported and no heartbeat has succeeded since. */
  missed = false;

  constructor(message: Lease, sentAt: number, time: number) {
    this.id = message.leaseId;
    this.item = readItem(message);
    this.duration = durationMilliseconds(message.timeLeft);
    this.needsBeat = time - sentAt > this.duration / 10;
    this.lastAnswer = this.needsBeat ? time : sentAt;
    this.deadline = this.lastAnswer + this.duration;
  }

  /** The time at which the worker treats the lease as lost if no heartbeat succeeds: before its deadline. */
  get lostAt(): number {
    return this.deadline - this.duration / 10;
  }

  /** Records a successful heartbeat that was sent at `sentAt`. */
  extend(sentAt: number, timeLeft: number): void {
    // A claim that was sent again returns the rest of its leases. The heartbeat returns their whole duration.
    this.duration = Math.max(this.duration, timeLeft);
    this.deadline = this.needsBeat ? sentAt + timeLeft : Math.max(this.deadline, sentAt + timeLeft);
    this.needsBeat = false;
    this.lastAnswer = Math.max(this.lastAnswer, sentAt);
    this.missed = false;
  }
}

/** A call of the handler, with the leases that it works on: one, or those of a batch. */
export class Run {
  readonly context = new Context(this);
  startedAt: number | null = null;
  cancelledAt = Infinity;
  cancelled: Cancelled | null = null;
  /** The time at which the items fail because the handler has exceeded `timeLimit`. */
  failAt = Infinity;
  isStuck = false;
  #controller: AbortController | null = null;

  constructor(
    readonly leases: readonly HeldLease[],
    readonly logger: Logger,
    readonly storeCheckpoint: (lease: HeldLease, checkpoint: Uint8Array) => void,
  ) {
    for (const lease of leases) lease.run = this;
  }

  /** The signal is created when the handler asks for it: many handlers do not. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.cancelled !== null) this.#controller.abort(this.cancelled);
    }
    return this.#controller.signal;
  }

  /** Cancels the handler. Returns false if it was cancelled before. */
  cancel(reason: Cancelled): boolean {
    if (this.cancelled !== null) return false;
    this.cancelled = reason;
    this.cancelledAt = now();
    // The listeners of the signal are called now.
    inOwnContext(() => this.#controller?.abort(reason));
    return true;
  }

  /** True if no lease is left. */
  get hasEnded(): boolean {
    return this.leases.every((lease) => lease.phase === "ended");
  }
}

/** The state of a handler's run: whether it is cancelled, and how long its lease lasts. */
export class Context {
  readonly #run: Run;

  /** @internal */
  constructor(run: Run) {
    this.#run = run;
  }

  /** A signal that is aborted when the handler must stop. Its reason is a `Cancelled`. */
  get signal(): AbortSignal {
    return this.#run.signal;
  }

  /** The reason why the handler must stop. Null: it can continue. */
  get cause(): Cause | null {
    return this.#run.cancelled?.cause ?? null;
  }

  /** True if no heartbeat has succeeded for half of the lease. */
  get inDoubt(): boolean {
    return this.#run.leases.some((lease) => lease.missed);
  }

  /** The W3C trace context of the lease. For a batch: of its first lease. */
  get traceParent(): string {
    return this.#run.leases[0]?.item.traceParent ?? "";
  }

  /** The worker's log. */
  get logger(): Logger {
    return this.#run.logger;
  }

  /** Returns the milliseconds until the lease ends without a further heartbeat. For a batch: until the first lease ends. */
  timeLeft(): number {
    return Math.min(...this.#run.leases.map((lease) => lease.deadline)) - now();
  }

  /** Returns false if the lease of an item was lost. For a batch, where the other leases can still be held. */
  isHeld(item: Item): boolean {
    return this.#run.leases.some((lease) => lease.item === item && lease.phase !== "ended");
  }

  /**
   * Stores progress for the next attempt. The next heartbeat carries it, and so do a failure and a release. `item` is
   * needed only for a batch. If the queue has no checkpoints, or only shorter ones, the worker logs that and leaves the checkpoint out.
   */
  checkpoint(bytes: Uint8Array, item?: Item): void {
    const { leases } = this.#run;
    if (item === undefined && leases.length > 1) throw new TypeError("checkpoint: pass the item of the batch");
    const lease = item === undefined ? leases[0] : leases.find((lease) => lease.item === item);
    if (lease === undefined) throw new TypeError("checkpoint: the handler has no such item");
    // A text or a number would become an array of other bytes.
    if (!(bytes instanceof Uint8Array)) throw new TypeError(`checkpoint: pass a Uint8Array, and not a ${typeof bytes}`);
    this.#run.storeCheckpoint(lease, new Uint8Array(bytes));
  }
}
