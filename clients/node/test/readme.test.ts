/** Runs the worker of the README as it is written. */

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Client } from "../src/index.js";
import { startBroker } from "./support/broker.js";

const PACKAGE = fileURLToPath(new URL("../../", import.meta.url));
const CONFIGURATION = `
[store]
path = "queues.db"
[admin]
listen = ""
[queues.orders]
managed_columns = { customer = "text", label = "text" }
writable = ["label"]
on_complete = "keep"
[queues.mail]
managed_columns = { text = "text" }
`;
const TSCONFIG = {
  compilerOptions: { target: "ES2023", module: "NodeNext", strict: true, types: ["node"], outDir: "out" },
  files: ["worker.ts"],
};

/** Compiles the first program of the README in a project that has this package. Returns its path. */
function compile(folder: string, address: string): string {
  const [, program] = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(PACKAGE, "README.md"), "utf8")) ?? [];
  assert.ok(program !== undefined && program.trim().split("\n").length <= 20);
  assert.equal(program.split("127.0.0.1:50051").length, 2);
  mkdirSync(join(folder, "node_modules", "@types"), { recursive: true });
  symlinkSync(PACKAGE, join(folder, "node_modules", "lease-broker"));
  symlinkSync(join(PACKAGE, "node_modules/@types/node"), join(folder, "node_modules/@types/node"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(TSCONFIG));
  writeFileSync(join(folder, "worker.ts"), program.replace("127.0.0.1:50051", address));
  execFileSync(join(PACKAGE, "node_modules/.bin/tsc"), { cwd: folder, stdio: "inherit" });
  return join(folder, "out", "worker.js");
}

async function stop(worker: ChildProcess): Promise<void> {
  if (worker.exitCode === null && worker.kill("SIGTERM")) await once(worker, "exit");
}

test("the worker of the README processes orders until SIGTERM", async (t) => {
  const broker = await startBroker(t, CONFIGURATION);
  if (broker === null) return;
  // The package's exports point to `dist`.
  execFileSync(join(PACKAGE, "node_modules/.bin/tsc"), ["-p", join(PACKAGE, "tsconfig.build.json")]);
  const folder = mkdtempSync(join(tmpdir(), "lease-broker-"));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  const program = compile(folder, broker.address);
  const client = new Client(broker.address);
  await client.enqueue("orders", [{ customer: "Ada" }, { customer: null }, { customer: "Grace" }]);
  client.close();
  const worker = spawn(process.execPath, [program], { stdio: "inherit" });
  t.after(() => stop(worker));
  while (broker.sql("SELECT 1 FROM orders WHERE lease_state IN (0, 1)").length > 0) await sleep(100);
  await stop(worker);
  assert.equal(worker.exitCode, 0);
  assert.deepEqual(broker.sql("SELECT label, lease_error AS error FROM orders ORDER BY id"), [
    { label: "Ada #1", error: null },
    { label: null, error: "DeadLetter: no customer" },
    { label: "Grace #1", error: null },
  ]);
  assert.deepEqual(broker.sql("SELECT text FROM mail ORDER BY text"), [{ text: "sent to Ada #1" }, { text: "sent to Grace #1" }]);
});
