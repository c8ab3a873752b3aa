// Load on a queue, as `Load` in `tests/balancers/load.rs` describes it. Arguments: the folder `proto`, address, service config.

const { randomUUID } = require("node:crypto");
const { setTimeout: sleep } = require("node:timers/promises");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [proto, address, serviceConfig] = process.argv.slice(2);
// Tries of an Enqueue, which together take longer than the restart of a broker.
const TRIES = 100;
const seen = { calls: 0, failures: [], added: [], completed: [] };
let stopped = false;

const definition = loader.loadSync("leasebroker/v1/lease_broker.proto", {
  includeDirs: [proto],
  enums: String,
  defaults: true,
});
const { LeaseService } = grpc.loadPackageDefinition(definition).leasebroker.v1;
const options = { "grpc.enable_retries": serviceConfig ? 1 : 0 };
if (serviceConfig) options["grpc.service_config"] = serviceConfig;
const client = new LeaseService(address, grpc.credentials.createInsecure(), options);

function ended() {
  seen.calls += 1;
  if (seen.calls === 1) process.stdout.write("begun\n");
}

function send(method, request) {
  return new Promise((resolve, reject) => {
    client[method](request, { deadline: Date.now() + 30_000 }, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

async function call(method, request) {
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      const response = await send(method, { queue: "work", ...request });
      ended();
      return response;
    } catch (error) {
      await sleep(50);
      if (left > 0 && serviceConfig && method === "Enqueue" && error.code === grpc.status.UNAVAILABLE) continue;
      seen.failures.push([method, error.code, error.details]);
      ended();
      return null;
    }
  }
}

const requestId = () => (serviceConfig ? randomUUID() : "");

async function produce() {
  while (!stopped) {
    const payloads = Array.from({ length: 5 }, () => randomUUID());
    const items = payloads.map((payload) => ({ columns: { payload: { stringValue: payload } } }));
    if (await call("Enqueue", { items, requestId: randomUUID() })) seen.added.push(...payloads);
    await sleep(100);
  }
}

async function work(workerId) {
  while (!stopped) {
    const claim = { workerId, maxItems: 5, requestId: requestId(), waitTimeout: { seconds: 1 } };
    const claimed = await call("ClaimBatch", claim);
    if (!claimed?.leases.length) continue;
    const completions = claimed.leases.map(({ leaseId }) => ({ leaseId }));
    const settled = await call("Complete", { completions });
    if (!settled) continue;
    const applied = claimed.leases.filter((_, index) => settled.results[index].outcome === "OUTCOME_APPLIED");
    seen.completed.push(...applied.map((lease) => lease.item.key));
  }
}

async function main() {
  process.stdin.on("end", () => (stopped = true)).resume();
  await Promise.all([produce(), ...[0, 1, 2, 3].map((n) => work(`worker-${n}`))]);
  console.log(JSON.stringify(seen));
  client.close();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
