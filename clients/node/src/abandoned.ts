/** Claims whose responses were not received. The broker may have leased items for them. */

import { create } from "@bufbuild/protobuf";

import type { Caller } from "./calls.js";
import { now } from "./clock.js";
import { LeaseBrokerError } from "./errors.js";
import type { Options } from "./options.js";
import { rpcs } from "./transport.js";
import { ReleaseClaimsRequestSchema } from "./v1.js";

/** The milliseconds for which a release is sent again. */
const LIMIT = 2_000;

/** Releases the leases of abandoned claims. */
export class AbandonedClaims {
  readonly #requestIds = new Set<string>();

  constructor(
    private readonly options: Options,
    private readonly caller: Caller,
  ) {}

  /** Adds a claim by its request id. */
  add(requestId: string): void {
    this.#requestIds.add(requestId);
  }

  /**
   * Releases the leases of all added claims. Called before each claim, and twice when the worker stops. The first call of a stop
   * is without `forget`, because it can reach a broker before the claim does. `limit` is the time of the monotonic clock at
   * which it must end.
   */
  async release({ forget, limit = Infinity }: { forget: boolean; limit?: number }): Promise<void> {
    if (this.#requestIds.size === 0) return;
    const { queue, workerId, logger } = this.options;
    const requestIds = [...this.#requestIds];
    const request = create(ReleaseClaimsRequestSchema, { queue, workerId, requestIds });
    const until = Math.min(now() + LIMIT, limit);
    try {
      await this.caller.call(rpcs.releaseClaims, request, { until: () => until });
    } catch (error) {
      const mayRetry = error instanceof LeaseBrokerError && error.temporary;
      if (forget || !mayRetry) logger.warn("leases of a claim without a response may stay leased until they expire", error);
      forget = !mayRetry;
    }
    if (forget) for (const id of requestIds) this.#requestIds.delete(id);
  }
}
