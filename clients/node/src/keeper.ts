/** The keeper: keeps leases alive from a place that no handler can block. */

import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker as Thread } from "node:worker_threads";

import type { Token } from "./credentials.js";
import { type Command, Heartbeats, type KeeperOptions, type Report } from "./heartbeats.js";
import type { HeldLease } from "./leases.js";
import type { Logger, Options } from "./options.js";

/** The milliseconds after which a token is looked at again. */
const TOKEN_INTERVAL = 10_000;

/** Keeps the leases of a worker alive. */
export interface Keeper {
  /** Sends heartbeats for leases from now on. */
  keep(leases: readonly HeldLease[]): void;
  /** Sends no more heartbeats for a lease. */
  forget(lease: HeldLease): void;
  /** Stores a checkpoint with the next heartbeat. */
  checkpoint(lease: HeldLease, bytes: Uint8Array): void;
  /** Passes on the reports that have arrived, without waiting for the event loop. */
  drain(): void;
  close(): Promise<void>;
}

/** The place where heartbeats are sent. */
interface Place {
  post(command: Command): void;
  drain(): void;
  close(): Promise<void>;
}

/** Starts the keeper that the options ask for. */
export async function startKeeper(
  options: Options,
  onReport: (report: Report) => void,
  onError: (error: Error) => void,
): Promise<Keeper> {
  if (!options.heartbeat) return new NoKeeper();
  const { address, credentials, queue } = options;
  const token = options.token === null ? null : await options.token.text();
  const keeperOptions: KeeperOptions = { address, credentials, queue, token };
  let refresh: (fresh: boolean) => void = () => undefined;
  const receive = (report: Report) => {
    if (report.type === "unauthenticated") refresh(true);
    else onReport(report);
  };
  const place =
    options.keeper === "loop"
      ? new Loop(keeperOptions, receive)
      : await OwnThread.start(keeperOptions, receive, onError);
  const keeper = new RemoteKeeper(place);
  if (options.token !== null) refresh = keeper.refreshToken(options.token, token, options.logger);
  return keeper;
}

class RemoteKeeper implements Keeper {
  #tokenTimer: NodeJS.Timeout | undefined;
  /** The ids of leases that the keeper is to forget. They are sent together. */
  #forgotten: string[] = [];

  constructor(private readonly place: Place) {}

  keep(leases: readonly HeldLease[]): void {
    this.#update(leases);
  }

  forget(lease: HeldLease): void {
    if (this.#forgotten.push(lease.id) > 1) return;
    // The leases of the next claim often follow, and share the message.
    queueMicrotask(() => {
      if (this.#forgotten.length > 0) this.#update([]);
    });
  }

  checkpoint(lease: HeldLease, bytes: Uint8Array): void {
    this.place.post({ type: "checkpoint", id: lease.id, bytes });
  }

  #update(leases: readonly HeldLease[]): void {
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
    this.place.post({ type: "update", keep, duration, deadline, needsBeat, forget });
  }

  drain(): void {
    this.place.drain();
  }

  close(): Promise<void> {
    clearInterval(this.#tokenTimer);
    return this.place.close();
  }

  /** Sends each new token to the keeper, which cannot call a function of this thread. Returns a function that looks now. */
  refreshToken(source: Token, first: string | null, logger: Logger) {
    let last = first;
    const refresh = async (fresh: boolean) => {
      const token = await source.text(fresh);
      if (token !== last) this.place.post({ type: "token", token });
      last = token;
    };
    const look = (fresh: boolean): void => {
      refresh(fresh).catch((error: unknown) => {
        logger.warn("the token cannot be read", error);
      });
    };
    this.#tokenTimer = setInterval(look, TOKEN_INTERVAL, false);
    return look;
  }
}

/** Sends heartbeats from a worker thread with a connection of its own. */
class OwnThread implements Place {
  readonly #thread: Thread;
  readonly #port: MessagePort;
  readonly #receive: (report: Report) => void;
  #closed = false;

  /** Starts the thread. Returns when it can send heartbeats. */
  static async start(options: KeeperOptions, receive: (report: Report) => void, onError: (error: Error) => void) {
    return new Promise<OwnThread>((resolve, reject) => {
      const onReport = (report: Report) => {
        if (report.type === "ready") resolve(thread);
        else receive(report);
      };
      const thread = new OwnThread(options, onReport, (error) => {
        reject(error);
        onError(error);
      });
    });
  }

  private constructor(options: KeeperOptions, receive: (report: Report) => void, onError: (error: Error) => void) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#receive = receive;
    port1.on("message", receive);
    this.#thread = new Thread(new URL("./keeper_thread.js", import.meta.url), {
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

  post(command: Command): void {
    if (!this.#closed) this.#port.postMessage(command);
  }

  drain(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      this.#receive(next.message as Report);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#port.close();
    await this.#thread.terminate();
  }
}

/** Sends heartbeats from the event loop, which a handler can block. */
class Loop implements Place {
  readonly #heartbeats: Heartbeats;

  constructor(options: KeeperOptions, receive: (report: Report) => void) {
    this.#heartbeats = new Heartbeats(options, receive);
  }

  post(command: Command): void {
    this.#heartbeats.handle(command);
  }

  drain(): void {
    // Reports are passed on as they arrive.
  }

  close(): Promise<void> {
    this.#heartbeats.close();
    return Promise.resolve();
  }
}

/** Sends no heartbeats. */
class NoKeeper implements Keeper {
  keep(): void {
    // The lease is all the time that the handler has.
  }
  forget(): void {
    // No lease is kept.
  }
  checkpoint(): void {
    // A failure or a release carries it.
  }
  drain(): void {
    // There are no reports.
  }
  close(): Promise<void> {
    return Promise.resolve();
  }
}
