/** The watchdog: acts when the time of a lease or of a handler has passed. */

import { now } from "./clock.js";
import { failed, limitText, released } from "./endings.js";
import { Cancelled } from "./errors.js";
import type { HeldLease, Run } from "./leases.js";
import type { State } from "./state.js";

/** The longest time between two looks, in milliseconds. */
const LONGEST_SLEEP = 1_000;

/** Watches leases and handlers until it is closed. */
export class Watchdog {
  #timer: NodeJS.Timeout | undefined;
  #wakeAt = Infinity;
  #closed = false;

  constructor(private readonly state: State) {}

  /** Watches new leases. */
  readonly watch = (leases: readonly HeldLease[]): void => {
    const { timeLimit } = this.state.options;
    for (const lease of leases) {
      this.#schedule(lease.lastAnswer + lease.duration / 2);
      if (timeLimit !== null) this.#schedule(now() + timeLimit);
    }
  };

  /** Looks at all handlers again soon. */
  readonly look = (): void => {
    this.#schedule(now());
  };

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #schedule(time: number): void {
    if (time >= this.#wakeAt || this.#closed) return;
    this.#wakeAt = time;
    clearTimeout(this.#timer);
    const wait = Math.min(Math.max(Math.ceil(time - now()), 1), LONGEST_SLEEP);
    this.#timer = setTimeout(this.wake, wait);
  }

  /** Acts on the times that have come. Returns the time of the next look. */
  readonly wake = (): number => {
    this.#wakeAt = Infinity;
    // If the event loop was blocked, heartbeats have succeeded meanwhile.
    this.state.parts.keeper.drain();
    const time = now();
    let next = Infinity;
    for (const lease of [...this.state.held.values()]) next = Math.min(next, this.#watchLease(lease, time));
    for (const run of [...this.state.runs]) next = Math.min(next, this.#watchRun(run, time));
    if (next < Infinity) this.#schedule(next);
    return next;
  };

  /** Acts on the time of a lease. Returns the time of the next look. */
  #watchLease(lease: HeldLease, time: number): number {
    const { state } = this;
    if (lease.phase === "settling" || lease.phase === "resending") return Infinity;
    const lostAt = state.lostAt(lease);
    if (time >= lostAt) {
      state.lose(lease, state.endedReason);
      return Infinity;
    }
    const halfAt = lease.lastAnswer + lease.duration / 2;
    if (time < halfAt) return Math.min(halfAt, lostAt);
    if (lease.phase === "waiting") {
      state.settle(released(lease));
    } else if (!state.options.heartbeat) {
      if (lease.phase === "running" && lease.run !== null) state.cancel(lease.run, new Cancelled("time_limit", limitText(null)));
    } else if (!lease.missed) {
      lease.missed = true;
      state.events.emit("heartbeat_missed", lease.item);
    }
    return lostAt;
  }

  /** Acts on the time of a handler. Returns the time of the next look. */
  #watchRun(run: Run, time: number): number {
    const { state } = this;
    const { timeLimit, stuckAfter } = state.options;
    if (run.startedAt === null || run.isStuck) return Infinity;
    if (run.cancelled === null) {
      if (timeLimit === null) return Infinity;
      if (time < run.startedAt + timeLimit) return run.startedAt + timeLimit;
      state.cancel(run, new Cancelled("time_limit", limitText(timeLimit)));
    }
    if (time >= run.failAt) {
      run.failAt = Infinity;
      for (const lease of run.leases) state.settle(failed(lease, limitText(timeLimit)));
    }
    const stuckAt = run.cancelledAt + stuckAfter;
    if (time < stuckAt) return Math.min(run.failAt, stuckAt);
    this.#giveUp(run);
    return Infinity;
  }

  /** Drops the leases of a handler that does not stop, and replaces its slot. */
  #giveUp(run: Run): void {
    const { state } = this;
    run.isStuck = true;
    state.stuck += 1;
    for (const lease of run.leases) {
      if (lease.phase === "waiting" || lease.phase === "running") state.drop(lease);
      state.events.emit("stuck", lease.item, { cause: run.cancelled?.cause });
    }
    const keys = run.leases.map((lease) => lease.item.key).join(", ");
    state.options.logger.error(`the handler of ${keys} does not stop (${run.cancelled?.message ?? ""})`);
    state.changed();
  }
}
