// Load generator for BullMQ: adds jobs, works all of them in child processes, and prints the jobs per second.
//   node load.js PORT ITEMS PAYLOAD PROCESSES WORKERS CONCURRENCY     WORKERS: of all processes; CONCURRENCY: jobs per worker
import { fork } from "node:child_process";
import { Queue } from "bullmq";

const [port, items, payload, processes, workers, concurrency] = process.argv.slice(2).map(Number);
const queue = new Queue("items", { connection: { host: "127.0.0.1", port } });

const data = { payload: "x".repeat(payload) };
for (let done = 0; done < items; done += 1000) {
  const count = Math.min(1000, items - done);
  await queue.addBulk(Array.from({ length: count }, () => ({ name: "item", data })));
}

const program = new URL("./worker.js", import.meta.url);
const children = Array.from({ length: processes }, () => fork(program, [port, workers / processes, concurrency].map(String)));
const firstMessage = (child) => new Promise((resolve) => child.once("message", resolve));
await Promise.all(children.map(firstMessage));

// Ids start at 1. A job is done when the server has confirmed its completion.
const done = new Uint8Array(items + 1);
let left = items;
const finished = new Promise((resolve, reject) => {
  for (const child of children) {
    child.on("exit", () => reject(new Error("a process of workers ended")));
    child.on("message", (ids) => {
      for (const id of ids) {
        if (done[id] !== 0) reject(new Error(`job ${id} was completed twice`));
        done[id] = 1;
      }
      left -= ids.length;
      if (left === 0) resolve();
    });
  }
});
const start = process.hrtime.bigint();
for (const child of children) child.send("start");
await finished;
const seconds = Number(process.hrtime.bigint() - start) / 1e9;

for (const child of children) {
  child.removeAllListeners("exit");
  child.kill();
}
await queue.close();
console.log((items / seconds).toFixed(1));
