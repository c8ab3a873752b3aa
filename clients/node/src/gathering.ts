/** How long the settler waits for further endings, so that handlers that end one after the other share a call. */

/** The wait, in milliseconds. Each slot that has ended is idle for at most this long. */
const GATHER_TIME = 1;
const MIN_SLOTS = 8;
/** Handlers that are shorter would lose more by the wait than the broker gains. */
const MIN_HANDLER_TIME = 10 * GATHER_TIME;
/** The weight of a new handler in the mean. */
const WEIGHT = 1 / 8;

/** Knows how long the handlers of a worker take. */
export class Gathering {
  #mean: number | null = null;

  constructor(private readonly slots: number) {}

  /** Notes the milliseconds of a handler that has returned. */
  note(taken: number): void {
    this.#mean = this.#mean === null ? taken : this.#mean + (taken - this.#mean) * WEIGHT;
  }

  /** Returns the milliseconds to wait while this number of handlers runs. */
  wait(running: number): number {
    const isLong = this.#mean !== null && this.#mean >= MIN_HANDLER_TIME;
    return isLong && 2 * running > this.slots && this.slots >= MIN_SLOTS ? GATHER_TIME : 0;
  }
}
