/** The vectors of the state machine in `clients/vectors`, which all libraries share. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { mock, test } from "node:test";

import { create, type DescMessage, type DescMethodUnary, type MessageShape } from "@bufbuild/protobuf";
import { Metadata, type ServiceError, status } from "@grpc/grpc-js";

import { AbandonedClaims } from "../src/abandoned.js";
import { type Answer, Caller, type CallOptions } from "../src/calls.js";
import { durationMessage, setClock } from "../src/clock.js";
import { completed, failed, ofThrow, released } from "../src/endings.js";
import { LeaseBrokerError } from "../src/errors.js";
import { type EventDetails, type EventName, EVENT_NAMES, Events } from "../src/events.js";
import { CallHealth } from "../src/health.js";
import { Heartbeats } from "../src/heartbeats.js";
import { Keeper } from "../src/keeper.js";
import type { Run } from "../src/leases.js";
import { checkOptions, DEFAULT_LOGGER } from "../src/options.js";
import { Poller } from "../src/poller.js";
import { readBeat } from "../src/queue_worker.js";
import { Settler } from "../src/settler.js";
import { State } from "../src/state.js";
import type { Broker } from "../src/transport.js";
import {
  ClaimBatchResponseSchema,
  CompleteResponseSchema,
  FailResponseSchema,
  HeartbeatResponseSchema,
  LeaseSchema,
  Outcome,
  RefusalReason,
  ReleaseResponseSchema,
} from "../src/v1.js";
import { Watchdog } from "../src/watchdog.js";

interface Step {
  at_ms: number;
  event: string;
  actions: string[];
  wakes_by_ms?: number;
  leases?: string[];
  time_left_ms?: number;
  sent_ms?: number;
  run?: string[];
  with?: string;
  text?: string;
  lease?: string;
  bytes?: number;
  to?: string;
  outcomes?: Record<string, string>;
  next?: string[];
}

interface Case {
  name: string;
  options: { slots?: number; batch?: number; heartbeat?: boolean; time_limit_ms?: number; stuck_after_ms?: number; max_stuck?: number };
  steps: Step[];
}

/** A call that waits for its answer. */
interface Waiting {
  readonly kind: string;
  readonly ids: string[];
  readonly sentAt: number;
  readonly options?: CallOptions;
  attempts: number;
  readonly resolve: (answer: never) => void;
  readonly reject: (error: unknown) => void;
}

interface Entry {
  readonly leaseId: string;
  readonly checkpoint?: Uint8Array;
}

const { cases } = JSON.parse(readFileSync(join(__dirname, "../../../vectors/worker.json"), "utf8")) as { cases: Case[] };
const OUTCOMES: Record<string, Outcome> = {
  applied: Outcome.APPLIED,
  lost: Outcome.LEASE_LOST,
  gone: Outcome.GONE,
  refused: Outcome.REFUSED,
  locked: Outcome.REFUSED,
};
mock.timers.enable({ apis: ["setTimeout"] });
const LEFT_OUT = new Set<EventName>(["retry", "connected", "disconnected", "stopping", "stopped"]);

/** A state machine with a clock that the test sets. */
class Machine {
  time = 0;
  actions: string[] = [];
  calls: Waiting[] = [];
  readonly runs: Run[] = [];
  readonly returned: Run[] = [];
  readonly state: State;
  readonly watchdog: Watchdog;
  readonly heartbeats: Heartbeats;
  readonly poller: Poller;

  constructor({ slots = 1, batch = 1, heartbeat = true, time_limit_ms, stuck_after_ms = 30_000, max_stuck }: Case["options"]) {
    setClock(() => this.time);
    const logger = { ...DEFAULT_LOGGER, warn: () => undefined, error: () => undefined };
    const options = checkOptions("work", "worker", logger, {
      concurrency: slots,
      heartbeat,
      // A claim that does not wait has a pause behind it.
      wait: 100,
      stuckAfter: stuck_after_ms,
      ...(batch > 1 && { batch }),
      ...(time_limit_ms !== undefined && { timeLimit: time_limit_ms }),
      ...(max_stuck !== undefined && { maxStuck: max_stuck }),
    });
    const events = new Events("work", logger);
    for (const name of EVENT_NAMES.filter((name) => !LEFT_OUT.has(name))) {
      events.on(name, ({ key, ...details }) => this.actions.push(report(name, key, details)));
    }
    this.state = new State(options, events);
    this.watchdog = new Watchdog(this.state);
    const { watch, look } = this.watchdog;
    const transport = { route: () => Promise.resolve({ send: this.#sendHeartbeat } as unknown as Broker), note: () => undefined };
    this.heartbeats = new Heartbeats("work", { transport, token: null }, this.state.refusedCheckpoints, (message) => {
      if (message.type === "beat") readBeat(this.state, message.sentAt, message.results);
    });
    const keeper = new Keeper("work", () => ({
      post: ({ command }) => {
        if (command.type !== "token" && heartbeat) this.heartbeats.handle(command);
      },
      drain: () => undefined,
      close: () => Promise.resolve(),
    }));
    this.state.parts = { keeper, start: this.#start, watch, look };
    const caller = Object.assign(new Caller(null as never, null), { call: this.#call });
    const abandoned = new AbandonedClaims(options, { call: () => Promise.resolve() } as unknown as Caller);
    const onFatal = (error: unknown) => assert.fail(String(error));
    this.poller = new Poller(this.state, caller, abandoned, new CallHealth(), onFatal);
    new Settler(this.state, caller, abandoned, onFatal).start();
  }

  readonly #start = (run: Run): void => {
    this.runs.push(run);
    const leases = this.state.begin(run);
    const name = leases.map(({ id }) => id).join(" ");
    this.actions.push(`start ${name}`);
    run.signal.addEventListener("abort", () => {
      if (this.state.runs.has(run)) this.actions.push(`cancel ${name} ${run.cancelled?.cause ?? ""}`);
    });
  };

  readonly #sendHeartbeat = (_rpc: unknown, request: { renewals: Entry[] }) => {
    this.actions.push(`send heartbeat ${names(request.renewals)}`);
    return { response: this.#wait("heartbeat", request.renewals), cancel: () => undefined };
  };

  readonly #call = async <I extends DescMessage, O extends DescMessage>(
    rpc: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    options: CallOptions,
  ): Promise<Answer<MessageShape<O>>> => {
    const { maxItems, completions, failures, releases, next } = request as unknown as Record<string, Entry[]> & {
      maxItems: number;
      next?: { maxItems: number };
    };
    const entries = completions ?? failures ?? releases;
    const kind = rpc.name.toLowerCase();
    const claim = next === undefined ? "" : `, claim ${next.maxItems}`;
    this.actions.push(entries === undefined ? `claim ${maxItems}` : `send ${kind} ${names(entries)}${claim}`);
    return this.#wait(kind, entries ?? [], options);
  };

  #wait<T>(kind: string, entries: readonly Entry[], options?: CallOptions): Promise<T> {
    const ids = entries.map(({ leaseId }) => leaseId);
    return new Promise<T>((resolve, reject) => {
      this.calls.push({ kind, ids, sentAt: this.time, attempts: 1, resolve, reject, ...(options && { options }) });
    });
  }

  #take(kind: string | undefined): Waiting {
    const call = this.calls.find((each) => each.kind === kind);
    assert.ok(call, `there is no call ${kind}`);
    this.calls.splice(this.calls.indexOf(call), 1);
    return call;
  }

  async step(step: Step): Promise<number> {
    const passed = step.at_ms - this.time;
    this.time = step.at_ms;
    this.actions = [];
    this.#apply(step);
    mock.timers.tick(passed);
    await flush();
    let wake = this.watchdog.wake();
    this.heartbeats.beat();
    await flush();
    wake = Math.min(wake, this.watchdog.wake());
    return Math.min(wake, this.heartbeats.nextBeat);
  }

  #apply(step: Step): void {
    const { state } = this;
    switch (step.event) {
      case "begin":
        this.poller.start(0);
        break;
      case "claimed": {
        const message = create(ClaimBatchResponseSchema, { leases: leasesOf(step.leases, step.time_left_ms) });
        const sentAt = step.sent_ms ?? this.time;
        this.#take("claimbatch").resolve({ message, sentAt, firstSentAt: sentAt, attempts: 1 } as never);
        break;
      }
      case "returned": {
        const index = this.runs.findIndex((run) => run.leases.map(({ id }) => id).join() === step.run?.join());
        const [run] = this.runs.splice(index, 1);
        assert.ok(run);
        this.returned.push(run);
        state.end(run, endingsOf(run, step, state.options.timeLimit));
        break;
      }
      case "checkpoint":
        [...this.runs, ...this.returned]
          .find((run) => run.leases.some(({ id }) => id === step.lease))
          ?.context.checkpoint(new Uint8Array(step.bytes ?? 0));
        break;
      case "answer":
        this.#answer(step);
        break;
      case "failed": {
        const error: ServiceError = Object.assign(new Error("failed"), { code: status.UNAVAILABLE, details: "", metadata: new Metadata() });
        const final = new LeaseBrokerError("", "UNAVAILABLE", null, "no answer", null, "unknown", true);
        this.#take(step.to).reject(step.to === "heartbeat" ? error : final);
        break;
      }
      case "resent": {
        const call = this.calls.find(({ kind }) => kind === step.to);
        assert.ok(call);
        call.attempts += 1;
        call.options?.beforeRetry?.();
        break;
      }
      case "stop":
        state.stop();
        break;
      case "cancel":
        state.cancelAll();
        break;
      case "leave":
        state.leaveHandlers();
        break;
      default:
        assert.equal(step.event, "time");
    }
  }

  #answer({ to, outcomes = {}, next, time_left_ms = 0 }: Step): void {
    const call = this.#take(to);
    const results = call.ids.map((id) => {
      const [outcome, text = ""] = split(outcomes[id] ?? "");
      const [field, message] = split(text);
      const refusals: Record<string, object> = {
        refused: { refusal: message === undefined ? { message: text } : { field, message } },
        locked: { refusal: { reason: RefusalReason.LOCKED } },
      };
      const refusal = refusals[outcome] ?? {};
      return { outcome: OUTCOMES[outcome] ?? Outcome.UNSPECIFIED, ...refusal, cancelReason: outcome === "lost" ? text : "", applied: outcome === "applied" };
    });
    if (to === "heartbeat") {
      const timeLeft = durationMessage(time_left_ms);
      call.resolve(
        create(HeartbeatResponseSchema, {
          results: results.map(({ applied, ...result }) => ({ ...result, ...(applied && { timeLeft }) })),
        }) as never,
      );
      return;
    }
    const settled = { results, ...(next && { next: { leases: leasesOf(next, time_left_ms) } }) };
    const message =
      to === "complete"
        ? create(CompleteResponseSchema, settled)
        : to === "fail"
          ? create(FailResponseSchema, settled)
          : create(ReleaseResponseSchema, { results });
    call.resolve({ message, sentAt: this.time, firstSentAt: call.sentAt, attempts: call.attempts } as never);
  }
}

function report(name: EventName, key: string | undefined, { cause, reason, error, count }: EventDetails): string {
  if (name === "heartbeat") return `report heartbeat ${count}`;
  const text = name === "failed" ? error : reason;
  return `report ${name} ${key}${cause === undefined ? "" : ` ${cause}`}${text ? `: ${text}` : ""}`;
}

function endingsOf(run: Run, step: Step, timeLimit: number | null) {
  switch (step.with) {
    case "result":
      return run.leases.map((lease) => completed(lease));
    case "release":
      return run.leases.map((lease) => released(lease));
    case "cancellation":
      return ofThrow(run, run.leases, run.cancelled, timeLimit);
    default:
      return run.leases.map((lease) => failed(lease, step.text ?? "", null, step.with === "dead_letter"));
  }
}

function names(entries: readonly Entry[]): string {
  return entries
    .map(({ leaseId, checkpoint }) => (checkpoint === undefined ? leaseId : `${leaseId}+${checkpoint.length}`))
    .sort()
    .join(" ");
}

function leasesOf(ids: readonly string[] = [], timeLeft = 0) {
  return ids.map((id) => create(LeaseSchema, { leaseId: id, item: { key: id }, attempt: 1, timeLeft: durationMessage(timeLeft) }));
}

/** Splits a text at the first colon. */
function split(text: string): [string, string?] {
  const at = text.indexOf(": ");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 2)];
}

/** Lets all work that is ready run. */
async function flush(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}

for (const { name, options, steps } of cases) {
  test(name, async () => {
    const machine = new Machine(options);
    for (const step of steps) {
      const wake = await machine.step(step);
      assert.deepEqual(machine.actions.sort(), step.actions.sort(), JSON.stringify(step));
      if (step.wakes_by_ms !== undefined) assert.ok(wake <= step.wakes_by_ms, `it looks again at ${wake}`);
    }
    machine.watchdog.close();
    machine.heartbeats.close();
  });
}
