/** The loop of bare calls that throughput is compared with: claim n items, complete n with the claim of the next n. */

import { randomUUID } from "node:crypto";

import { create } from "@bufbuild/protobuf";

import { Caller } from "../src/calls.js";
import { durationMessage, now } from "../src/clock.js";
import { plaintext } from "../src/credentials.js";
import { rpcs, Transport } from "../src/transport.js";
import { ClaimBatchRequestSchema, CompleteRequestSchema } from "../src/v1.js";
import type { StartOptions } from "./program.js";
import { say } from "./output.js";
import { Speed } from "./speed.js";

export async function runRaw(options: StartOptions): Promise<boolean> {
  const { address, queue, concurrency = 1, worker_id: workerId = "raw" } = options;
  const transport = new Transport(address, plaintext());
  const caller = new Caller(transport, null);
  const claim = { workerId, maxItems: concurrency };
  say({ ev: "ready", at_ms: now() });
  const speed = new Speed(options);
  let ended = false;
  while (!ended) {
    const request = create(ClaimBatchRequestSchema, { ...claim, queue, waitTimeout: durationMessage(1_000), requestId: randomUUID() });
    let { leases } = (await caller.call(rpcs.claimBatch, request)).message;
    while (leases.length > 0 && !ended) {
      const request = create(CompleteRequestSchema, {
        queue,
        completions: leases.map((lease) => ({ leaseId: lease.leaseId })),
        next: { ...claim, requestId: randomUUID() },
      });
      const { message } = await caller.call(rpcs.complete, request);
      ended = speed.add(leases.length);
      leases = message.next?.leases ?? [];
    }
  }
  transport.close();
  return true;
}
