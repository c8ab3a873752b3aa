/** The health of the calls to the brokers: since when none was answered, and the warnings about that. */

import { status } from "@grpc/grpc-js";

import { now } from "./clock.js";
import type { Logger } from "./options.js";

/** The milliseconds without an answer before the first warning. */
const FIRST_WARNING = 2_000;
/** The milliseconds between two warnings. */
const NEXT_WARNING = 30_000;

/** The status of an attempt that failed. `reason` is the broker's, or null. */
export interface FailedAttempt {
  readonly code: status;
  readonly reason: string | null;
  readonly message: string;
}

/**
 * Remembers since when no call was answered, and warns about that. Several callers share it.
 *
 * An error with a reason of the broker is an answer, unless the code is UNAVAILABLE: then the broker has no database.
 */
export class CallHealth {
  #failingSince: number | null = null;
  #cause = "";
  #hasWarned = false;
  #timer: NodeJS.Timeout | undefined;
  #wasAnswered = false;

  /**
   * Without a logger it does not warn. A test sets shorter times, in milliseconds. `onChange` is called when a call is answered
   * after none was (true), and when one is not after one was.
   */
  constructor(
    private readonly address: string | readonly string[] = "",
    private readonly logger: Logger | null = null,
    private readonly times = { first: FIRST_WARNING, next: NEXT_WARNING },
    private readonly onChange: (answers: boolean) => void = () => undefined,
  ) {}

  /** True if the last call was answered. */
  get answers(): boolean {
    return this.#failingSince === null;
  }

  /** Returns the milliseconds for which no call was answered. 0: the last call was answered. */
  failingFor(): number {
    return this.#failingSince === null ? 0 : now() - this.#failingSince;
  }

  /** Expects the first answer from now on. The first attempt can take long to fail. */
  start(): void {
    this.#begin("no answer yet");
  }

  /** Notes the end of an attempt. Null: it succeeded. */
  note(failure: FailedAttempt | null): void {
    const answered = failure === null || (failure.reason !== null && failure.code !== status.UNAVAILABLE);
    if (answered !== this.#wasAnswered) {
      this.#wasAnswered = answered;
      this.onChange(answered);
    }
    if (failure === null || answered) {
      this.#end();
      return;
    }
    const reason = failure.reason === null ? "" : ` (${failure.reason})`;
    this.#begin(`${status[failure.code]}${reason}: ${failure.message}`);
  }

  /** Ends the warnings. */
  close(): void {
    clearTimeout(this.#timer);
    this.#hasWarned = false;
  }

  #begin(cause: string): void {
    this.#cause = cause;
    if (this.#failingSince !== null) return;
    this.#failingSince = now();
    this.#warnAfter(this.times.first);
  }

  #end(): void {
    if (this.#failingSince === null) return;
    // A warning too: a log that shows the problem also shows its end.
    if (this.#hasWarned) this.logger?.warn(`the broker at ${this.#place()} answers again after ${this.#seconds()} s`);
    this.close();
    this.#failingSince = null;
  }

  #warnAfter(milliseconds: number): void {
    if (this.logger === null) return;
    this.#timer = setTimeout(() => {
      this.#hasWarned = true;
      this.logger?.warn(`calls to the broker at ${this.#place()} have failed for ${this.#seconds()} s: ${this.#cause}`);
      this.#warnAfter(this.times.next);
    }, milliseconds).unref();
  }

  #place(): string {
    return typeof this.address === "string" ? this.address : this.address.join(", ");
  }

  #seconds(): string {
    return (this.failingFor() / 1_000).toFixed(0);
  }
}
