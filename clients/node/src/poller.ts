/** The poller: claims items for free slots with calls that wait for items. */

import { randomUUID } from "node:crypto";

import { create } from "@bufbuild/protobuf";

import type { AbandonedClaims } from "./abandoned.js";
import { Aborted, type Caller, hasChangedNothing, pause } from "./calls.js";
import { durationMessage, durationMilliseconds, now } from "./clock.js";
import type { CallHealth } from "./health.js";
import type { State } from "./state.js";
import { rpcs } from "./transport.js";
import { ClaimBatchRequestSchema, HeldBack, type Lease } from "./v1.js";

/** The largest delay of the first claim, in milliseconds. A fleet that starts does not ask at the same moment. */
const MAX_START_DELAY = 250;
/** The pause after an empty response that came early, in milliseconds. A broker that stops answers waiting claims so. */
const PAUSE_AFTER_EARLY_ANSWER = 100;
/** The longest pause before the next claim that a broker can ask for, in milliseconds. Limits of a queue can change. */
const LONGEST_PAUSE = 60_000;
/** The size of a response that the worker accepts. The service has a lower limit. */
export const MAX_BYTES = 1 << 30;

/** Claims items while slots are free, nothing has to be settled, and the worker does not stop. */
export class Poller {
  readonly #abort = new AbortController();
  #busy = true;
  #work: Promise<void> = Promise.resolve();

  constructor(
    private readonly state: State,
    private readonly caller: Caller,
    private readonly abandoned: AbandonedClaims,
    private readonly health: CallHealth,
    private readonly onFatal: (error: unknown) => void,
  ) {}

  /** Claims after `delay` milliseconds. */
  start(delay = Math.random() * MAX_START_DELAY): void {
    this.state.onChange(this.#consider);
    this.#work = this.#rest(delay);
  }

  /** Ends the claim in flight, and claims no more. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#work;
  }

  readonly #consider = (): void => {
    // Endings are settled first: the same call claims the next items.
    if (this.#busy || this.state.settling || this.state.endings.length > 0) return;
    const slots = this.state.reserveSlots();
    if (slots === 0) return;
    this.#busy = true;
    this.#work = this.#claim(slots);
  };

  async #claim(slots: number): Promise<void> {
    const { state, caller } = this;
    const { queue, workerId, slotSize, lease, groups } = state.options;
    await this.abandoned.release({ forget: true });
    // Without an answer before, a claim that waits for items looks like a broker that does not answer.
    const wait = this.health.answers ? state.options.wait : 0;
    const request = create(ClaimBatchRequestSchema, {
      queue,
      workerId,
      maxItems: slots * slotSize,
      waitTimeout: durationMessage(wait),
      requestId: randomUUID(),
      maxBytes: MAX_BYTES,
      groups: [...groups],
    });
    if (lease !== null) request.leaseDuration = durationMessage(lease);
    const begun = now();
    let leases: Lease[] = [];
    let sentAt = begun;
    let rest = 0;
    try {
      const answer = await caller.call(rpcs.claimBatch, request, {
        attemptTimeout: wait + 5_000,
        signal: this.#abort.signal,
        beforeRetry: () => delete request.waitTimeout,
      });
      ({ leases } = answer.message);
      ({ sentAt } = answer);
      const isEarly = leases.length === 0 && (now() - begun < wait / 2 || state.options.wait < PAUSE_AFTER_EARLY_ANSWER);
      const { retryAfter } = answer.message;
      if (isEarly || answer.message.heldBack === HeldBack.STOPPING) rest = PAUSE_AFTER_EARLY_ANSWER * (0.5 + Math.random());
      // A limit of the queue gives no item before.
      if (leases.length === 0 && retryAfter !== undefined) rest = Math.min(durationMilliseconds(retryAfter), LONGEST_PAUSE);
    } catch (error) {
      if (!hasChangedNothing(error)) this.abandoned.add(request.requestId);
      if (!(error instanceof Aborted)) this.onFatal(error);
      rest = Infinity;
    }
    // The pause begins before the leases are accepted, because that makes this object consider the next claim.
    this.#busy = rest > 0;
    state.accept(leases, slots, sentAt);
    if (rest > 0) await this.#rest(rest);
    else this.#consider();
  }

  async #rest(milliseconds: number): Promise<void> {
    if (milliseconds === Infinity) return;
    try {
      await pause(milliseconds, this.#abort.signal);
    } catch {
      return;
    }
    this.#busy = false;
    this.#consider();
  }
}
