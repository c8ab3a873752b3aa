/** The settler: sends endings to the broker, in groups, and claims the next items with the same call. */

import { randomUUID } from "node:crypto";

import { create } from "@bufbuild/protobuf";

import type { AbandonedClaims } from "./abandoned.js";
import { type Answer, ATTEMPT_TIMEOUT, type CallOptions, type Caller, checkCount, hasChangedNothing } from "./calls.js";
import { durationMessage, now } from "./clock.js";
import { failureOfNext } from "./details.js";
import type { Ending } from "./endings.js";
import { LeaseBrokerError } from "./errors.js";
import type { EventName } from "./events.js";
import { MAX_BYTES } from "./poller.js";
import type { State } from "./state.js";
import { rpcs } from "./transport.js";
import {
  type CallError,
  type ClaimBatchResponse,
  CompleteRequestSchema,
  FailRequestSchema,
  type Lease,
  type NextClaim,
  NextClaimSchema,
  Outcome,
  RefusalReason,
  ReleaseRequestSchema,
  type SettleResult,
} from "./v1.js";
import { Way } from "./way.js";

const EVENTS: Record<Ending["kind"], EventName> = { complete: "completed", fail: "failed", release: "released" };

type Kind = Ending["kind"];
type EndingOf<K extends Kind> = Extract<Ending, { kind: K }>;

/** The response to a settling call. */
interface Settled {
  readonly results: readonly SettleResult[];
  readonly next?: ClaimBatchResponse | undefined;
  readonly nextError?: CallError | undefined;
}

/** Settles endings as they arrive. */
export class Settler {
  #scheduled = false;

  constructor(
    private readonly state: State,
    private readonly caller: Caller,
    private readonly abandoned: AbandonedClaims,
    private readonly onFatal: (error: unknown) => void,
  ) {}

  /** Settles from now on. */
  start(): void {
    this.state.onChange(this.#consider);
  }

  readonly #consider = (): void => {
    if (this.#scheduled || this.state.settling || this.state.endings.length === 0) return;
    this.#scheduled = true;
    const settle = (): void => {
      this.#scheduled = false;
      void this.#settleGroup();
    };
    // Handlers that end together share a call.
    const wait = this.state.gathering.wait(this.state.runs.size);
    if (wait > 0) setTimeout(settle, wait);
    else setImmediate(settle);
  };

  async #settleGroup(): Promise<void> {
    const { state } = this;
    const group = this.state.takeGroup();
    if (group.length === 0) {
      state.changed();
      return;
    }
    state.settling = true;
    let slots = state.reserveSlots();
    const calls: Promise<void>[] = [];
    for (const kind of ["complete", "fail", "release"] as const) {
      const part = group.filter((ending) => ending.kind === kind);
      if (part.length === 0) continue;
      // A release has no `next`.
      const nextSlots = kind === "release" ? 0 : slots;
      slots -= nextSlots;
      calls.push(this.#send(kind, part, nextSlots));
    }
    state.reserved -= slots;
    await Promise.all(calls);
    state.settling = false;
    state.changed();
  }

  /** Queues endings again whose rows are locked, after a pause. Other endings do not wait for them. */
  async #requeue(locked: readonly Ending[]): Promise<void> {
    const { state } = this;
    const [first] = locked;
    if (first === undefined) return;
    state.resend(locked);
    const tries = 1 + Math.max(...locked.map(({ lease }) => lease.tries));
    for (const { lease } of locked) lease.tries = tries;
    try {
      await this.caller.waitAfterLock(rpcs[first.kind].name, tries, this.#untilOf(locked), attemptTimeout(locked));
      state.endings.push(...locked);
    } catch (error) {
      this.#endUnknown(locked, error);
    }
    state.changed();
  }

  /** Returns the time until which the endings are sent. */
  #untilOf(group: readonly Ending[]): number {
    const { state } = this;
    const lastDeadline = () => Math.max(...group.map(({ lease }) => lease.deadline));
    // If the event loop was blocked, heartbeats have succeeded meanwhile.
    if (now() >= lastDeadline()) state.parts.keeper.drain();
    return Math.min(lastDeadline(), state.settleUntil);
  }

  /** Sends the endings of one kind until the last of their leases ends. Claims items for `slots` slots. */
  async #send<K extends Kind>(kind: K, group: readonly EndingOf<K>[], slots: number, partOf?: Way): Promise<void> {
    const { state } = this;
    const leases = group.map((ending) => ending.lease);
    const next = slots > 0 ? this.#nextClaim(slots) : null;
    const { keeper } = state.parts;
    const [first] = leases;
    const way = partOf !== undefined && first !== undefined ? partOf.of(first) : new Way(leases, keeper);
    const options: CallOptions = {
      attemptTimeout: attemptTimeout(group),
      until: () => this.#untilOf(group),
      beforeRetry: () => {
        state.resend(group);
      },
      givesUp: way.note,
    };
    let nextLeases: Lease[] = [];
    let sentAt = now();
    try {
      const answer = await this.#call(kind, group, next, options);
      sentAt = answer.sentAt;
      checkCount(rpcs[kind].name, answer.message.results, group);
      this.#readResults(group, answer);
      if (next !== null) nextLeases = this.#readNext(next, answer.message);
    } catch (error) {
      if (next !== null && !hasChangedNothing(error)) this.abandoned.add(next.requestId);
      await this.#readError(kind, group, error, way);
    }
    if (slots > 0) state.accept(nextLeases, slots, sentAt);
  }

  /** Returns the leases of the claim. If it has failed, the next claim waits as after an error of its own. */
  #readNext(next: NextClaim, { next: response, nextError }: Settled): Lease[] {
    const { state } = this;
    if (nextError !== undefined) {
      const failure = failureOfNext(nextError);
      if (failure.applied === "unknown") this.abandoned.add(next.requestId);
      try {
        state.pauseClaims(this.caller.pauseAfterNext(failure));
      } catch (error) {
        this.onFatal(error);
      }
    }
    return response?.leases ?? [];
  }

  #nextClaim(slots: number): NextClaim {
    const { workerId, slotSize, lease, groups } = this.state.options;
    const next = create(NextClaimSchema, {
      workerId,
      maxItems: slots * slotSize,
      requestId: randomUUID(),
      maxBytes: MAX_BYTES,
      groups: [...groups],
    });
    if (lease !== null) next.leaseDuration = durationMessage(lease);
    return next;
  }

  #call(kind: Kind, group: readonly Ending[], next: NextClaim | null, options: CallOptions): Promise<Answer<Settled>> {
    const { caller } = this;
    const { queue } = this.state.options;
    const messages = group.map((ending) => ending.message);
    const claim = next === null ? {} : { next };
    switch (kind) {
      case "complete": {
        const completions = messages as EndingOf<"complete">["message"][];
        const request = create(CompleteRequestSchema, { queue, completions, ...claim });
        return caller.call(rpcs.complete, request, options);
      }
      case "fail": {
        const failures = messages as EndingOf<"fail">["message"][];
        const request = create(FailRequestSchema, { queue, failures, ...claim });
        return caller.call(rpcs.fail, request, options);
      }
      case "release": {
        const releases = messages as EndingOf<"release">["message"][];
        return caller.call(rpcs.release, create(ReleaseRequestSchema, { queue, releases }), options);
      }
    }
  }

  /** Notes the outcome of each ending. */
  #readResults(group: readonly Ending[], answer: Answer<Settled>): void {
    const { state } = this;
    const locked: Ending[] = [];
    for (const [index, ending] of group.entries()) {
      const { lease, kind } = ending;
      const result = answer.message.results[index];
      switch (result?.outcome) {
        case Outcome.APPLIED:
          this.#end(ending, EVENTS[kind]);
          break;
        case Outcome.REFUSED:
          if (result.refusal?.reason === RefusalReason.LOCKED) locked.push(ending);
          else state.settleInstead(ending, result.refusal ?? { field: "", message: "" });
          break;
        case Outcome.GONE:
          // The row does not exist. An earlier attempt of this call has removed it, if the lease was valid then.
          this.#end(ending, answer.attempts > 1 && answer.firstSentAt < lease.deadline ? "completed" : "unknown");
          break;
        default:
          this.#end(ending, "lost");
      }
    }
    void this.#requeue(locked);
  }

  /** Acts on the error of a call. */
  async #readError<K extends Kind>(kind: K, group: readonly EndingOf<K>[], error: unknown, way: Way): Promise<void> {
    const { state } = this;
    if (error instanceof LeaseBrokerError && isRefusal(error) && error.field?.startsWith("next")) {
      // The claim is refused and not the endings. The poller's next claim meets the error itself.
      await this.#send(kind, group, 0);
      return;
    }
    if (error instanceof LeaseBrokerError && (way.refuses || isRefusal(error))) {
      const [only] = group;
      if (error.reason === null) {
        const text = "a settlement is refused on the way to the broker";
        state.options.logger.warn(`${text}: ${group.length} items are settled one by one, or fail`, error);
      }
      // One ending of the group is refused, and the broker has applied none of them.
      if (group.length > 1) for (const ending of group) await this.#send(kind, [ending], 0, way);
      else if (only !== undefined) state.settleInstead(only, { field: "", message: error.details });
      return;
    }
    this.#endUnknown(group, error);
    if (!(error instanceof LeaseBrokerError) || isFatal(error)) this.onFatal(error);
  }

  /** Gives up endings that will get no answer. */
  #endUnknown(group: readonly Ending[], error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    for (const ending of group) this.#end(ending, "unknown", text);
  }

  #end(ending: Ending, name: EventName, error?: string): void {
    const text = name === "failed" && ending.kind === "fail" ? ending.message.errorMessage : error;
    this.state.events.emit(name, ending.lease.item, text === undefined ? {} : { error: text });
    if (name === "lost") this.state.noteLoss(ending.lease, "the broker has ended the lease");
    else if (name === "unknown") this.state.noteLoss(ending.lease, error ?? "the row is gone");
    this.state.drop(ending.lease);
  }
}

/** Returns the milliseconds of an attempt, at least a second. One whose response is lost leaves time for another one. */
export function attemptTimeout(group: readonly Ending[]): number {
  return Math.min(ATTEMPT_TIMEOUT, ...group.map(({ lease }) => Math.max(lease.duration / 2, 1_000)));
}

/** Returns true for an error about a field or the size of the request. It comes from the broker or from a proxy. */
function isRefusal({ code, temporary }: LeaseBrokerError): boolean {
  return !temporary && (code === "INVALID_ARGUMENT" || code === "RESOURCE_EXHAUSTED");
}

/** Returns true for an error that every further call has too. */
function isFatal({ code, temporary }: LeaseBrokerError): boolean {
  return !temporary && ["UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"].includes(code);
}
