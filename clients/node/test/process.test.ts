/** The end of a process that runs a worker, with scripted servers. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { status } from "@grpc/grpc-js";

import { Outcome } from "../src/v1.js";
import { type ScriptedServer, startServer } from "./support/scripted_server.js";

function claimed(key: string) {
  const lease = { leaseId: key, item: { key }, attempt: 1, timeLeft: { seconds: 60n, nanos: 0 } };
  return { message: { leases: [lease] } };
}

/** Starts a process whose worker has this handler and these options, as texts. */
function start(t: TestContext, server: ScriptedServer, handler: string, options: string): ChildProcess {
  const library = JSON.stringify(join(__dirname, "../src/index.js"));
  const program = `
    const { Worker } = require(${library});
    const worker = new Worker(${JSON.stringify(server.address)}, "work", ${handler}, ${options});
    worker.run().catch(() => { process.exitCode = 1; });`;
  const child = spawn(process.execPath, ["-e", program], { stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

/** Waits for the end of a process. Returns its exit code. */
async function exitCode(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null) await once(child, "exit", { signal: AbortSignal.timeout(60_000) });
  return child.exitCode;
}

test("a worker without heartbeats lives while it pauses its claims", async (t) => {
  const results = [{ outcome: Outcome.APPLIED }];
  const nextError = { code: status.UNAVAILABLE, reason: "OVERLOADED", retryDelay: { seconds: 1n, nanos: 0 } };
  const complete = [{ message: { results, nextError } }, { message: { results } }];
  const claimBatch = [claimed("a"), claimed("b"), "never" as const];
  const server = await startServer(t, { claimBatch, complete, releaseClaims: [{ message: {} }] });
  const child = start(t, server, "() => undefined", "{ heartbeat: false }");
  while (server.of("Complete").length < 2 && child.exitCode === null) await sleep(10);
  assert.equal(server.of("Complete").length, 2);
  child.kill("SIGTERM");
  assert.equal(await exitCode(child), 0);
});

test("a refused worker whose handler does not stop ends its process", async (t) => {
  const claimBatch = [claimed("a"), { error: { code: status.PERMISSION_DENIED } }];
  const server = await startServer(t, { claimBatch, releaseClaims: [{ message: {} }] });
  const handler = "() => new Promise(() => setInterval(() => undefined, 1000))";
  const child = start(t, server, handler, "{ concurrency: 2, grace: 0 }");
  assert.equal(await exitCode(child), 1);
});
