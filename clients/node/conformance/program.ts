/**
 * The worker program of the scenario harness in `clients/harness`. It reads commands as JSON lines from its standard input
 * and writes events as JSON lines to its standard output. Handlers are data: the payload of an item says what they do.
 */

import { createInterface } from "node:readline";

import { type Credentials, type Event, tls, type WorkerOptions, Worker } from "../src/index.js";
import { now } from "../src/clock.js";
import { Effects } from "./effects.js";
import { handlerOf } from "./handler.js";
import { say } from "./output.js";
import { runRaw } from "./raw.js";
import { Speed } from "./speed.js";

export interface StartOptions {
  address: string | string[];
  queue: string;
  worker_id?: string;
  concurrency?: number;
  batch?: number | null;
  lease_ms?: number | null;
  heartbeat?: boolean;
  time_limit_ms?: number | null;
  wait_ms?: number;
  grace_ms?: number;
  stuck_after_ms?: number;
  max_stuck?: number | null;
  keeper?: "thread" | "loop";
  ca_file?: string;
  cert_file?: string;
  key_file?: string;
  effects?: string | null;
  noop?: boolean;
  raw?: boolean;
  until?: number | null;
  warm_up?: number;
}

type Command =
  | { cmd: "start"; options: StartOptions }
  | { cmd: "stop"; grace_ms?: number }
  | { cmd: "health" }
  | { cmd: "counters" };

function credentialsOf({ ca_file, cert_file, key_file }: StartOptions): Credentials | undefined {
  if (ca_file === undefined || cert_file === undefined || key_file === undefined) return undefined;
  return tls({ ca: { file: ca_file }, cert: { file: cert_file }, key: { file: key_file } });
}

/** Returns the options that are set. An option that is null or absent has its default. */
function workerOptions(options: StartOptions, onEvent: ((event: Event) => void) | undefined): WorkerOptions {
  const all = {
    workerId: options.worker_id,
    concurrency: options.concurrency,
    lease: options.lease_ms,
    heartbeat: options.heartbeat,
    timeLimit: options.time_limit_ms,
    wait: options.wait_ms,
    grace: options.grace_ms,
    stuckAfter: options.stuck_after_ms,
    maxStuck: options.max_stuck,
    keeper: options.keeper,
    onEvent,
    credentials: credentialsOf(options),
  };
  const set = Object.entries(all).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(set);
}

/** Prints an event of the library. The handler prints "started". */
function printEvent({ name, key, attempt, fencingToken, cause, reason, error, count, rpc, code, wait }: Event): void {
  if (name === "started") return;
  const fence = fencingToken === undefined ? undefined : Number(fencingToken);
  say({ ev: name, at_ms: now(), key, attempt, fence, cause, reason, error, count, rpc, code, wait });
}

function createWorker(options: StartOptions): Worker {
  const { address, queue, batch, noop } = options;
  const all = workerOptions(options, noop ? undefined : printEvent);
  if (noop) return new Worker(address, queue, () => undefined, all);
  const handler = handlerOf(new Effects(options.effects ?? null));
  if (batch == null) return new Worker(address, queue, handler.one, all);
  return new Worker(address, queue, handler.batch, { ...all, batch });
}

/** Stops the worker after its last item. */
function watchUntil(worker: Worker, options: StartOptions): void {
  const speed = new Speed(options);
  worker.on("completed", () => {
    if (speed.add(1)) process.kill(process.pid, "SIGTERM");
  });
}

async function main(): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  let worker: Worker | null = null;
  /** Ends the process with the library's exit code. */
  const exit = (work: Promise<boolean>) => {
    work.then(
      (clean) => process.exit(clean ? 0 : 1),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  for await (const line of lines) {
    const command = JSON.parse(line) as Command;
    switch (command.cmd) {
      case "start":
        if (command.options.raw) {
          exit(runRaw(command.options));
          break;
        }
        worker = createWorker(command.options);
        if (command.options.until != null) watchUntil(worker, command.options);
        exit(worker.run().then(() => true));
        say({ ev: "ready", at_ms: now() });
        break;
      case "stop":
        if (worker !== null) exit(worker.stop(command.grace_ms));
        break;
      case "health":
        say({ ev: "health", ok: worker?.health() ?? false });
        break;
      case "counters":
        say({ ev: "counters", counters: worker?.counters() ?? {} });
    }
  }
  if (worker !== null) exit(worker.stop());
}

void main();
