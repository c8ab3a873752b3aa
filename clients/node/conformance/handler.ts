/** The handler: does what the payload of its item says. */

import { setTimeout as sleep } from "node:timers/promises";

import {
  BatchError,
  type Context,
  DeadLetter,
  type FollowUp,
  type Item,
  Release,
  type Result,
  Retry,
  type Row,
} from "../src/index.js";
import { now } from "../src/clock.js";
import type { Effects } from "./effects.js";
import { say } from "./output.js";

/** The payload of an item. */
interface Payload {
  sleep_ms?: number;
  block_ms?: number;
  hold_ms?: number;
  then?: "complete" | "raise" | "retry" | "dead" | "release" | "exit";
  after_ms?: number;
  ignore_cancel?: boolean;
  follow_ups?: { queue: string; columns: Row }[];
  columns?: Row;
  checkpoint?: string;
  effect?: string;
  on_cancel?: "raise" | "block";
}

/** Returns the handler for one item, and that for a batch. */
export function handlerOf(effects: Effects) {
  const one = (item: Item, context: Context): Promise<Result> => {
    sayStarted(item);
    return act(item, context);
  };
  const act = async (item: Item, context: Context): Promise<Result> => {
    const payload = JSON.parse(String(item.columns.payload)) as Payload;
    if (payload.checkpoint) context.checkpoint(Buffer.from(payload.checkpoint), item);
    if (payload.on_cancel) listen(payload.on_cancel, context);
    await rest(payload, context);
    block((payload.block_ms ?? 0) + (payload.hold_ms ?? 0));
    if (payload.effect) await effects.append(payload.effect, item);
    return end(payload);
  };
  const batch = async (items: readonly Item[], context: Context): Promise<Map<Item, Result>> => {
    const results = new Map<Item, Result>();
    const errors = new Map<Item, unknown>();
    for (const item of items) sayStarted(item);
    for (const item of items) {
      try {
        results.set(item, await act(item, context));
      } catch (error) {
        if (context.signal.aborted) throw error;
        errors.set(item, error);
      }
    }
    if (errors.size > 0) throw new BatchError(errors);
    return results;
  };
  return { one, batch };
}

/** Prints the event "started", with the checkpoint of the item, which the library's event does not have. */
function sayStarted({ key, attempt, fencingToken, checkpoint }: Item): void {
  const text = checkpoint === null ? null : Buffer.from(checkpoint).toString();
  say({ ev: "started", at_ms: now(), key, attempt, fence: Number(fencingToken), checkpoint: text });
}

/** Adds a listener of the signal that throws, or that blocks the event loop for half of a lease. */
function listen(how: "raise" | "block", { signal }: Context): void {
  // Node reports what a listener throws as an uncaught exception, and not to the one who aborts.
  if (how === "raise") process.once("uncaughtException", () => undefined);
  signal.addEventListener("abort", () => {
    if (how === "raise") throw new Error("raised in a listener");
    block(1_000);
  });
}

async function rest({ sleep_ms = 0, ignore_cancel = false }: Payload, { signal }: Context): Promise<void> {
  if (sleep_ms > 0) await sleep(sleep_ms, undefined, ignore_cancel ? {} : { signal });
}

/** Blocks the event loop. */
function block(milliseconds: number): void {
  const until = now() + milliseconds;
  while (now() < until);
}

function end({ then = "complete", after_ms, follow_ups = [], columns = {} }: Payload): Result {
  const after = after_ms === undefined || after_ms === 0 ? {} : { after: after_ms };
  switch (then) {
    case "complete":
      return { columns, followUps: follow_ups satisfies FollowUp[] };
    case "raise":
      throw new Error("raised");
    case "retry":
      throw new Retry("retried", after);
    case "dead":
      throw new DeadLetter("dead");
    case "release":
      throw new Release(after);
    case "exit":
      process.exit(3);
  }
}
