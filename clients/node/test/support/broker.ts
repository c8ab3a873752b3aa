/** A broker for tests. The environment variable LEASE_BROKER has the path of its binary. */

import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { promisify } from "node:util";

import { Client, type Row } from "../../src/index.js";

const CONFIGURATION = `
[store]
path = "queues.db"
[admin]
listen = ""
[queues.work]
managed_columns = { payload = "text", amount = "integer", result = "text" }
writable = ["result"]
on_complete = "keep"
max_attempts = 3
# Longer than a test, so that a failed item does not come back.
backoff = { initial = "10m", factor = 2.0, max = "1h", jitter = 0.2 }
checkpoint = { max_bytes = 100 }
[queues.mail]
managed_columns = { number = "integer not null" }
`;

/** The values of the column lease_state. */
export const READY = 0;
export const LEASED = 1;
export const DELAYED = 2;
export const COMPLETED = 3;
export const DEAD = 4;

/** A broker process with its own database. */
export class Broker {
  readonly folder = mkdtempSync(join(tmpdir(), "lease-broker-"));
  address = "127.0.0.1:0";
  #process!: ChildProcess;

  constructor(private readonly binary: string) {}

  /** Starts the process, on its last port if it had one. */
  async start(): Promise<void> {
    writeFileSync(join(this.folder, "queues.toml"), CONFIGURATION);
    const args = ["serve", "--config", "queues.toml", "--listen", this.address];
    this.#process = spawn(this.binary, args, { cwd: this.folder, stdio: ["ignore", "pipe", "ignore"] });
    if (this.#process.stdout === null) throw new Error("the broker has no output");
    for await (const line of createInterface({ input: this.#process.stdout })) {
      const address = / listens on ([^ ,]+)/.exec(line)?.[1];
      if (address === undefined) throw new Error(line);
      this.address = address;
      return;
    }
    throw new Error("the broker has ended");
  }

  /** Kills the process. */
  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill("SIGKILL");
    await once(this.#process, "exit");
  }

  /** Takes the lease of an item of the queue `work` away, as an operator does. */
  async cancel(key: string, reason: string, delay: string): Promise<void> {
    const args = ["cancel", "work", key, "--reason", reason, "--delay", delay, "--address", `http://${this.address}`];
    await promisify(execFile)(this.binary, args);
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true });
  }

  /** Runs an SQL statement and returns its rows. */
  sql(statement: string): Record<string, unknown>[] {
    const script = [
      "import json, sqlite3, sys",
      "connection = sqlite3.connect('queues.db', timeout=10)",
      "connection.row_factory = sqlite3.Row",
      "with connection: rows = [dict(row) for row in connection.execute(sys.argv[1])]",
      "print(json.dumps(rows))",
    ].join("\n");
    const output = execFileSync("python3", ["-c", script, statement], { cwd: this.folder, encoding: "utf8" });
    return JSON.parse(output) as Record<string, unknown>[];
  }

  /** Returns the number of rows of the queue `work` by state. */
  states(): Record<number, number> {
    const rows = this.sql("SELECT lease_state, count(*) AS rows FROM work GROUP BY lease_state");
    return Object.fromEntries(rows.map((row) => [row.lease_state, row.rows])) as Record<number, number>;
  }

  /** Adds rows to the queue `work`. */
  async enqueue(rows: readonly Row[]): Promise<string[]> {
    using client = new Client(this.address);
    return await client.enqueue("work", rows);
  }
}

/** Starts a broker for a test. Skips the test and returns null if there is no binary. */
export async function startBroker(test: TestContext): Promise<Broker | null> {
  const binary = process.env.LEASE_BROKER;
  if (binary === undefined) {
    test.skip("the environment variable LEASE_BROKER is not set");
    return null;
  }
  const broker = new Broker(binary);
  test.after(() => broker.close());
  await broker.start();
  return broker;
}
