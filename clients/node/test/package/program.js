// Imports the installed package.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";

import { fromBinary, toBinary, create } from "@bufbuild/protobuf";
import { Worker } from "lease-broker";
import { ColumnValueSchema } from "lease-broker/v1";

assert.ok(existsSync(new URL("./index.d.ts", import.meta.resolve("lease-broker"))));
assert.ok(existsSync(new URL("./keeper_thread.js", import.meta.resolve("lease-broker"))));
const value = create(ColumnValueSchema, { kind: { case: "nullValue", value: 0 } });
assert.equal(fromBinary(ColumnValueSchema, toBinary(ColumnValueSchema, value)).kind.case, "nullValue");
assert.equal(new Worker("127.0.0.1:1", "orders", () => undefined).counters().claimed, 0);
