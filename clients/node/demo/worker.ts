/**
 * A worker of `lease-broker demo --language node`. The command passes: address, name, items per batch, journal file.
 *
 * It computes the litres of rain of each row, writes them into the row, and adds them to the queue `outbox`. Its journal has
 * a line for each step with an item, written before the next step.
 */

import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { type Context, type Event, type Item, type Result, Worker } from "../src/index.js";

const MILLISECONDS_PER_ITEM = 3;
const ACTIONS = new Map([
  ["claimed", "claimed"],
  ["completed", "completed"],
  ["lost", "lost"],
  ["unknown", "lost"],
]);

const [address = "", name = "", batch = "", journalFile = ""] = process.argv.slice(2);
const journal = openSync(journalFile, "a");

function write(action: string, keys: string[]): void {
  writeSync(journal, keys.map((key) => `${JSON.stringify({ key, action })}\n`).join(""));
}

function record({ name, key }: Event): void {
  const action = ACTIONS.get(name);
  if (action !== undefined && key !== undefined) write(action, [key]);
}

async function processRows(items: readonly Item[], { signal }: Context): Promise<Map<Item, Result>> {
  await sleep(MILLISECONDS_PER_ITEM * items.length, undefined, { signal });
  const results = new Map(items.map((item) => [item, resultOf(item)]));
  write("completing", items.map((item) => item.key));
  return results;
}

function resultOf({ columns }: Item): Result {
  const litres = Number(columns.Millimetres) * 1_000;
  const row = { event_id: columns.Event_ID ?? null, worker: name, litres };
  return { columns: { Litres: litres }, followUps: [{ queue: "outbox", columns: row }] };
}

const worker = new Worker(address, "rainfall", processRows, { batch: Number(batch), workerId: name, onEvent: record });
// The demo closes standard input when the worker shall stop.
process.stdin.on("end", () => void worker.stop().then(() => process.exit())).resume();
void worker.run();
