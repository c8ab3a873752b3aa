/** The worker thread of the keeper. */

import { type MessagePort, workerData } from "node:worker_threads";

import { type Command, Heartbeats, type KeeperOptions, type Report } from "./heartbeats.js";

const { options, port } = workerData as { options: KeeperOptions; port: MessagePort };
const heartbeats = new Heartbeats(options, (report) => {
  port.postMessage(report);
});
port.on("message", (command: Command) => {
  heartbeats.handle(command);
});
port.postMessage({ type: "ready" } satisfies Report);
