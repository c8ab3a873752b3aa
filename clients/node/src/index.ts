/** Workers and producers for lease-broker, which leases rows of SQL tables to workers. */

export { Client, type ClientOptions, type EnqueueOptions } from "./client.js";
export type { Duration } from "./clock.js";
export { type Credentials, type Pem, plaintext, tls, type TokenSource } from "./credentials.js";
export {
  type Applied,
  BatchError,
  Cancelled,
  type Cause,
  DeadLetter,
  LeaseBrokerError,
  Release,
  Retry,
} from "./errors.js";
export type { Event, EventName, Observer } from "./events.js";
export type { FollowUp, Item, Result } from "./item.js";
export type { Context } from "./leases.js";
export type { BatchOptions, BatchQueueOptions, Logger, QueueOptions, WorkerOptions } from "./options.js";
export type { Middleware } from "./runner.js";
export { type ColumnValue, Decimal, type NewColumnValue, type Row, UnknownColumnError } from "./values.js";
export { type BatchHandler, type Handler, Worker } from "./worker.js";
