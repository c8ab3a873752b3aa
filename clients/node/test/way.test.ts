/** The judge of settlements that are refused on their way. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import { durationMessage, setClock } from "../src/clock.js";
import type { Failure } from "../src/details.js";
import { HeldLease } from "../src/leases.js";
import { LeaseSchema } from "../src/v1.js";
import { Way } from "../src/way.js";

const failure = (code: status): Failure => ({ code, reason: null, message: "", pushback: null, field: null, applied: "unknown" });

/**
 * Judges attempts at these seconds. `answered` has a plus for each attempt after which a heartbeat is answered. If they are refused,
 * the first attempt of a part follows.
 */
function judge(code: status, answered: string, seconds: readonly number[]): boolean[] {
  let time = 0;
  setClock(() => time);
  const message = create(LeaseSchema, { leaseId: "a", item: { key: "a" }, timeLeft: durationMessage(60_000) });
  const lease = new HeldLease(message, -1, 0);
  const way = new Way([lease], { drain: () => undefined });
  const judged = seconds.map((second, index) => {
    time = second * 1_000;
    const refuses = way.note(failure(code));
    if (answered[index] === "+") lease.lastAnswer = time;
    return refuses;
  });
  return way.refuses ? [...judged, way.of(lease).note(failure(code))] : judged;
}

test("the way refuses if heartbeats are answered meanwhile", () => {
  const { INTERNAL, UNAVAILABLE } = status;
  assert.deepEqual(judge(INTERNAL, "++++", [0, 1, 10, 11]).slice(0, 4), [false, false, false, true]);
  const others = [
    judge(INTERNAL, "---", [0, 1, 60]),
    judge(INTERNAL, "-+++", [0, 60, 61, 70]),
    judge(INTERNAL, "+-++", [0, 1, 9, 12]),
    judge(UNAVAILABLE, "+++", [0, 1, 60]),
  ];
  assert.ok(!others.flat().includes(true));
});

test("a part of a refused settlement is refused at once", () => {
  // No heartbeat is sent between the last attempt of the whole and the first one of a part.
  assert.deepEqual(judge(status.INTERNAL, "++-", [0, 1, 11]), [false, false, true, true]);
});
