/** The part of a worker that serves one queue: its state, its handlers, and the parts that claim, settle and keep leases. */

import { status } from "@grpc/grpc-js";

import { AbandonedClaims } from "./abandoned.js";
import { Caller } from "./calls.js";
import { now } from "./clock.js";
import type { Token } from "./credentials.js";
import { LeaseBrokerError } from "./errors.js";
import { Events } from "./events.js";
import type { CallHealth, FailedAttempt } from "./health.js";
import type { Report } from "./heartbeats.js";
import { Keeper, type Keepers, NOWHERE } from "./keeper.js";
import type { Options, QueueOptions } from "./options.js";
import { Poller } from "./poller.js";
import { type AnyHandler, Runner } from "./runner.js";
import { Settler } from "./settler.js";
import { State } from "./state.js";
import { loadTracing } from "./tracing.js";
import type { Transport } from "./transport.js";
import { Watchdog } from "./watchdog.js";

/** The milliseconds that a cancelled handler has to end when the worker stops. */
const CANCEL_GRACE = 5_000;
/** The milliseconds after that for which settlements are sent again. Then the stop ends. */
const SETTLE_GRACE = 5_000;

/** What the queues of a worker share. */
export interface Connections {
  readonly transport: Transport;
  readonly token: Token | null;
  readonly health: CallHealth;
}

/** The parts of a queue that has started. */
interface Started {
  readonly abandoned: AbandonedClaims;
  readonly poller: Poller;
  readonly watchdog: Watchdog;
}

/** Serves one queue. */
export class QueueWorker {
  readonly events: Events;
  readonly state: State;
  #started: Started | null = null;
  /** The number of heartbeats in a row that were refused for the credentials, and that of those that end the worker. */
  #refusedBeats = 0;
  #maxRefusedBeats = 1;
  #onFatal: (error: unknown) => void = () => undefined;

  constructor(
    readonly options: Options,
    private readonly handler: AnyHandler,
    onEvent: QueueOptions["onEvent"],
  ) {
    this.events = new Events(options.queue, options.logger, onEvent);
    this.state = new State(options, this.events);
  }

  /** Returns the keeper of the queue. */
  addTo(keepers: Keepers, health: CallHealth): Keeper {
    const { queue, heartbeat } = this.options;
    if (!heartbeat) return new Keeper(queue, () => NOWHERE);
    return keepers.add(queue, this.state.refusedCheckpoints, (report) => {
      this.#read(report, health);
    });
  }

  async start({ transport, token, health }: Connections, keeper: Keeper, onFatal: (error: unknown) => void): Promise<void> {
    const { state, options } = this;
    this.#onFatal = onFatal;
    // The first refusal makes the keeper read the token again.
    if (token !== null) this.#maxRefusedBeats = 2;
    const onRetry = (event: object) => {
      this.events.emit("retry", undefined, event);
    };
    const caller = new Caller(transport, token, onRetry, health);
    const abandoned = new AbandonedClaims(options, caller);
    const poller = new Poller(state, caller, abandoned, health, onFatal);
    const watchdog = new Watchdog(state);
    const runner = new Runner(state, this.handler, await loadTracing());
    state.parts = { keeper, start: runner.start, watch: watchdog.watch, look: watchdog.look };
    this.#started = { abandoned, poller, watchdog };
    new Settler(state, caller, abandoned, onFatal).start();
    poller.start();
  }

  /** Stops in order. Returns false if handlers did not stop. `hurry` cancels the handlers at once. */
  async stop(grace: number, hurry: () => boolean): Promise<boolean> {
    if (this.#started === null) return true;
    const { abandoned, poller, watchdog } = this.#started;
    const { state } = this;
    const begun = now();
    this.events.emit("stopping");
    state.settleUntil = begun + grace + CANCEL_GRACE + SETTLE_GRACE;
    state.stop();
    await poller.stop();
    const released = abandoned.release({ forget: false });
    await state.waitFor(() => state.runs.size === 0 || hurry(), grace - (now() - begun));
    state.cancelAll();
    await state.waitFor(() => state.runs.size === 0, CANCEL_GRACE);
    const left = state.leaveHandlers();
    await state.waitFor(() => state.held.size === 0 && !state.settling, state.settleUntil - now());
    watchdog.close();
    await released;
    await abandoned.release({ forget: true, limit: state.settleUntil });
    return !left;
  }

  #read(report: Report, health: CallHealth): void {
    const { state } = this;
    switch (report.type) {
      case "beat":
        health.note(null);
        this.#refusedBeats = 0;
        readBeat(state, report.sentAt, report.results);
        break;
      case "failed":
        health.note(report.failure);
        this.options.logger.debug(`a heartbeat failed: ${status[report.failure.code]}: ${report.failure.message}`);
        if (report.isRefused) this.#readRefusal(report.failure);
        break;
      case "checkpoint_refused":
        state.logRefusedCheckpoint(state.held.get(report.id), report.bytes, report.text);
        break;
      case "ready":
      case "unauthenticated":
    }
  }

  #readRefusal({ code, reason, message }: FailedAttempt): void {
    this.#refusedBeats += 1;
    if (this.#refusedBeats === this.#maxRefusedBeats) this.#onFatal(new LeaseBrokerError("Heartbeat", status[code], reason, message));
  }
}

/** Records the answer to a heartbeat. */
export function readBeat(state: State, sentAt: number, results: Extract<Report, { type: "beat" }>["results"]): void {
  state.events.emit("heartbeat", undefined, { count: results.filter(({ timeLeft }) => timeLeft !== null).length });
  for (const { id, timeLeft, reason } of results) {
    const lease = state.held.get(id);
    if (lease === undefined) continue;
    if (timeLeft !== null) lease.extend(sentAt, timeLeft);
    // A lease that is being settled may have ended by that. The result of the settlement says so.
    else if (lease.phase === "waiting" || lease.phase === "running" || lease.phase === "done") state.lose(lease, reason);
  }
}
