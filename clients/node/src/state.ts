/** The state of a worker: slots, leases, running handlers, and endings that are not settled. */

import { MAX_CHECKPOINT_BYTES, RefusedLengths } from "./checkpoints.js";
import { MAX_DELAY, now } from "./clock.js";
import { type Ending, failed, released } from "./endings.js";
import { Cancelled } from "./errors.js";
import type { Events } from "./events.js";
import { Gathering } from "./gathering.js";
import type { Keeper } from "./keeper.js";
import { HeldLease, Run } from "./leases.js";
import { MAX_BYTES_PER_CALL, MAX_ITEMS_PER_CALL, type Options } from "./options.js";
import type { Lease } from "./v1.js";

/** The largest number of follow-ups of all items in one call. */
const MAX_FOLLOW_UPS = 1_000;
/** The number of keys in a line of the log about items that were lost. */
const MAX_NAMED = 10;
/** The milliseconds that a handler has to return after its time limit. */
const TIME_LIMIT_GRACE = 5_000;

/** The parts of a worker that the state calls. */
export interface Parts {
  keeper: Keeper;
  /** Starts a handler. */
  readonly start: (run: Run) => void;
  /** Called when leases arrive. */
  readonly watch: (leases: readonly HeldLease[]) => void;
  /** Called when a handler was cancelled. */
  readonly look: () => void;
}

/** The state of a worker. */
export class State {
  /** The number of slots for which a claim is not answered yet. */
  reserved = 0;
  readonly held = new Map<string, HeldLease>();
  readonly runs = new Set<Run>();
  readonly gathering: Gathering;
  endings: Ending[] = [];
  /** True while a settling call is in flight. */
  settling = false;
  stuck = 0;
  /** False as soon as the worker stops. */
  takesItems = true;
  /** The time of the monotonic clock until which settlements are sent again. */
  settleUntil = Infinity;
  /** The duration of the last lease, in milliseconds. Before one was seen: that of the option, or 30 s. */
  leaseDuration: number;
  readonly refusedCheckpoints = new RefusedLengths();
  parts!: Parts;
  #listeners = new Set<() => void>();
  #claimPause: NodeJS.Timeout | null = null;
  /** The leases that were lost and are not logged yet, by the text of their line. */
  readonly #losses = new Map<string, HeldLease[]>();

  constructor(
    readonly options: Options,
    readonly events: Events,
  ) {
    this.leaseDuration = options.lease ?? 30_000;
    this.gathering = new Gathering(options.concurrency);
  }

  /** Calls `listener` after each change. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Reports a change of slots, endings or runs. */
  changed(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Waits until a condition is met. Returns false if `limit` milliseconds pass before, or 24.8 days. */
  async waitFor(condition: () => boolean, limit: number): Promise<boolean> {
    if (condition()) return true;
    return new Promise((resolve) => {
      const end = (met: boolean) => {
        clearTimeout(timer);
        this.#listeners.delete(check);
        resolve(met);
      };
      const check = () => {
        if (condition()) end(true);
      };
      const timer = setTimeout(() => {
        end(condition());
      }, Math.min(limit, MAX_DELAY));
      this.#listeners.add(check);
    });
  }

  /** True if more handlers are stuck than the worker replaces. */
  get tooManyStuck(): boolean {
    return this.stuck > this.options.maxStuck;
  }

  /** The slots that neither a handler nor a claim has. A stuck handler that may be replaced has none. */
  get freeSlots(): number {
    const { concurrency, maxStuck } = this.options;
    return concurrency + Math.min(this.stuck, maxStuck) - this.runs.size - this.reserved;
  }

  /** Reserves the free slots for a claim. Returns their number, which is 0 if the worker takes no items now. */
  reserveSlots(): number {
    if (!this.takesItems || this.tooManyStuck || this.#claimPause !== null) return 0;
    // Otherwise a worker whose endings all meet a lock would claim without an end.
    if ([...this.held.values()].filter(({ phase }) => phase === "resending").length >= this.options.concurrency) return 0;
    const slots = Math.min(this.freeSlots, Math.max(Math.floor(MAX_ITEMS_PER_CALL / this.options.slotSize), 1));
    this.reserved += slots;
    return slots;
  }

  /** Claims nothing for some milliseconds, because a claim has failed. */
  pauseClaims(milliseconds: number): void {
    clearTimeout(this.#claimPause ?? undefined);
    // A worker that stops claims nothing anyway, and the timer would keep its process.
    if (!this.takesItems) return;
    this.#claimPause = setTimeout(() => {
      this.#claimPause = null;
      this.changed();
    }, Math.min(milliseconds, MAX_DELAY));
  }

  /** Accepts the leases of a claim, for which `slots` slots were reserved, and starts their handlers. */
  accept(messages: readonly Lease[], slots: number, sentAt: number): void {
    const { slotSize, logger } = this.options;
    const leases: HeldLease[] = [];
    const time = now();
    this.reserved -= slots;
    for (const message of messages) {
      if (this.held.has(message.leaseId)) continue;
      const lease = new HeldLease(message, sentAt, time);
      this.held.set(lease.id, lease);
      this.leaseDuration = lease.duration;
      leases.push(lease);
      this.events.emit("claimed", lease.item);
    }
    if (!this.takesItems) {
      for (const lease of leases) this.settle(released(lease));
      return;
    }
    // The keeper gets the leases before a handler can block the event loop.
    if (leases.length > 0) this.parts.keeper.keep(leases);
    const runs: Run[] = [];
    for (let first = 0; first < leases.length; first += slotSize) {
      runs.push(new Run(leases.slice(first, first + slotSize), logger, this.#storeCheckpoint));
    }
    for (const run of runs) this.runs.add(run);
    this.parts.watch(leases);
    for (const run of runs) this.parts.start(run);
    this.changed();
  }

  /** Records that a handler begins. Returns the leases that it works on, without those that have ended meanwhile. */
  begin(run: Run): HeldLease[] {
    const time = now();
    const isReady = (lease: HeldLease) => lease.phase === "waiting" && this.#isValid(lease, time, this.lostAt(lease));
    const leases = run.leases.every(isReady) ? [...run.leases] : run.leases.filter(isReady);
    for (const lease of leases) {
      lease.phase = "running";
      this.events.emit("started", lease.item);
    }
    run.startedAt = time;
    return leases;
  }

  /** Records that a handler has returned. Endings of leases that have ended meanwhile are ignored. */
  end(run: Run, endings: readonly Ending[]): void {
    this.runs.delete(run);
    if (run.startedAt !== null) this.gathering.note(now() - run.startedAt);
    for (const ending of endings) this.settle(ending);
    if (run.isStuck) this.stuck -= 1;
    this.changed();
  }

  /** Adds an ending to those that the settler takes, unless the lease has ended. */
  settle(ending: Ending): void {
    const { lease } = ending;
    if (lease.phase !== "waiting" && lease.phase !== "running") return;
    lease.isReleased = ending.kind === "release";
    if (!this.#isValid(lease, now(), lease.deadline)) return;
    lease.phase = "done";
    if (ending.kind !== "complete") {
      const { message } = ending;
      if (message.checkpoint !== undefined && this.refusedCheckpoints.has(message.checkpoint.length)) delete message.checkpoint;
    }
    if (this.endings.push(ending) === 1) this.changed();
  }

  /** Takes the endings that one call can carry, in the order in which the handlers ended. No heartbeat is sent for new ones. */
  takeGroup(): Ending[] {
    const group: Ending[] = [];
    let followUps = 0;
    let bytes = 0;
    let taken = 0;
    for (const ending of this.endings) {
      if (ending.lease.phase !== "ended") {
        // One whose row was locked may wait for the lock again, and others would wait with it.
        if (group[0] !== undefined && (ending.lease.phase === "resending") !== (group[0].lease.phase === "resending")) break;
        followUps += ending.kind === "complete" ? ending.message.followUps.length : 0;
        bytes += ending.size;
        if (group.length > 0 && (group.length === MAX_ITEMS_PER_CALL || followUps > MAX_FOLLOW_UPS || bytes > MAX_BYTES_PER_CALL)) break;
        if (ending.lease.phase === "done") {
          ending.lease.phase = "settling";
          this.parts.keeper.forget(ending.lease);
        }
        group.push(ending);
      }
      // Otherwise the lease was lost while the ending waited.
      taken += 1;
    }
    this.endings = this.endings.slice(taken);
    return group;
  }

  /** Records that endings are sent again. From now on heartbeats keep the leases, as it may take a while. One is sent at once. */
  resend(endings: readonly Ending[]): void {
    const resent = endings.map(({ lease }) => lease).filter(({ phase }) => phase === "settling" || phase === "resending");
    for (const lease of resent) lease.phase = "resending";
    // A message to the keeper has one deadline. The leases of one claim or heartbeat have the same.
    const deadlines = [...new Set(resent.map(({ deadline }) => deadline))];
    for (const [index, deadline] of deadlines.entries()) {
      const leases = resent.filter((lease) => lease.deadline === deadline);
      // The last message lets the keeper send one heartbeat for all of them.
      this.parts.keeper.keep(leases, index === deadlines.length - 1);
    }
  }

  /** Forgets a lease that has ended. */
  drop(lease: HeldLease): void {
    // The keeper has forgotten a lease that is being settled.
    if (lease.phase !== "settling") this.parts.keeper.forget(lease);
    lease.phase = "ended";
    this.held.delete(lease.id);
  }

  /** Drops a lease that was lost. Cancels its handler if it has no other lease. */
  lose(lease: HeldLease, reason: string): void {
    this.events.emit("lost", lease.item, { reason: reason || undefined });
    this.noteLoss(lease, reason || "the broker has ended the lease");
    this.drop(lease);
    const { run } = lease;
    if (run !== null && this.runs.has(run) && run.hasEnded) this.cancel(run, new Cancelled("lease_lost", reason));
  }

  /** Notes that another worker may process an item again. The items that a call loses are logged together. */
  noteLoss(lease: HeldLease, reason: string): void {
    const isProcessed = lease.run !== null && !this.runs.has(lease.run) && !lease.isReleased;
    const text = isProcessed ? "processed, but another worker may process it again" : "the lease has ended before the handler";
    const loss = `${text}: ${reason}`;
    if (this.#losses.size === 0) queueMicrotask(this.#logLosses);
    const leases = this.#losses.get(loss);
    if (leases === undefined) this.#losses.set(loss, [lease]);
    else leases.push(lease);
  }

  readonly #logLosses = (): void => {
    const { queue, logger } = this.options;
    const losses = [...this.#losses];
    this.#losses.clear();
    for (const [loss, leases] of losses) {
      const names = leases.slice(0, MAX_NAMED).map(({ item }) => `${item.key} (attempt ${item.attempt})`).join(", ");
      const left = leases.length - MAX_NAMED;
      const others = left > 0 ? ` and ${left} other${left > 1 ? "s" : ""}` : "";
      logger.warn(`queue ${queue}: item${leases.length > 1 ? "s" : ""} ${names}${others}: ${loss}`);
    }
  };

  /** The reason of a lease that the worker gives up by its own clock. */
  get endedReason(): string {
    return this.options.heartbeat ? "no heartbeat was answered in time" : "the lease has ended";
  }

  /** The time at which the worker gives a lease up. Without heartbeats a handler has the whole lease. */
  lostAt(lease: HeldLease): number {
    return this.options.heartbeat ? lease.lostAt : lease.deadline;
  }

  /** Takes no further items. */
  stop(): void {
    this.takesItems = false;
    clearTimeout(this.#claimPause ?? undefined);
    this.releaseWaiting();
    this.changed();
  }

  /** Cancels all handlers, because the worker stops. */
  cancelAll(): void {
    for (const run of this.runs) this.cancel(run, new Cancelled("shutdown", "the worker stops"));
  }

  /** Drops the leases of handlers that have not returned. They expire. Returns true if there are such handlers. */
  leaveHandlers(): boolean {
    for (const run of this.runs) {
      for (const lease of run.leases) if (lease.phase === "waiting" || lease.phase === "running") this.drop(lease);
    }
    return this.runs.size > 0;
  }

  /** Cancels a handler, unless it was cancelled before. */
  cancel(run: Run, reason: Cancelled): void {
    if (!run.cancel(reason)) return;
    const text = reason.cause === "lease_lost" ? reason.message || undefined : undefined;
    for (const { item } of run.leases) this.events.emit("cancelled", item, { cause: reason.cause, reason: text });
    if (reason.cause === "time_limit" && this.options.heartbeat) {
      run.failAt = run.cancelledAt + Math.min(TIME_LIMIT_GRACE, this.options.stuckAfter);
    }
    this.parts.look();
  }

  /** Releases the leases whose handlers have not begun. */
  releaseWaiting(): void {
    for (const lease of [...this.held.values()]) {
      if (lease.phase === "waiting") this.settle(released(lease));
    }
  }

  /** Ends an item in another way, because the broker has refused its ending. The same ending can never succeed. */
  settleInstead(ending: Ending, { field, message: text }: { readonly field: string; readonly message: string }): void {
    const { lease, kind, message } = ending;
    const problem = field === "" ? text : `${field}: ${text}`;
    this.events.emit("refused", lease.item, { reason: problem });
    // The broker stores the reason too, but only the last one of each item.
    this.options.logger.warn(`ending refused: ${kind} item ${lease.item.key}: ${problem}`);
    lease.phase = "running";
    this.parts.keeper.keep([lease]);
    if (kind === "complete") {
      this.settle(failed(lease, `Refused: ${problem}`));
    } else if (message.checkpoint !== undefined && !field.endsWith("delay")) {
      // `settle` leaves it out.
      this.refuseCheckpoint(lease, message.checkpoint.length, text);
      this.settle(ending);
    } else if (kind === "fail" && message.retryDelay !== undefined) {
      delete message.retryDelay;
      this.settle(ending);
    } else if (kind === "release" && message.delay !== undefined) {
      delete message.delay;
      this.settle(ending);
    } else {
      this.drop(lease);
    }
  }

  /** Leaves out a checkpoint of this many bytes, which was refused, from calls to come. */
  refuseCheckpoint(lease: HeldLease, bytes: number, text: string): void {
    if (this.refusedCheckpoints.add(bytes)) this.logRefusedCheckpoint(lease, bytes, text);
  }

  /** Logs that a checkpoint was refused. `lease` is undefined if it has ended meanwhile. */
  logRefusedCheckpoint(lease: HeldLease | undefined, bytes: number, text: string): void {
    const { queue, logger } = this.options;
    const item = lease === undefined ? "an item that has ended" : `item ${lease.item.key}`;
    logger.error(`queue ${queue}: the checkpoint of ${item} is left out, and so are others of ${bytes} bytes or more for 60 s: ${text}`);
  }

  readonly #storeCheckpoint = (lease: HeldLease, checkpoint: Uint8Array): void => {
    if (lease.phase !== "running") return;
    if (checkpoint.length > MAX_CHECKPOINT_BYTES) {
      this.refuseCheckpoint(lease, checkpoint.length, `a queue stores at most ${MAX_CHECKPOINT_BYTES} bytes`);
      return;
    }
    lease.checkpoint = checkpoint;
    this.parts.keeper.checkpoint(lease, checkpoint);
  };

  /** Returns false if a lease has ended, by the local clock at `time`, and drops it. `limit` is the time of its end. */
  #isValid(lease: HeldLease, time: number, limit: number): boolean {
    if (time < limit) return true;
    const before = lease.deadline;
    // The event loop may have been blocked. The keeper's heartbeats of that time are read now.
    this.parts.keeper.drain();
    if (lease.phase === "ended") return false;
    if (time < limit + lease.deadline - before) return true;
    this.lose(lease, this.endedReason);
    return false;
  }
}
