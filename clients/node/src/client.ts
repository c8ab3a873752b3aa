/** A client for producers and operators: adds rows to queues, wakes waiting claims, cancels leases. */

import { randomUUID } from "node:crypto";

import { create, type DescMessage, type DescMethodUnary, type MessageShape } from "@bufbuild/protobuf";

import { Caller } from "./calls.js";
import { type Duration, durationMessage, milliseconds, now } from "./clock.js";
import { type Credentials, plaintext, Token, type TokenSource } from "./credentials.js";
import { newItem } from "./item.js";
import { MAX_ITEMS_PER_CALL } from "./options.js";
import { rpcs, Transport } from "./transport.js";
import { CancelLeasesRequestSchema, EnqueueRequestSchema, WakeRequestSchema } from "./v1.js";
import type { Row } from "./values.js";

/** The options of a client. */
export interface ClientOptions {
  /** The security of the connection. Default: `plaintext()`, which only calls this machine. */
  readonly credentials?: Credentials;
  /** A bearer token. */
  readonly token?: TokenSource;
  /** The time for which a call is sent again while no broker answers. Default: 60 s. */
  readonly timeout?: Duration;
}

/** The options of `Client.enqueue`. */
export interface EnqueueOptions {
  /** The time until the rows are ready. Default: they are ready immediately. */
  readonly delay?: Duration;
  /** The W3C trace context of the rows. */
  readonly traceParent?: string;
}

/** The options of `Client.cancel`. */
export interface CancelOptions {
  /** The time until the items are ready again. Default: they are ready immediately. */
  readonly delay?: Duration;
  /** True: the items become dead. Cannot be combined with `delay`. */
  readonly deadLetter?: boolean;
  /** The reason. The rows and the workers get it. */
  readonly reason?: string;
}

/** A connection for programs that add work. */
export class Client implements Disposable {
  readonly #transport: Transport;
  readonly #caller: Caller;
  readonly #timeout: number;

  /** Creates a client. `address` is as for a `Worker`. */
  constructor(address: string | readonly string[], options: ClientOptions = {}) {
    this.#timeout = milliseconds("timeout", options.timeout ?? "60s");
    this.#transport = new Transport(address, options.credentials ?? plaintext());
    this.#caller = new Caller(this.#transport, options.token === undefined ? null : new Token(options.token));
  }

  /**
   * Adds rows and returns their keys, in order. Further calls send the rows after the first 1,000.
   *
   * Rejects with a `LeaseBrokerError` if the broker refuses a row. The rows of that call are then not added. Those of
   * earlier calls are.
   */
  async enqueue(queue: string, rows: readonly Row[], { delay, traceParent }: EnqueueOptions = {}): Promise<string[]> {
    const keys: string[] = [];
    for (let first = 0; first < rows.length; first += MAX_ITEMS_PER_CALL) {
      const part = rows.slice(first, first + MAX_ITEMS_PER_CALL);
      const items = part.map((row) => newItem(row, delay, traceParent));
      const request = create(EnqueueRequestSchema, { queue, items, requestId: randomUUID() });
      keys.push(...(await this.#call(rpcs.enqueue, request)).keys);
    }
    return keys;
  }

  /** Lets waiting claims look for rows that a program has added by its own SQL. */
  async wake(queue: string): Promise<void> {
    await this.#call(rpcs.wake, create(WakeRequestSchema, { queue }));
  }

  /** Takes the leases of items away from their workers. Returns the keys of the items that were leased. */
  async cancel(queue: string, keys: readonly string[], options: CancelOptions = {}): Promise<string[]> {
    const { delay, deadLetter = false, reason = "" } = options;
    const cancelled: string[] = [];
    for (let first = 0; first < keys.length; first += MAX_ITEMS_PER_CALL) {
      const part = keys.slice(first, first + MAX_ITEMS_PER_CALL);
      const request = create(CancelLeasesRequestSchema, { queue, keys: part, deadLetter, reason });
      if (delay !== undefined) request.delay = durationMessage(milliseconds("delay", delay));
      const { results } = await this.#call(rpcs.cancelLeases, request);
      cancelled.push(...results.filter((result) => result.cancelled).map((result) => result.key));
    }
    return cancelled;
  }

  /** Closes the connection. */
  close(): void {
    this.#transport.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #call<I extends DescMessage, O extends DescMessage>(
    rpc: DescMethodUnary<I, O>,
    request: MessageShape<I>,
  ): Promise<MessageShape<O>> {
    const until = now() + this.#timeout;
    return (await this.#caller.call(rpc, request, { until: () => until })).message;
  }
}
