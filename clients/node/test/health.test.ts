/** The warnings of a worker while no broker answers. */

import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { status } from "@grpc/grpc-js";

import { Events } from "../src/events.js";
import { CallHealth } from "../src/health.js";
import { type Logger, Worker } from "../src/index.js";
import { checkOptions, type QueueOptions } from "../src/options.js";
import { State } from "../src/state.js";
import type { ClaimBatchRequest } from "../src/v1.js";
import { startServer } from "./support/scripted_server.js";
import { quiet } from "./support/work.js";

const empty = { message: {} };

/** Collects the warnings of a worker on an address. The worker runs until the test ends. */
async function startWorker(t: TestContext, address: string): Promise<string[]> {
  const warnings: string[] = [];
  const logger: Logger = { ...quiet, warn: (text) => warnings.push(text) };
  const worker = new Worker(address, "work", () => undefined, { logger });
  t.after(() => worker.stop());
  await worker.start();
  return warnings;
}

test("health waits for the option lease before a lease was seen", () => {
  const state = (options: QueueOptions) => new State(checkOptions("work", "worker", quiet, options), new Events("work", quiet));
  assert.deepEqual([state({ lease: "10m" }).leaseDuration, state({}).leaseDuration], [600_000, 30_000]);
});

/** Returns the address of a server that accepts connections and says nothing. */
async function listen(t: TestContext): Promise<{ address: string; close: () => void }> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const close = () => void server.close();
  t.after(close);
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** Waits until a condition is true. Throws after 60 s. */
async function waitFor(condition: () => boolean): Promise<void> {
  const until = performance.now() + 60_000;
  while (!condition()) {
    assert.ok(performance.now() < until, "after 60 s");
    await sleep(10);
  }
}

test("an outage is warned about until its end", async (t) => {
  const { address, close } = await listen(t);
  close();
  const begun = performance.now();
  const warnings = await startWorker(t, address);
  await waitFor(() => warnings.length >= 1);
  assert.ok(performance.now() - begun >= 2_000);
  // On a busy machine the first attempt takes longer than the time before the first warning.
  const first = () => warnings.find((text) => !text.endsWith(": no answer yet"));
  await waitFor(() => first() !== undefined);
  assert.match(first() ?? "", /^calls to the broker at 127\.0\.0\.1:\d+ have failed for \d+ s: UNAVAILABLE: .*ECONNREFUSED/);
  await startServer(t, { claimBatch: [empty], releaseClaims: [empty] }, undefined, address);
  await waitFor(() => /^the broker at 127\.0\.0\.1:\d+ answers again after \d+ s$/.test(warnings.at(-1) ?? ""));
});

test("a broker that accepts and is silent is warned about", async (t) => {
  const { address } = await listen(t);
  const warnings = await startWorker(t, address);
  await waitFor(() => warnings.length === 1);
  assert.match(warnings[0] ?? "", /^calls to the broker at 127\.0\.0\.1:\d+ have failed for \d+ s: no answer yet$/);
});

test("the warning is repeated, and has the latest cause", async () => {
  const warnings: string[] = [];
  const logger: Logger = { ...quiet, warn: (text) => warnings.push(text) };
  const health = new CallHealth(["a:1", "b:2"], logger, { first: 20, next: 20 });
  health.start();
  await waitFor(() => warnings.length === 1);
  health.note({ code: status.UNAVAILABLE, reason: "STORE_UNAVAILABLE", message: "the database is away" });
  await waitFor(() => warnings.length === 2);
  health.note({ code: status.RESOURCE_EXHAUSTED, reason: "OVERLOADED", message: "an answer" });
  await sleep(60);
  assert.deepEqual(warnings.map((text) => text.replace(/\d+ s/, "N s")), [
    "calls to the broker at a:1, b:2 have failed for N s: no answer yet",
    "calls to the broker at a:1, b:2 have failed for N s: UNAVAILABLE (STORE_UNAVAILABLE): the database is away",
    "the broker at a:1, b:2 answers again after N s",
  ]);
});

test("a claim waits only after an answer", async (t) => {
  const error = { error: { code: status.UNAVAILABLE } };
  const server = await startServer(t, { claimBatch: [empty, empty, error, empty, "never"], releaseClaims: [empty] });
  await startWorker(t, server.address);
  await waitFor(() => server.of("ClaimBatch").length === 5);
  const waits = server.of("ClaimBatch").map(({ request }) => Number((request as ClaimBatchRequest).waitTimeout?.seconds ?? 0));
  // The fourth request is the third one, sent again.
  assert.deepEqual(waits, [0, 20, 20, 0, 20]);
});
