/** Sends heartbeats for leases. It runs in the keeper's worker thread, or on the event loop. */

import { create } from "@bufbuild/protobuf";
import { type ServiceError, status } from "@grpc/grpc-js";

import { checkCount, noteFailure, unavailable } from "./calls.js";
import { RefusedLengths } from "./checkpoints.js";
import { durationMilliseconds, MAX_DELAY, now } from "./clock.js";
import type { Credentials } from "./credentials.js";
import { mayRetry, readFailure } from "./details.js";
import { LeaseBrokerError } from "./errors.js";
import type { FailedAttempt } from "./health.js";
import { MAX_BYTES_PER_CALL, MAX_ITEMS_PER_CALL } from "./options.js";
import { type Broker, rpcs, Transport } from "./transport.js";
import { HeartbeatRequestSchema, type HeartbeatResponse, Outcome, RefusalReason, RenewalSchema } from "./v1.js";

/** The shortest time between two heartbeats, in milliseconds. */
const MIN_PERIOD = 250;
/** The bytes that a renewal takes beside its lease id and its checkpoint, at most. */
const PLAIN_SIZE = 16;

/** A lease as the keeper knows it. Times are milliseconds of the monotonic clock. */
export interface KeptLease {
  readonly id: string;
  duration: number;
  deadline: number;
  /** As in `HeldLease`. */
  needsBeat: boolean;
}

/**
 * A message to the keeper. There is one for the leases of each call that have the same deadline, so its form matters: a few texts
 * and numbers are copied between threads ten times faster than an object for each lease.
 */
export type Command =
  | {
      readonly type: "update";
      /** The ids of leases to keep, separated by spaces. */
      readonly keep: string;
      /** The shortest duration and the earliest deadline of these leases. */
      readonly duration: number;
      readonly deadline: number;
      /** True: their first heartbeat is sent immediately, because their deadline is not known for certain. */
      readonly needsBeat: boolean;
      /** True: the same, because the call that settles them is sent again. */
      readonly atOnce: boolean;
      /** The ids of leases to forget, separated by spaces. */
      readonly forget: string;
    }
  | { readonly type: "checkpoint"; readonly id: string; readonly bytes: Uint8Array }
  | { readonly type: "token"; readonly token: string };

/** The result of a heartbeat for one lease. */
export interface Renewed {
  readonly id: string;
  /** The milliseconds that the lease had left. Null: the lease is lost. */
  readonly timeLeft: number | null;
  /** The reason given to CancelLeases, or an empty text. */
  readonly reason: string;
}

/** A message from the keeper. */
export type Report =
  | { readonly type: "ready" }
  | { readonly type: "beat"; readonly sentAt: number; readonly results: Renewed[] }
  /** `isRefused`: the credentials do not allow heartbeats. */
  | { readonly type: "failed"; readonly failure: FailedAttempt; readonly isRefused: boolean }
  | { readonly type: "unauthenticated" }
  | { readonly type: "checkpoint_refused"; readonly id: string; readonly bytes: number; readonly text: string };

/** A message to the keeper of a queue. A token is for all of them. */
export interface QueueCommand {
  readonly queue: string;
  readonly command: Command;
}

/** A message from the keeper of a queue. */
export interface QueueReport {
  readonly queue: string;
  readonly report: Report;
}

/** What the keeper needs to connect. It can be sent to another thread. */
export interface KeeperOptions {
  readonly address: string | readonly string[];
  readonly credentials: Credentials;
  /** The memory of the `RefusedLengths` of each queue. */
  readonly refusedCheckpoints: ReadonlyMap<string, SharedArrayBuffer>;
}

/** Sends the heartbeats of all queues over one connection. */
export class KeeperHost {
  readonly #connection: { readonly transport: Pick<Transport, "route" | "note">; token: string | null };
  readonly #transport: Transport;
  readonly #queues = new Map<string, Heartbeats>();

  constructor(
    private readonly options: KeeperOptions,
    private readonly report: (report: QueueReport) => void,
  ) {
    this.#transport = new Transport(options.address, options.credentials);
    // The first heartbeat must not wait for the connection.
    this.#transport.connect();
    this.#connection = { transport: this.#transport, token: null };
  }

  handle({ queue, command }: QueueCommand): void {
    if (command.type === "token") {
      this.#connection.token = command.token;
      return;
    }
    let heartbeats = this.#queues.get(queue);
    if (heartbeats === undefined) {
      const refused = new RefusedLengths(this.options.refusedCheckpoints.get(queue));
      heartbeats = new Heartbeats(queue, this.#connection, refused, (report) => {
        this.report({ queue, report });
      });
      this.#queues.set(queue, heartbeats);
    }
    heartbeats.handle(command);
  }

  close(): void {
    for (const heartbeats of this.#queues.values()) heartbeats.close();
    this.#transport.close();
  }
}

/** Keeps the leases of a queue alive. */
export class Heartbeats {
  readonly #leases = new Map<string, KeptLease>();
  /** Checkpoints that no heartbeat has stored yet, by lease id. */
  readonly #checkpoints = new Map<string, Uint8Array>();
  #timer: NodeJS.Timeout | undefined;
  #nextBeat = Infinity;
  #closed = false;

  constructor(
    private readonly queue: string,
    private readonly connection: { readonly transport: Pick<Transport, "route" | "note">; readonly token: string | null },
    private readonly refusedCheckpoints: RefusedLengths,
    private readonly report: (report: Report) => void,
  ) {}

  /** The time of the next heartbeat. */
  get nextBeat(): number {
    return this.#nextBeat;
  }

  handle(command: Exclude<Command, { type: "token" }>): void {
    switch (command.type) {
      case "update":
        for (const id of words(command.forget)) this.#forget(id);
        this.#keep(command);
        break;
      case "checkpoint":
        if (this.#leases.has(command.id)) this.#checkpoints.set(command.id, command.bytes);
    }
  }

  #keep({ keep, duration, deadline, needsBeat, atOnce }: Extract<Command, { type: "update" }>): void {
    if (keep === "") return;
    for (const id of words(keep)) this.#leases.set(id, { id, duration, deadline, needsBeat });
    this.#schedule(needsBeat || atOnce ? now() : now() + periodOf(duration));
  }

  #forget(id: string): void {
    this.#leases.delete(id);
    this.#checkpoints.delete(id);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #schedule(time: number): void {
    if (time >= this.#nextBeat || this.#closed) return;
    this.#nextBeat = time;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.beat, Math.min(Math.max(time - now(), 0), MAX_DELAY));
  }

  /** Sends the heartbeats that are due. */
  readonly beat = (): void => {
    const time = now();
    if (time < this.#nextBeat) {
      // A timer can be early by a part of a millisecond, or have the longest delay that there is.
      const due = this.#nextBeat;
      this.#nextBeat = Infinity;
      this.#schedule(due);
      return;
    }
    this.#nextBeat = Infinity;
    const leases: KeptLease[] = [];
    for (const lease of this.#leases.values()) {
      // The worker gives a lease up at this time, and then nothing may be sent for it.
      if (time >= lease.deadline - lease.duration / 10) {
        this.#forget(lease.id);
      } else {
        leases.push(lease);
      }
    }
    if (leases.length === 0) return;
    const period = leases.reduce((shortest, lease) => Math.min(shortest, periodOf(lease.duration)), Infinity);
    this.#schedule(time + period);
    for (const group of this.#groups(leases)) void this.#send(group, period);
  };

  /** Returns the leases in groups that one call can carry. */
  #groups(leases: readonly KeptLease[]): KeptLease[][] {
    let group: KeptLease[] = [];
    let bytes = 0;
    const groups = [group];
    for (const lease of leases) {
      const size = lease.id.length + (this.#checkpoints.get(lease.id)?.length ?? 0) + PLAIN_SIZE;
      if (group.length > 0 && (group.length === MAX_ITEMS_PER_CALL || bytes + size > MAX_BYTES_PER_CALL)) {
        group = [];
        bytes = 0;
        groups.push(group);
      }
      group.push(lease);
      bytes += size;
    }
    return groups;
  }

  async #send(leases: readonly KeptLease[], period: number): Promise<void> {
    const checkpoints = leases.map((lease) => {
      const checkpoint = this.#checkpoints.get(lease.id);
      return checkpoint !== undefined && this.refusedCheckpoints.has(checkpoint.length) ? undefined : checkpoint;
    });
    const renewals = leases.map((lease, index) => {
      const checkpoint = checkpoints[index];
      return create(RenewalSchema, checkpoint === undefined ? { leaseId: lease.id } : { leaseId: lease.id, checkpoint });
    });
    // Without a duration each lease lasts as long as it was claimed for.
    const request = create(HeartbeatRequestSchema, { queue: this.queue, renewals });
    const timeout = Math.min(...leases.map((lease) => lease.duration)) / 3;
    const sentAt = now();
    const { transport, token } = this.connection;
    let broker: Broker | null = null;
    let response: HeartbeatResponse;
    try {
      broker = await transport.route();
      response = await broker.send(rpcs.heartbeat, request, timeout, token).response;
      checkCount("Heartbeat", response.results, leases);
      transport.note(broker, { failed: false });
    } catch (error) {
      if (!this.#closed) this.#readError(period, error, broker);
      return;
    }
    const refused = this.#readResponse(leases, checkpoints, sentAt, period, response);
    if (refused.length > 0) await this.#send(refused, period);
  }

  /** Returns the leases that were not extended because of their checkpoints. */
  #readResponse(
    leases: readonly KeptLease[],
    checkpoints: readonly (Uint8Array | undefined)[],
    sentAt: number,
    period: number,
    response: HeartbeatResponse,
  ): KeptLease[] {
    const results: Renewed[] = [];
    const refused: KeptLease[] = [];
    for (const [index, lease] of leases.entries()) {
      const result = response.results[index];
      if (result === undefined) continue;
      const { id } = lease;
      const checkpoint = checkpoints[index];
      if (result.outcome === Outcome.REFUSED && (checkpoint === undefined || result.refusal?.reason === RefusalReason.LOCKED)) {
        // The lease is still held, and its checkpoint is sent again.
        this.#schedule(now() + period / 4);
        continue;
      }
      if (result.outcome === Outcome.APPLIED) {
        // A later checkpoint than the one in this call stays for the next call.
        if (checkpoint === this.#checkpoints.get(id)) this.#checkpoints.delete(id);
        const timeLeft = durationMilliseconds(result.timeLeft);
        lease.duration = Math.max(lease.duration, timeLeft);
        lease.deadline = lease.needsBeat ? sentAt + timeLeft : Math.max(lease.deadline, sentAt + timeLeft);
        lease.needsBeat = false;
        results.push({ id, timeLeft, reason: "" });
      } else if (result.outcome === Outcome.REFUSED && checkpoint !== undefined) {
        // The lease is still held.
        const text = result.refusal?.message ?? "";
        const bytes = checkpoint.length;
        if (this.refusedCheckpoints.add(bytes)) this.report({ type: "checkpoint_refused", id, bytes, text });
        if (this.#leases.get(id) === lease) refused.push(lease);
      } else {
        // A settling lease that is kept again has a new object, and this result may be that of its settlement.
        if (this.#leases.get(id) === lease) this.#forget(id);
        results.push({ id, timeLeft: null, reason: result.cancelReason });
      }
    }
    this.report({ type: "beat", sentAt, results });
    return refused;
  }

  #readError(period: number, error: unknown, broker: Broker | null): void {
    let failure: FailedAttempt;
    let isRefused = false;
    if (error instanceof LeaseBrokerError) {
      failure = { code: status.INTERNAL, reason: null, message: error.details };
    } else if (broker === null) {
      failure = unavailable(error);
    } else {
      const read = readFailure(error as ServiceError);
      noteFailure(this.connection.transport, broker, read);
      failure = read;
      isRefused = (read.code === status.UNAUTHENTICATED || read.code === status.PERMISSION_DENIED) && !mayRetry(read);
    }
    this.#schedule(now() + period / 4);
    const { code, reason, message } = failure;
    this.report({ type: "failed", failure: { code, reason, message }, isRefused });
    if (code === status.UNAUTHENTICATED) this.report({ type: "unauthenticated" });
  }
}

/** Returns the parts of a text that are separated by spaces. */
function words(text: string): string[] {
  return text === "" ? [] : text.split(" ");
}

/** Returns the milliseconds between two heartbeats of a lease of this duration. */
function periodOf(duration: number): number {
  return Math.max(duration / 3, MIN_PERIOD);
}
