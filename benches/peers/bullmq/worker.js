// A child process of load.js with workers: sends "ready", starts on the first message, and reports the ids of
// completed jobs.
import { Worker } from "bullmq";

const [port, workers, concurrency] = process.argv.slice(2).map(Number);

// Sends the ids in lists, because the cost of one message per job would be measured too.
let ids = [];
const report = () => {
  if (ids.length > 0) process.send(ids);
  ids = [];
};
setInterval(report, 5);

const all = Array.from({ length: workers }, () => {
  const worker = new Worker("items", async () => {}, {
    connection: { host: "127.0.0.1", port },
    concurrency,
    autorun: false,
    removeOnComplete: { count: 0 },
  });
  worker.on("completed", (job) => ids.push(Number(job.id)));
  worker.on("error", (error) => {
    throw error;
  });
  return worker;
});
await Promise.all(all.map((worker) => worker.waitUntilReady()));
process.once("message", () => {
  for (const worker of all) worker.run();
});
process.send("ready");
