// A CommonJS program in TypeScript, as NestJS makes them, whose bundle lacks the keeper's thread.
import { rmSync } from "node:fs";
import { join } from "node:path";

import { type Handler, Worker } from "lease-broker";
import { ColumnValueSchema } from "lease-broker/v1";

if (ColumnValueSchema.typeName !== "leasebroker.v1.ColumnValue") throw new Error("the messages are missing");
rmSync(join(require.resolve("lease-broker"), "../keeper_thread.js"));
const warnings: string[] = [];
const ignore = () => undefined;
const logger = { debug: ignore, info: ignore, warn: (text: string) => warnings.push(text), error: ignore };
const handler: Handler = () => undefined;
const worker = new Worker("127.0.0.1:1", "orders", handler, { logger });

async function main(): Promise<void> {
  await worker.start();
  await worker.stop(0);
  if (!warnings.some((text) => text.includes("from the event loop"))) throw new Error(`no warning: ${warnings.join()}`);
}
main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
