/** Which checkpoints are sent. */

import { now } from "./clock.js";

/** The largest checkpoint that a queue can allow, in bytes. */
export const MAX_CHECKPOINT_BYTES = 65_536;
/** The milliseconds for which checkpoints as long as a refused one are left out. Then a changed limit of the queue counts. */
const PAUSE = 60_000;

/** The lengths of checkpoints that the broker has refused lately. */
export class RefusedLengths {
  #bytes = Infinity;
  #until = 0;

  /** Returns whether a checkpoint of this many bytes is left out now. */
  has(bytes: number): boolean {
    return bytes >= this.#bytes && now() < this.#until;
  }

  /** Notes that a checkpoint of this many bytes was refused. Returns false if such ones are left out already. */
  add(bytes: number): boolean {
    if (this.has(bytes)) return false;
    this.#bytes = bytes;
    this.#until = now() + PAUSE;
    return true;
  }
}
