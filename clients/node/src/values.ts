/**
 * Translation between the values of columns and JavaScript's types.
 *
 * Integers are `bigint`, floating-point numbers `number`, truth values `boolean`, text `string`, bytes `Uint8Array`,
 * points in time `Date`, and NULL is `null`. JavaScript has no exact decimals: they arrive as `string`.
 */

import { inspect } from "node:util";

import { create } from "@bufbuild/protobuf";
import { NullValue, type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";

import { type ColumnValue as ColumnMessage, ColumnValueSchema } from "./v1.js";

/** The item has no column with this name. */
export class UnknownColumnError extends Error {
  override name = "UnknownColumnError";
}

/** An exact decimal number such as "-12.50", to be written into a column. A column of exact decimals is read as `string`. */
export class Decimal {
  constructor(readonly digits: string) {}

  toString(): string {
    return this.digits;
  }
}

/** A value of a column as it is read. */
export type ColumnValue = bigint | number | boolean | string | Uint8Array | Date | null;
/** A value to write into a column. A `number` without a fraction is sent as an integer, up to 2**53 - 1. */
export type NewColumnValue = ColumnValue | Decimal;
/** Values to write, by column name. */
export type Row = Readonly<Record<string, NewColumnValue>>;

const MAX_INT64 = 2n ** 63n;

/**
 * Returns the message for a value. `column` is the name for the text of an error.
 *
 * Throws a `TypeError` for a type that no column has, and a `RangeError` for an integer of more than 64 bits, for NaN, for an
 * invalid date or decimal, and for a text with half of a character.
 */
export function toMessage(column: string, value: NewColumnValue): ColumnMessage {
  return create(ColumnValueSchema, { kind: kindOf(column, value) });
}

/** Returns true for an object with fields, and false for an array, a `Map`, a promise and so on. */
export function isPlainObject(value: unknown): value is object {
  return Object.prototype.toString.call(value) === "[object Object]";
}

/** Returns the messages for the columns of a row. Throws as `toMessage`, and a `TypeError` for a `Map`, which has no fields. */
export function rowToMessages(row: Row): Record<string, ColumnMessage> {
  if (!isPlainObject(row)) {
    throw new TypeError(`a row is an object with a field for each column, and not of type ${typeName(row)}`);
  }
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, toMessage(column, value)]));
}

/**
 * The prototype of the columns of an item: reading an unknown column throws. Without it the value would be `undefined`, and
 * a text such as `order of ${item.columns.Custmer}` would be written.
 *
 * `await` reads `then`, `JSON.stringify` reads `toJSON`, and `console.log` would read other names.
 */
const COLUMNS = new Proxy(Object.create(Object.prototype, { [inspect.custom]: { value: asPlainObject } }) as object, {
  get(target, name, columns): unknown {
    if (typeof name === "symbol" || name in target || name === "then" || name === "toJSON") {
      return Reflect.get(target, name, columns);
    }
    const known = Object.keys(columns as object).sort().join(", ") || "no columns";
    throw new UnknownColumnError(`no column "${name}"; the item has ${known}`);
  },
});

function asPlainObject(this: object): object {
  return Object.defineProperties({}, Object.getOwnPropertyDescriptors(this));
}

/** Returns the values of the columns that a lease carries. Reading a value of an unknown kind throws a `TypeError`. */
export function columnsFromMessages(messages: Readonly<Record<string, ColumnMessage>>): Record<string, ColumnValue> {
  const columns = Object.create(COLUMNS) as Record<string, ColumnValue>;
  for (const [name, message] of Object.entries(messages)) {
    if (message.kind.case !== undefined) columns[name] = fromMessage(name, message);
    else Object.defineProperty(columns, name, { enumerable: true, get: () => fromMessage(name, message) });
  }
  return columns;
}

/** Returns the value that a message holds. */
export function fromMessage(column: string, message: ColumnMessage): ColumnValue {
  const { kind } = message;
  switch (kind.case) {
    case "timestampValue":
      return dateFromMessage(kind.value);
    case "bytesValue":
      // A copy: the original is a part of the whole response and would keep it in memory.
      return new Uint8Array(kind.value);
    case "nullValue":
      return null;
    case undefined:
      throw new TypeError(`column "${column}" has a value of a newer API`);
    default:
      return kind.value;
  }
}

/** Returns the point in time of a message, to the millisecond. */
export function dateFromMessage(message: Timestamp): Date {
  return new Date(Number(message.seconds) * 1_000 + Math.floor(message.nanos / 1_000_000));
}

function kindOf(column: string, value: NewColumnValue): ColumnMessage["kind"] {
  switch (typeof value) {
    case "bigint":
      if (value < -MAX_INT64 || value >= MAX_INT64) {
        throw new RangeError(`column "${column}": ${value} has more than 64 bits; pass a Decimal`);
      }
      return { case: "int64Value", value };
    case "number":
      if (Number.isNaN(value)) throw new RangeError(`column "${column}": NaN is not a number`);
      return Number.isSafeInteger(value)
        ? { case: "int64Value", value: BigInt(value) }
        : { case: "doubleValue", value };
    case "boolean":
      return { case: "boolValue", value };
    case "string":
      // The wire format would replace the half by U+FFFD.
      if (!value.isWellFormed()) throw new RangeError(`column "${column}": the text has half of a character (a lone surrogate)`);
      return { case: "stringValue", value };
    case "object":
      if (value === null) return { case: "nullValue", value: NullValue.NULL_VALUE };
      if (value instanceof Decimal) return { case: "decimalValue", value: digitsOf(column, value) };
      if (value instanceof Uint8Array) return { case: "bytesValue", value };
      if (value instanceof Date) return { case: "timestampValue", value: timestamp(column, value) };
  }
  throw new TypeError(`column "${column}": ${typeName(value)} is not a type of a column`);
}

function timestamp(column: string, date: Date): Timestamp {
  const time = date.getTime();
  if (Number.isNaN(time)) throw new RangeError(`column "${column}": the date is invalid`);
  const year = date.getUTCFullYear();
  if (year < 1 || year > 9_999) throw new RangeError(`column "${column}": the date is outside the years 0001 to 9999`);
  const seconds = Math.floor(time / 1_000);
  return create(TimestampSchema, { seconds: BigInt(seconds), nanos: (time - seconds * 1_000) * 1_000_000 });
}

function digitsOf(column: string, { digits }: Decimal): string {
  if (typeof digits !== "string") throw new TypeError(`column "${column}": a Decimal has a text, and not a ${typeof digits}`);
  if (!/^[-+]?[0-9]+(\.[0-9]+)?$/.test(digits)) {
    throw new RangeError(`column "${column}": the decimal "${digits}" must be decimal digits such as -12.50`);
  }
  return digits;
}

function typeName(value: unknown): string {
  if (typeof value !== "object") return typeof value;
  return value === null ? "null" : ((value as { constructor?: { name: string } }).constructor?.name ?? "Object");
}
