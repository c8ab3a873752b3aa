/** Runs workers for tests. */

import type { BatchHandler, BatchOptions, Handler, Logger, Row, WorkerOptions } from "../../src/index.js";
import { Worker } from "../../src/index.js";
import type { Broker } from "./broker.js";
import { Journal } from "./journal.js";

/** A log that prints nothing. */
export const quiet: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** Returns rows with the payloads "0", "1", and so on. */
export function payloads(count: number): Row[] {
  return Array.from({ length: count }, (_, index) => ({ payload: String(index) }));
}

/** Runs a worker until its events meet a condition, and stops it. */
export async function work(
  broker: Broker,
  handler: Handler,
  until: (journal: Journal, worker: Worker) => Promise<void>,
  options: WorkerOptions = {},
): Promise<Journal> {
  const journal = new Journal();
  const observed = { logger: quiet, ...options, onEvent: journal.observe };
  return runUntil(new Worker(broker.address, "work", handler, observed), journal, until);
}

/** Runs a worker whose handler gets batches until its events meet a condition, and stops it. */
export async function workInBatches(
  broker: Broker,
  handler: BatchHandler,
  until: (journal: Journal) => Promise<void>,
  options: BatchOptions,
): Promise<Journal> {
  const journal = new Journal();
  const observed = { logger: quiet, ...options, onEvent: journal.observe };
  return runUntil(new Worker(broker.address, "work", handler, observed), journal, until);
}

async function runUntil(
  worker: Worker,
  journal: Journal,
  until: (journal: Journal, worker: Worker) => Promise<void>,
): Promise<Journal> {
  await worker.start();
  try {
    await until(journal, worker);
  } finally {
    await worker.stop();
  }
  return journal;
}
