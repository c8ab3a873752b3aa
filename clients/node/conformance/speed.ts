/** Measures the time and the processor time that items take. */

import { now } from "../src/clock.js";
import { say } from "./output.js";
import type { StartOptions } from "./program.js";

export class Speed {
  readonly #warmUp: number;
  readonly #until: number;
  #items = 0;
  #begun = now();
  #processor = process.cpuUsage();

  /** The items of `warm_up` come first and do not count. */
  constructor(options: StartOptions) {
    this.#warmUp = options.warm_up ?? 0;
    this.#until = this.#warmUp + (options.until ?? 0);
  }

  /** Counts completed items. Prints "done" after the last one, and returns true. */
  add(items: number): boolean {
    const before = this.#items;
    this.#items += items;
    if (before < this.#warmUp && this.#items >= this.#warmUp) {
      this.#begun = now();
      this.#processor = process.cpuUsage();
    }
    const ends = before < this.#until && this.#items >= this.#until;
    if (ends) {
      const { user, system } = process.cpuUsage(this.#processor);
      const seconds = (now() - this.#begun) / 1_000;
      say({ ev: "done", items: this.#items - this.#warmUp, seconds, cpu_seconds: (user + system) / 1_000_000 });
    }
    return ends;
  }
}
