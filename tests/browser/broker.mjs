// A broker process for a test: its folder, its configuration, its commands and its end.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const run = promisify(execFile);
const program = resolve(process.env.LEASE_BROKER ?? "target/debug/lease-broker");

export class Broker {
  // Starts a broker with this configuration. The admin port is `admin`, or a free one.
  static async start(toml, { prepare = async () => {}, more = "" } = {}) {
    const broker = new Broker();
    broker.folder = await mkdtemp(join(tmpdir(), "lease-broker-browser-"));
    broker.more = more;
    broker.toml = toml;
    await prepare(broker);
    await broker.serve("127.0.0.1:0", "127.0.0.1:0");
    return broker;
  }

  path(name) {
    return join(this.folder, name);
  }

  // Starts the process on these addresses, and waits until it prints them.
  async serve(listen, admin) {
    await writeFile(this.path("config.toml"), `${this.toml}\n${this.more}`);
    const flags = ["serve", "--config", "config.toml", "--store", "store.db", "--listen", listen, "--admin-listen", admin];
    this.child = spawn(program, flags, { cwd: this.folder, env: {}, stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    this.child.stderr.on("data", (text) => { this.log += text; });
    this.exited = once(this.child, "exit");
    for await (const line of createInterface({ input: this.child.stdout })) {
      const grpc = line.match(/listens on ([^,]+),/);
      if (grpc) this.address = grpc[1];
      const port = line.match(/^admin port: (https?:\/\/(.+))$/);
      if (port) {
        [, this.url, this.admin] = port;
        this.child.stdout.resume();
        return;
      }
    }
    throw new Error(`the broker did not start: ${this.log}`);
  }

  // Runs a command of the program, and returns its output as text.
  async command(...words) {
    return (await run(program, words, { cwd: this.folder, env: {}, maxBuffer: 64 << 20 })).stdout;
  }

  // Runs a command that calls the broker. Returns its output, one JSON object per line.
  async call(...words) {
    const text = await this.command(...words, "--output", "json", "--address", `http://${this.address}`);
    return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }

  async enqueue(queue, items, ...flags) {
    const file = this.path(`${queue}-${Math.random()}.jsonl`);
    await writeFile(file, items.map((item) => JSON.stringify(item)).join("\n"));
    await this.call("enqueue", queue, "--file", file, ...flags);
  }

  async claim(queue, limit, ...flags) {
    const leases = await this.call("claim", queue, "--limit", String(limit), "--lease", "1h", ...flags);
    return leases.map((lease) => lease.lease_id);
  }

  // Adds an item, and lets a worker fail it for good.
  async addDead(queue, columns, error) {
    await this.enqueue(queue, [columns]);
    const ids = await this.claim(queue, 1, "--worker", "worker-1");
    await this.call("fail", queue, ...ids, "--error", error, "--dead-letter");
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.exited;
  }

  // Ends the process if it still runs. Returns its log.
  async end() {
    const runs = this.child.exitCode === null && this.child.signalCode === null;
    if (runs) await this.kill();
    await rm(this.folder, { recursive: true, force: true });
    return `the broker ${runs ? "was running" : "had ended"}; its log:\n${this.log}`;
  }
}
