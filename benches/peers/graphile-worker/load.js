// Load generator for graphile-worker: adds jobs, works all of them in one process, and prints the jobs per second.
//   node load.js ITEMS PAYLOAD CONCURRENCY BATCH     BATCH: jobs per fetch; 0: one at a time, the default of graphile-worker
// Connects to the PostgreSQL of the PG… environment variables.
import { makeWorkerUtils, run, Logger } from "graphile-worker";
import pg from "pg";

const [items, payload, concurrency, batch] = process.argv.slice(2).map(Number);
const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const pgPool = new pg.Pool({ max: concurrency + 1 });
const fatal = (error) => {
  throw error;
};
pgPool.on("error", fatal);
pgPool.on("connect", (client) => client.on("error", fatal));

const utils = await makeWorkerUtils({ pgPool, logger: quiet });
await utils.migrate();
await pgPool.query("TRUNCATE graphile_worker._private_jobs");
await pgPool.query(
  `SELECT count(*) FROM graphile_worker.add_jobs((
     SELECT array_agg(ROW('item', json_build_object('at', at, 'payload', repeat('x', $2::int)), NULL, NULL, NULL, NULL, NULL,
       NULL)::graphile_worker.job_spec) FROM generate_series(0, $1::int - 1) AS at))`,
  [items, payload],
);
await pgPool.query("VACUUM ANALYZE graphile_worker._private_jobs");
await pgPool.query("CHECKPOINT");

const runs = new Uint8Array(items);
let left = items;
let last;
const allRun = new Promise((resolve) => (last = resolve));
// The settings of graphile-worker's documentation on performance.
const batches = batch > 0 ? { localQueue: { size: batch }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {};
const start = process.hrtime.bigint();
const runner = await run({
  pgPool,
  noHandleSignals: true,
  preset: { worker: { logger: quiet, concurrentJobs: concurrency, ...batches } },
  taskList: {
    item: ({ at }) => {
      runs[at] += 1;
      left -= 1;
      if (left === 0) last();
    },
  },
});
await allRun;
// Completions are written after the last job has run, and runner.stop() does not wait for all of them.
const anyLeft = async () => (await pgPool.query("SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS yes")).rows[0].yes;
while (await anyLeft());
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
await runner.stop();

const wrong = runs.filter((count) => count !== 1).length;
if (wrong !== 0) throw new Error(`${wrong} jobs did not run exactly once`);
await utils.release();
await pgPool.end();
console.log((items / seconds).toFixed(1));
