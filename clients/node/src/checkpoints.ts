/** Which checkpoints are sent. */

import { now } from "./clock.js";

/** The largest checkpoint that a queue can allow, in bytes. */
export const MAX_CHECKPOINT_BYTES = 65_536;
/** The milliseconds for which checkpoints as long as a refused one are left out. Then a changed limit of the queue counts. */
const PAUSE = 60_000;

/** The lengths of checkpoints that the broker has refused lately. */
export class RefusedLengths {
  /** A number of bytes, and the time until which checkpoints as long are left out. */
  readonly #noted: Float64Array;

  /** Objects with the same memory, also those of other threads, have the same lengths. */
  constructor(readonly memory = new SharedArrayBuffer(16)) {
    this.#noted = new Float64Array(memory);
  }

  /** Returns whether a checkpoint of this many bytes is left out now. */
  has(bytes: number): boolean {
    // The time is read before the length, and written after it, because the other thread may write meanwhile.
    const until = this.#noted[1] ?? 0;
    const least = this.#noted[0] ?? 0;
    return bytes >= least && now() < until;
  }

  /** Notes that a checkpoint of this many bytes was refused. Returns false if such ones are left out already. */
  add(bytes: number): boolean {
    if (this.has(bytes)) return false;
    this.#noted.set([bytes, now() + PAUSE]);
    return true;
  }
}
