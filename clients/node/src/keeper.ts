/** The keeper: keeps leases alive from a place that no handler can block. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker as Thread } from "node:worker_threads";

import type { RefusedLengths } from "./checkpoints.js";
import type { Credentials, Token } from "./credentials.js";
import { type Command, KeeperHost, type KeeperOptions, type QueueCommand, type QueueReport, type Report } from "./heartbeats.js";
import type { HeldLease } from "./leases.js";
import type { Logger } from "./options.js";

/** The milliseconds after which a token is looked at again. */
const TOKEN_INTERVAL = 10_000;

/** The place where heartbeats are sent. */
export interface Place {
  post(command: QueueCommand): void;
  drain(): void;
  close(): Promise<void>;
}

/** The options of the keepers of a worker. */
export interface KeepersOptions {
  readonly address: string | readonly string[];
  readonly credentials: Credentials;
  readonly token: Token | null;
  readonly place: "thread" | "loop";
  readonly logger: Logger;
}

/** The keepers of the queues of a worker. They share a place and a connection. */
export class Keepers {
  readonly #receivers = new Map<string, (report: Report) => void>();
  readonly #refusedCheckpoints = new Map<string, SharedArrayBuffer>();
  #place: Place = NOWHERE;
  #tokenTimer: NodeJS.Timeout | undefined;
  #look: (fresh: boolean) => void = () => undefined;

  /** Returns the keeper of a queue, whose reports `receive` gets. */
  add(queue: string, refusedCheckpoints: RefusedLengths, receive: (report: Report) => void): Keeper {
    this.#receivers.set(queue, receive);
    this.#refusedCheckpoints.set(queue, refusedCheckpoints.memory);
    return new Keeper(queue, () => this.#place);
  }

  /** Connects. Without queues it does nothing. */
  async start({ address, credentials, token, place, logger }: KeepersOptions, onError: (error: Error) => void): Promise<void> {
    if (this.#receivers.size === 0) return;
    const options: KeeperOptions = { address, credentials, refusedCheckpoints: this.#refusedCheckpoints };
    const receive = ({ queue, report }: QueueReport) => {
      if (report.type === "unauthenticated") this.#look(true);
      else this.#receivers.get(queue)?.(report);
    };
    const file = threadFile();
    if (place === "thread" && file === null) {
      logger.warn(
        "heartbeats are sent from the event loop, because keeper_thread.js is not beside the program: a handler that " +
          'blocks the loop for a third of its lease loses it. Keep "lease-broker" out of the bundle',
      );
    }
    this.#place = place === "thread" && file !== null ? await OwnThread.start(file, options, receive, onError) : new Loop(options, receive);
    if (token !== null) this.#refreshToken(token, logger);
  }

  async close(): Promise<void> {
    clearInterval(this.#tokenTimer);
    await this.#place.close();
  }

  /** Sends each new token to the place, which cannot call a function of this thread. */
  #refreshToken(source: Token, logger: Logger): void {
    let last: string | null = null;
    this.#look = (fresh) => {
      source.text(fresh).then(
        (token) => {
          if (token !== last) this.#place.post({ queue: "", command: { type: "token", token } });
          last = token;
        },
        (error: unknown) => {
          logger.warn("the token cannot be read", error);
        },
      );
    };
    // The start of the worker does not wait for the token, because a function may never return it.
    this.#look(false);
    this.#tokenTimer = setInterval(this.#look, TOKEN_INTERVAL, false);
  }
}

/** Returns the file of the keeper's thread. Null: the program is bundled without it. */
function threadFile(): string | null {
  const file = typeof __dirname === "undefined" ? null : join(__dirname, "keeper_thread.js");
  return file !== null && existsSync(file) ? file : null;
}

/** Keeps the leases of a queue alive: sends them to the place. */
export class Keeper {
  /** The ids of leases that the place is to forget. They are sent together. */
  #forgotten: string[] = [];

  constructor(
    private readonly queue: string,
    private readonly place: () => Place,
  ) {}

  /** Sends heartbeats for the leases of a claim, or for one lease, from now on. `atOnce`: the first one immediately. */
  keep(leases: readonly HeldLease[], atOnce = false): void {
    let duration = Infinity;
    let deadline = Infinity;
    for (const lease of leases) {
      duration = Math.min(duration, lease.duration);
      deadline = Math.min(deadline, lease.deadline);
    }
    const needsBeat = leases.some((lease) => lease.needsBeat);
    const keep = leases.map((lease) => lease.id).join(" ");
    const forget = this.#forgotten.join(" ");
    this.#forgotten = [];
    this.#post({ type: "update", keep, duration, deadline, needsBeat, atOnce, forget });
  }

  /** Sends no more heartbeats for a lease. */
  forget(lease: HeldLease): void {
    if (this.#forgotten.push(lease.id) > 1) return;
    // The leases of the next claim often follow, and share the message.
    queueMicrotask(() => {
      if (this.#forgotten.length > 0) this.keep([]);
    });
  }

  /** Stores a checkpoint with the next heartbeat. */
  checkpoint(lease: HeldLease, bytes: Uint8Array): void {
    this.#post({ type: "checkpoint", id: lease.id, bytes });
  }

  /** Passes on the reports that have arrived, without waiting for the event loop. */
  drain(): void {
    this.place().drain();
  }

  #post(command: Command): void {
    this.place().post({ queue: this.queue, command });
  }
}

/** Sends heartbeats from a worker thread with a connection of its own. */
class OwnThread implements Place {
  readonly #thread: Thread;
  readonly #port: MessagePort;
  readonly #receive: (report: QueueReport) => void;
  #closed = false;

  /** Starts the thread. Returns when it can send heartbeats. */
  static async start(
    file: string,
    options: KeeperOptions,
    receive: (report: QueueReport) => void,
    onError: (error: Error) => void,
  ): Promise<OwnThread> {
    return new Promise<OwnThread>((resolve, reject) => {
      const onReport = (report: QueueReport) => {
        if (report.report.type === "ready") resolve(thread);
        else receive(report);
      };
      const thread = new OwnThread(file, options, onReport, (error) => {
        reject(error);
        onError(error);
      });
    });
  }

  private constructor(
    file: string,
    options: KeeperOptions,
    receive: (report: QueueReport) => void,
    onError: (error: Error) => void,
  ) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#receive = receive;
    port1.on("message", receive);
    this.#thread = new Thread(file, {
      workerData: { options, port: port2 },
      transferList: [port2],
      // The program's own preloaded modules are not for this thread.
      execArgv: [],
      name: "lease-broker-keeper",
    });
    this.#thread.on("error", onError);
    this.#thread.on("exit", (code) => {
      if (!this.#closed) onError(new Error(`the keeper's thread ended with code ${code}`));
    });
  }

  post(command: QueueCommand): void {
    if (!this.#closed) this.#port.postMessage(command);
  }

  drain(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      this.#receive(next.message as QueueReport);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#port.close();
    await this.#thread.terminate();
  }
}

/** Sends heartbeats from the event loop, which a handler can block. Reports are passed on as they arrive. */
class Loop implements Place {
  readonly #host: KeeperHost;

  constructor(options: KeeperOptions, receive: (report: QueueReport) => void) {
    this.#host = new KeeperHost(options, receive);
  }

  post(command: QueueCommand): void {
    this.#host.handle(command);
  }

  drain(): void {
    // There is nothing that waits.
  }

  close(): Promise<void> {
    this.#host.close();
    return Promise.resolve();
  }
}

/** Sends no heartbeats: the lease is all the time that a handler has. A failure or a release carries checkpoints. */
export const NOWHERE: Place = { post: () => undefined, drain: () => undefined, close: () => Promise.resolve() };
