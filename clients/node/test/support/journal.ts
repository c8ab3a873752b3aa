/** The events of a worker, for tests that wait for them. */

import type { Event, EventName } from "../../src/index.js";

export class Journal {
  readonly events: Event[] = [];
  #listeners = new Set<() => void>();

  readonly observe = (event: Event): void => {
    this.events.push(event);
    for (const listener of this.#listeners) listener();
  };

  /** Returns how often an event has happened. */
  count(name: EventName): number {
    return this.of(name).length;
  }

  /** Returns the events of one kind. */
  of(name: EventName): Event[] {
    return this.events.filter((event) => event.name === name);
  }

  /** Waits until an event has happened this often. Throws after 60 s. */
  async waitFor(name: EventName, count = 1): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const check = () => {
        if (this.count(name) < count) return;
        this.#listeners.delete(check);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        reject(new Error(`after 60 s: ${this.count(name)} of ${count} ${name}`));
      }, 60_000);
      this.#listeners.add(check);
      check();
    });
  }
}
