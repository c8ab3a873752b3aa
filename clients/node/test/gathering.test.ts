/** The wait of the settler for further endings. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Gathering } from "../src/gathering.js";

interface Vector {
  readonly name: string;
  readonly slots: number;
  readonly running: number;
  readonly handler_ms: readonly number[];
  readonly wait_ms: number;
}

test("the settler gathers as the vectors say", () => {
  const text = readFileSync("../vectors/gathering.json", "utf8");
  const { cases } = JSON.parse(text) as { cases: Vector[] };
  for (const { name, slots, running, handler_ms, wait_ms } of cases) {
    const gathering = new Gathering(slots);
    for (const taken of handler_ms) gathering.note(taken);
    assert.equal(gathering.wait(running), wait_ms, name);
  }
});
