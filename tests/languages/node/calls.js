// Makes every call of the API once, with the client that @grpc/proto-loader generates from the .proto file at run time.
// Arguments: the folder `proto`, and the address of the service.

const assert = require("node:assert");
const { promisify } = require("node:util");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

async function main(proto, address) {
  const definition = loader.loadSync("leasebroker/v1/lease_broker.proto", {
    includeDirs: [proto],
    enums: String,
    oneofs: true,
  });
  const { LeaseService } = grpc.loadPackageDefinition(definition).leasebroker.v1;
  const client = new LeaseService(address, grpc.credentials.createInsecure());
  const call = (method, request) => promisify(client[method]).call(client, { queue: "work", ...request });

  const item = (payload) => ({ columns: { payload: { stringValue: payload }, note: { nullValue: "NULL_VALUE" } } });
  const added = await call("Enqueue", { items: ["complete", "fail", "release"].map(item) });
  assert.deepStrictEqual(added.results.map((result) => Boolean(result.key)), Array(3).fill(true));

  const { leases } = await call("ClaimBatch", { workerId: "node", maxItems: 3 });
  assert.deepStrictEqual(leases.map((lease) => lease.item.columns.payload.stringValue), ["complete", "fail", "release"]);
  assert.deepStrictEqual(leases.map((lease) => lease.item.columns.note.kind), Array(3).fill("nullValue"));
  const ids = leases.map((lease) => lease.leaseId);

  const heartbeat = await call("Heartbeat", { renewals: ids.map((leaseId) => ({ leaseId })) });
  assert.deepStrictEqual(heartbeat.results.map((result) => result.outcome), Array(3).fill("OUTCOME_APPLIED"));

  const states = async (method, request) => (await call(method, request)).results.map((result) => result.state);
  const completions = [{ leaseId: ids[0], columns: { note: { stringValue: "written" } } }];
  assert.deepStrictEqual(await states("Complete", { completions }), ["ITEM_STATE_COMPLETED"]);
  const failures = [{ leaseId: ids[1], errorMessage: "no", deadLetter: true }];
  assert.deepStrictEqual(await states("Fail", { failures }), ["ITEM_STATE_DEAD"]);
  const releases = [{ leaseId: ids[2] }];
  assert.deepStrictEqual(await states("Release", { releases }), ["ITEM_STATE_READY"]);
  client.close();
}

main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
