/** The worker thread of the keeper. */

import { type MessagePort, workerData } from "node:worker_threads";

import { KeeperHost, type KeeperOptions, type QueueCommand, type QueueReport } from "./heartbeats.js";

const { options, port } = workerData as { options: KeeperOptions; port: MessagePort };
const host = new KeeperHost(options, (report) => {
  port.postMessage(report);
});
port.on("message", (command: QueueCommand) => {
  host.handle(command);
});
port.postMessage({ queue: "", report: { type: "ready" } } satisfies QueueReport);
