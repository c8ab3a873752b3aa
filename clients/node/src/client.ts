/** A client for producers: adds rows to queues, and wakes waiting claims. */

import { randomUUID } from "node:crypto";

import { create, type DescMessage, type DescMethodUnary, type MessageShape, toBinary } from "@bufbuild/protobuf";

import { Caller, checkCount } from "./calls.js";
import { type Duration, milliseconds, now } from "./clock.js";
import { type Credentials, plaintext, Token, type TokenSource } from "./credentials.js";
import { afterRows, LeaseBrokerError } from "./errors.js";
import { newItem } from "./item.js";
import { DEFAULT_LOGGER, MAX_BYTES_PER_CALL, MAX_ITEMS_PER_CALL } from "./options.js";
import { loadTracing } from "./tracing.js";
import { rpcs, Transport } from "./transport.js";
import { EnqueueRequestSchema, type NewItem, NewItemSchema, WakeRequestSchema } from "./v1.js";
import type { Row } from "./values.js";

/** A value counts as at least this size, because a call has at most 65,536 values. */
const MIN_VALUE_BYTES = MAX_BYTES_PER_CALL / 65_536;

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
  /** The W3C trace context of the rows. Default: that of OpenTelemetry's current span, if `@opentelemetry/api` is installed. */
  readonly traceParent?: string;
}

/** A connection for programs that add work. */
export class Client implements Disposable {
  readonly #transport: Transport;
  readonly #caller: Caller;
  readonly #timeout: number;

  /** Creates a client. `address` is as for a `Worker`. */
  constructor(address: string | readonly string[], options: ClientOptions = {}) {
    this.#timeout = milliseconds("timeout", options.timeout ?? "60s");
    this.#transport = new Transport(address, options.credentials ?? plaintext(), (text) => {
      DEFAULT_LOGGER.warn(text);
    });
    this.#caller = new Caller(this.#transport, options.token === undefined ? null : new Token(options.token));
  }

  /**
   * Adds rows and returns their keys, in order. Further calls send the rows after the first 1,000, or after 3 MiB.
   *
   * Reads all rows first, and adds no row if the value of one cannot be sent. Rejects with a `LeaseBrokerError` if the broker refuses a row. The rows of
   * that call are then not added. The error has the `keys` of the rows that earlier calls have added.
   */
  async enqueue(queue: string, rows: Iterable<Row>, { delay, traceParent }: EnqueueOptions = {}): Promise<string[]> {
    // `Array.from` would take an async generator for an empty list.
    if (typeof (rows as Partial<Iterable<Row>> | null)?.[Symbol.iterator] !== "function") {
      throw new TypeError("rows must be an iterable of objects, such as an array");
    }
    const context = traceParent ?? (await loadTracing()).current();
    const items = Array.from(rows, (row) => newItem(row, delay, context));
    const keys: string[] = [];
    for (const part of splitIntoCalls(items)) {
      try {
        keys.push(...(await this.#enqueue(queue, part)));
      } catch (error) {
        throw error instanceof LeaseBrokerError && keys.length > 0 ? afterRows(error, keys) : error;
      }
    }
    return keys;
  }

  async #enqueue(queue: string, items: NewItem[]): Promise<string[]> {
    const request = create(EnqueueRequestSchema, { queue, items, requestId: randomUUID() });
    const { results } = await this.#call(rpcs.enqueue, request);
    checkCount("Enqueue", results, items);
    return results.map((result) => result.key);
  }

  /** Lets waiting claims look for rows that a program has added by its own SQL. */
  async wake(queue: string): Promise<void> {
    await this.#call(rpcs.wake, create(WakeRequestSchema, { queue }));
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

/** Splits rows into those of single calls. */
function splitIntoCalls(items: readonly NewItem[]): NewItem[][] {
  const parts: NewItem[][] = [];
  let part: NewItem[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = Math.max(toBinary(NewItemSchema, item).length, MIN_VALUE_BYTES * Object.keys(item.columns).length);
    if (part.length === 0 || part.length === MAX_ITEMS_PER_CALL || bytes + size > MAX_BYTES_PER_CALL) {
      part = [];
      parts.push(part);
      bytes = 0;
    }
    part.push(item);
    bytes += size;
  }
  return parts;
}
