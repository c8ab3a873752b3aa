/** The monotonic clock, and durations. */

import { create } from "@bufbuild/protobuf";
import { type Duration as DurationMessage, DurationSchema } from "@bufbuild/protobuf/wkt";

/** A duration: a number of milliseconds, or a text such as `"500ms"`, `"20s"`, `"10m"` or `"1.5h"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h"}`;

/** The longest duration that a message can hold, in milliseconds: 10,000 years. */
const MAX_DURATION = 315_576_000_000_000;
/** The longest delay of a timer, in milliseconds: 24.8 days. Node lets a timer with a longer one end after 1 ms. */
export const MAX_DELAY = 2 ** 31 - 1;

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

let testClock: (() => number) | null = null;

/** Returns the milliseconds of the monotonic clock. All threads of the process share it. */
export function now(): number {
  if (testClock !== null) return testClock();
  const [seconds, nanos] = process.hrtime();
  return seconds * 1_000 + nanos / 1_000_000;
}

/** Sets the clock, for a test. */
export function setClock(clock: () => number): void {
  testClock = clock;
}

/**
 * Returns a duration in milliseconds. `name` is the name of the option for the text of an error.
 *
 * Throws a `RangeError` if the value is not a duration, if it is negative, or if it is longer than 10,000 years.
 */
export function milliseconds(name: string, duration: Duration): number {
  const match = typeof duration === "string" ? /^([0-9.]+)(ms|s|m|h)$/.exec(duration) : null;
  const value = match ? Number(match[1]) * (UNITS[match[2] ?? ""] ?? NaN) : duration;
  if (typeof value !== "number" || !(value >= 0 && value <= MAX_DURATION)) {
    throw new RangeError(`${name} is ${String(duration)}; expected milliseconds up to 10,000 years, or a text such as "20s"`);
  }
  return value;
}

/** Returns the message for a duration in milliseconds. One above 366 days is cut, because the broker refuses it. */
export function durationMessage(duration: number): DurationMessage {
  const value = Math.min(duration, 366 * 86_400_000);
  const seconds = Math.floor(value / 1_000);
  const nanos = Math.min(Math.round((value - seconds * 1_000) * 1_000_000), 999_999_999);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos });
}

/** Returns the milliseconds of a duration. An absent one is 0. */
export function durationMilliseconds(message: DurationMessage | undefined): number {
  return message === undefined ? 0 : Number(message.seconds) * 1_000 + message.nanos / 1_000_000;
}
