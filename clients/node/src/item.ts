/** The item that a handler receives, and the result that it may return. */

import { create } from "@bufbuild/protobuf";

import { type Duration, durationMessage, milliseconds } from "./clock.js";
import {
  type ColumnValue,
  columnsFromMessages,
  dateFromMessage,
  type Row,
  rowToMessages,
} from "./values.js";
import { FollowUpSchema, type FollowUp as FollowUpMessage, type Lease, NewItemSchema, type NewItem } from "./v1.js";

/** A leased row. */
export interface Item {
  /** The identity of the row, as the broker writes it. */
  readonly key: string;
  /**
   * The values of the row's columns, by name. NULL is `null`. Reading an unknown column throws an `UnknownColumnError`, and
   * reading a value whose kind only a newer API has, a `TypeError`.
   */
  readonly columns: Readonly<Record<string, ColumnValue>>;
  /** The number of this attempt, 1 for the first. */
  readonly attempt: number;
  /** The number of attempts after which a failure makes the item dead. 0: no limit. */
  readonly maxAttempts: number;
  /** A number that grows with every lease of this row. Systems that you write to can refuse a smaller one. */
  readonly fencingToken: bigint;
  /** The time at which the item became ready, by the database's clock. Null: it is not known. */
  readonly readyTime: Date | null;
  /** The checkpoint that an earlier attempt stored last. Null: there is none. */
  readonly checkpoint: Uint8Array | null;
  /** The W3C trace context of the lease. */
  readonly traceParent: string;
}

/** A row that is added to a queue in the transaction that completes the item. */
export interface FollowUp {
  readonly queue: string;
  readonly columns: Row;
  /** The time until the row is ready. Absent: it is ready immediately. */
  readonly delay?: Duration;
}

/** Additions to the completion of an item. */
export interface Result {
  /** Values to write into columns of the item's own row. The queue's setting `writable` lists these columns. */
  readonly columns?: Row;
  /** Rows to add to queues. */
  readonly followUps?: readonly FollowUp[];
}

/** Returns the message for a row to add. */
export function newItem(columns: Row, delay: Duration | undefined, traceParent = ""): NewItem {
  const message = create(NewItemSchema, { columns: rowToMessages(columns), traceParent });
  if (delay !== undefined) message.delay = durationMessage(milliseconds("delay", delay));
  return message;
}

/** Returns the message for a follow-up. Throws if one of its values cannot be sent. */
export function followUpMessage(followUp: FollowUp): FollowUpMessage {
  return create(FollowUpSchema, { queue: followUp.queue, item: newItem(followUp.columns, followUp.delay) });
}

/** The row of a lease. Its fields are translated when the handler asks. */
class LeasedItem implements Item {
  readonly #lease: Lease;
  #columns: Record<string, ColumnValue> | null = null;

  constructor(lease: Lease) {
    this.#lease = lease;
  }

  get key(): string {
    return this.#lease.item?.key ?? "";
  }

  get columns(): Readonly<Record<string, ColumnValue>> {
    return (this.#columns ??= columnsFromMessages(this.#lease.item?.columns ?? {}));
  }

  get attempt(): number {
    return this.#lease.attempt;
  }

  get maxAttempts(): number {
    return this.#lease.maxAttempts;
  }

  get fencingToken(): bigint {
    return this.#lease.fencingToken;
  }

  get readyTime(): Date | null {
    return this.#lease.readyTime === undefined ? null : dateFromMessage(this.#lease.readyTime);
  }

  get checkpoint(): Uint8Array | null {
    return this.#lease.checkpoint === undefined ? null : new Uint8Array(this.#lease.checkpoint);
  }

  get traceParent(): string {
    return this.#lease.traceParent;
  }

  /** Returns the fields for `JSON.stringify`. JSON has neither integers of 64 bits nor bytes: they are texts, bytes in base64. */
  toJSON(): object {
    const columns = Object.entries(this.columns).map(([name, value]) => [name, jsonOf(value)]);
    return {
      key: this.key,
      columns: Object.fromEntries(columns) as object,
      attempt: this.attempt,
      maxAttempts: this.maxAttempts,
      fencingToken: jsonOf(this.fencingToken),
      readyTime: this.readyTime,
      checkpoint: jsonOf(this.checkpoint),
      traceParent: this.traceParent,
    };
  }
}

function jsonOf(value: ColumnValue): ColumnValue {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  return typeof value === "bigint" ? String(value) : value;
}

/** Returns the row of a lease. */
export function readItem(lease: Lease): Item {
  return new LeasedItem(lease);
}
