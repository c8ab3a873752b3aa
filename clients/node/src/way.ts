/** Notices that a proxy refuses a settlement on its way. Heartbeats keep the leases, so no deadline would end it. */

import { status } from "@grpc/grpc-js";

import { now } from "./clock.js";
import type { Failure } from "./details.js";
import type { Keeper } from "./keeper.js";
import type { HeldLease } from "./leases.js";

/** The milliseconds for which a settlement is sent again that the way to the broker refuses. */
const PATIENCE = 10_000;
const CODES: readonly status[] = [status.UNKNOWN, status.INTERNAL, status.CANCELLED];

/** Judges the attempts of a settlement. */
export class Way {
  /** True if the settlement is not worth another attempt. */
  refuses = false;
  /** The time of the last retry. A heartbeat follows each. */
  #retriedAt = Infinity;
  /** The time of the first refusal since the broker has answered heartbeats. */
  #refusingSince: number | null = null;

  constructor(
    private readonly leases: readonly HeldLease[],
    private readonly keeper: Pick<Keeper, "drain">,
  ) {}

  /** Returns the judge of a part. It has no patience of its own: the group was sent for long enough. */
  of(lease: HeldLease): Way {
    const part = new Way([lease], this.keeper);
    // No heartbeat was sent since the last attempt of the group.
    part.#retriedAt = this.#refusingSince ?? Infinity;
    part.#refusingSince = this.#refusingSince;
    return part;
  }

  /** Takes the failure of an attempt. Returns true if the settlement is not worth another one. */
  readonly note = ({ code, reason, pushback }: Failure): boolean => {
    // The answers to heartbeats may wait for the event loop.
    this.keeper.drain();
    const time = now();
    // An error of something between this program and the broker that does answer.
    const isOfTheWay = CODES.includes(code) && reason === null && pushback === null;
    // The broker has answered a heartbeat that was sent after the last retry.
    const isOpen = this.leases.some(({ lastAnswer }) => lastAnswer >= this.#retriedAt);
    if (!isOfTheWay || !isOpen) this.#refusingSince = null;
    else this.#refusingSince ??= time;
    this.refuses = this.#refusingSince !== null && time - this.#refusingSince >= PATIENCE;
    this.#retriedAt = time;
    return this.refuses;
  };
}
