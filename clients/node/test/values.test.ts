/** Values of columns, durations and texts of errors. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { create, fromBinary } from "@bufbuild/protobuf";

import { durationMessage, durationMilliseconds, milliseconds } from "../src/clock.js";
import { errorText } from "../src/errors.js";
import { Decimal, type NewColumnValue, Release, Retry, UnknownColumnError } from "../src/index.js";
import { readItem } from "../src/item.js";
import { ColumnValueSchema, LeaseSchema } from "../src/v1.js";
import { columnsFromMessages, fromMessage, type Row, rowToMessages, toMessage } from "../src/values.js";

test("values survive the way to the broker and back", () => {
  const dates = [new Date(0), new Date("0001-01-01T00:00:00.001Z"), new Date("9999-12-31T23:59:59.999Z")];
  for (const value of [null, true, false, -(2n ** 63n), 2n ** 63n - 1n, 1.5, "ż", new Uint8Array([0, 255]), ...dates]) {
    assert.deepEqual(fromMessage("c", toMessage("c", value)), value);
  }
});

test("columns are used as a plain object is", async () => {
  const columns = columnsFromMessages(rowToMessages({ Total: 1.5, Customer: null }));
  assert.throws(() => columns.customer, new UnknownColumnError('no column "customer"; the item has Customer, Total'));
  assert.equal(columns.Customer, null);
  assert.equal("customer" in columns, false);
  const { Total, ...rest } = columns;
  assert.deepEqual([Total, rest], [1.5, { Customer: null }]);
  assert.equal(JSON.stringify(columns), '{"Total":1.5,"Customer":null}');
  assert.equal(inspect(columns), "{ Total: 1.5, Customer: null }");
  assert.deepEqual(structuredClone(columns), { Total: 1.5, Customer: null });
  assert.equal(await Promise.resolve(columns), columns);
});

test("JSON of an item has exact numbers and bytes as texts", () => {
  const columns = rowToMessages({ Count: 5, Total: new Decimal("12.50"), Photo: new Uint8Array([1]), Paid: null });
  const lease = create(LeaseSchema, { item: { key: "7", columns }, attempt: 1, maxAttempts: 3, fencingToken: 2n, traceParent: "00" });
  assert.deepEqual(JSON.parse(JSON.stringify(readItem(lease))), {
    key: "7",
    columns: { Count: "5", Total: "12.50", Photo: "AQ==", Paid: null },
    attempt: 1,
    maxAttempts: 3,
    fencingToken: "2",
    readyTime: null,
    checkpoint: null,
    traceParent: "00",
  });
});

test("a value of an unknown kind throws when it is read", () => {
  const day = fromBinary(ColumnValueSchema, new Uint8Array([0x4a, 1, 0x78]));
  const columns = columnsFromMessages({ day, hour: toMessage("hour", 7n) });
  assert.equal(columns.hour, 7n);
  assert.throws(() => columns.day, new TypeError('column "day" has a value of a newer API'));
  assert.throws(() => JSON.stringify({ ...columns }), TypeError);
  assert.equal(inspect(columns), "{ day: [Getter], hour: 7n }");
});

test("numbers without a fraction are sent as integers", () => {
  const kinds: [NewColumnValue, string][] = [
    [5, "int64Value"],
    [-(2 ** 53 - 1), "int64Value"],
    [2 ** 53, "doubleValue"],
    [-0, "int64Value"],
    [-(2 ** 53), "doubleValue"],
    [0.5, "doubleValue"],
    [new Decimal("-12.50"), "decimalValue"],
  ];
  for (const [value, kind] of kinds) assert.equal(toMessage("c", value).kind.case, kind);
  assert.equal(fromMessage("c", toMessage("c", new Decimal("-12.50"))), "-12.50");
});

test("values that no column has are refused", () => {
  assert.throws(() => toMessage("c", 2n ** 63n), /column "c": 9223372036854775808 has more than 64 bits/);
  assert.throws(() => toMessage("c", new Date(NaN)), /column "c": the date is invalid/);
  assert.throws(() => toMessage("c", NaN), /column "c": NaN is not a number/);
  for (const time of ["-000044-03-15T12:00:00Z", "+010000-01-01T00:00:00Z"]) {
    assert.throws(() => toMessage("c", new Date(time)), /column "c": the date is outside the years 0001 to 9999/);
  }
  assert.throws(() => toMessage("c", new Decimal("1e5")), /column "c": the decimal "1e5" must be decimal digits/);
  assert.throws(() => toMessage("c", undefined as unknown as null), /column "c": undefined is not a type/);
  assert.throws(() => toMessage("c", [] as unknown as null), /column "c": Array is not a type/);
  assert.throws(() => toMessage("c", "half \ud83d"), /column "c": the text has half of a character/);
  assert.throws(() => toMessage("c", new Decimal(12.5 as unknown as string)), /column "c": a Decimal has a text, and not a number/);
  assert.throws(() => toMessage("c", Object.create(null) as null), /column "c": Object is not a type/);
});

test("rows that are no objects with columns are refused", () => {
  const rows = [new Map([["Total", 1.5]]), ["Total"], "Total", new Date(), Promise.resolve({ Total: 1.5 }), null];
  const types = ["Map", "Array", "string", "Date", "Promise", "null"];
  for (const [index, row] of rows.entries()) {
    const error = new TypeError(`a row is an object with a field for each column, and not of type ${types[index] ?? ""}`);
    assert.throws(() => rowToMessages(row as unknown as Row), error);
  }
});

test("durations are milliseconds or texts", () => {
  assert.deepEqual([250, "500ms", "20s", "1.5m", "2h"].map((text) => milliseconds("d", text as "20s")), [250, 500, 20_000, 90_000, 7_200_000]);
  for (const bad of [-1, NaN, Infinity, "20", "s", "1d", "1..5s"]) assert.throws(() => milliseconds("wait", bad as "20s"), /^RangeError: wait is/);
  for (const value of [0, 0.5, 1_500.25, 86_400_000]) assert.equal(durationMilliseconds(durationMessage(value)), value);
  assert.equal(durationMilliseconds(durationMessage(milliseconds("after", "100000h"))), 366 * 86_400_000);
});

test("options that are no object are refused, and not ignored", () => {
  const text = 'expected options such as { after: "30s" }, and not ';
  assert.throws(() => new Release("1m" as never), new TypeError(`${text}1m`));
  assert.throws(() => new Retry("x", 30 as never), new TypeError(`${text}30`));
  assert.throws(() => new Retry("x", null as never), new TypeError(`${text}null`));
  assert.equal(new Retry("x", { cause: "y" }).cause, "y");
});

test("the text of an error has the name of its class", () => {
  class Custom extends Error {}
  assert.equal(errorText(new Custom("text")), "Custom: text");
  assert.equal(errorText(new TypeError("")), "TypeError");
  assert.equal(errorText(undefined), "undefined: undefined");
  assert.equal(errorText(Object.create(null)), "object: a value without a text");
});
