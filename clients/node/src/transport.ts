/** The connections to the brokers: a channel for each broker, which calls use in turn. */

import { lookup } from "node:dns/promises";

import { type DescMethodUnary, type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  type ClientUnaryCall,
  connectivityState,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";

import { isLoopback, readAddresses } from "./addresses.js";
import { now } from "./clock.js";
import { channelCredentials, checkPlaintext, type Credentials, FILE_INTERVAL, fileVersions } from "./credentials.js";
import { errorText, LeaseBrokerError } from "./errors.js";
import { LeaseService } from "./v1.js";

/** The version of this package. */
export const VERSION = "0.2.0";

/** The unary rpcs of the service. */
export const rpcs = LeaseService.method;

// The library sends requests again itself (`calls`), so gRPC does not. A short reconnect backoff brings an idle worker
// back soon after the broker. Responses have no limit here, because a single row may be larger than gRPC's default.
const OPTIONS: ChannelOptions = {
  "grpc.enable_retries": 0,
  "grpc.initial_reconnect_backoff_ms": 200,
  "grpc.max_reconnect_backoff_ms": 5_000,
  // The address of a name can change with each restart of its broker.
  "grpc.dns_min_time_between_resolutions_ms": 1_000,
  "grpc.keepalive_time_ms": 20_000,
  "grpc.keepalive_timeout_ms": 10_000,
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.primary_user_agent": `lease-broker-node/${VERSION}`,
};

/** The milliseconds in which a connection must be ready. grpc-js has no limit of its own. */
const CONNECT_TIMEOUT = 5_000;
/**
 * The milliseconds for which a broker gets no calls if there are others: after an error, and after a call without an answer.
 * The connection of a process that hangs stays open, so only calls show that it works again.
 */
const PASS_OVER = 1_000;
const PASS_OVER_SILENT = 30_000;
const RESOLVE_INTERVAL = 5_000;
/** Longer than any call, in milliseconds. */
const CLOSE_AFTER = 90_000;

/** A request that was sent. */
export interface Sent<Response> {
  readonly response: Promise<Response>;
  cancel(): void;
}

/** The channel of a broker. */
export class Broker {
  /** The time of the monotonic clock from which it gets calls again. */
  freeAt = 0;
  /** True if no connection was ready in time. */
  isDead = false;

  constructor(
    readonly target: string,
    readonly client: Client,
  ) {}

  /**
   * Sends a request. `timeout` is in milliseconds. The promise rejects with gRPC's `ServiceError`. Throws a `LeaseBrokerError` if the
   * request cannot be encoded: gRPC would report that as INTERNAL, which is sent again.
   */
  send<I extends DescMessage, O extends DescMessage>(
    rpc: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    timeout: number,
    token: string | null,
  ): Sent<MessageShape<O>> {
    const metadata = new Metadata();
    if (token !== null) metadata.set("authorization", `Bearer ${token}`);
    const encoded = encode(rpc, request);
    let call: ClientUnaryCall | undefined;
    let connecting: NodeJS.Timeout | undefined;
    const response = new Promise<MessageShape<O>>((resolve, reject: (error: ServiceError) => void) => {
      call = this.client.makeUnaryRequest<MessageShape<I>, MessageShape<O>>(
        `/${rpc.parent.typeName}/${rpc.name}`,
        () => encoded,
        (bytes) => fromBinary(rpc.output, bytes),
        request,
        metadata,
        { deadline: Date.now() + timeout },
        (error, message) => {
          clearTimeout(connecting);
          if (error !== null) reject(this.isDead && error.code === status.CANCELLED ? noConnection(error) : error);
          else if (message !== undefined) resolve(message);
        },
      );
      if (!this.isReady && timeout > CONNECT_TIMEOUT) {
        connecting = setTimeout(() => {
          this.isDead = !this.isReady;
          if (this.isDead) call?.cancel();
        }, CONNECT_TIMEOUT).unref();
      }
    });
    return { response, cancel: () => call?.cancel() };
  }

  private get isReady(): boolean {
    return this.client.getChannel().getConnectivityState(false) === connectivityState.READY;
  }
}

/** Channels to one broker or to several. */
export class Transport {
  #brokers: Broker[] = [];
  #next = 0;
  #closed = false;
  /** The host and the port of a name whose addresses are all used. */
  readonly #name: { readonly host: string; readonly port: string } | null = null;
  #resolvedAt = -Infinity;
  #resolving: Promise<void> | null = null;
  #lookedAt = now();
  /** The credentials of new channels, and the versions of the files from which they were read. */
  #channelCredentials: ChannelCredentials;
  #versions: string;
  /** The versions of the files that were found missing or malformed. */
  #refusedVersions = "";
  /** Channels that were replaced, with the time from which no call needs them. */
  #old: { readonly client: Client; readonly closeAt: number }[] = [];

  constructor(
    address: string | readonly string[],
    private readonly credentials: Credentials,
    /** Receives the warnings about the files of the credentials. */
    private readonly warn: (text: string) => void = () => undefined,
  ) {
    const addresses = readAddresses(address);
    checkPlaintext(addresses, credentials);
    this.#versions = fileVersions(credentials);
    this.#channelCredentials = channelCredentials(credentials);
    const name = /^dns:\/\/\/(.+):([0-9]+)$/.exec(addresses[0] ?? "");
    if (name !== null) this.#name = { host: name[1] ?? "", port: name[2] ?? "" };
    else this.#brokers = addresses.map((each) => this.#connect(each));
  }

  /** True after `close`. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /** Returns the broker for the next call. Rejects if its name is unknown, or after `close`. */
  async route(): Promise<Broker> {
    if (this.#closed) throw new Error("the connection is closed");
    const time = now();
    if (time - this.#lookedAt >= FILE_INTERVAL) this.lookAtFiles(time);
    if (this.#name !== null) {
      const isFailing = this.#brokers.some((broker) => broker.freeAt > 0);
      if (this.#brokers.length === 0) await (this.#resolving ??= this.#resolve());
      else if (isFailing && time - this.#resolvedAt >= RESOLVE_INTERVAL) {
        // The addresses that were found before may work again.
        (this.#resolving ??= this.#resolve()).catch(() => undefined);
      }
    }
    const count = this.#brokers.length;
    let index = this.#next % count;
    for (let step = 0; step < count; step++) {
      const candidate = (this.#next + step) % count;
      if ((this.#brokers[candidate]?.freeAt ?? 0) > time) continue;
      index = candidate;
      break;
    }
    this.#next = index + 1;
    const broker = this.#brokers[index];
    if (broker === undefined) throw new Error("the name has no address");
    return broker;
  }

  /**
   * Notes the end of a call. `failed`: the next call needs another broker. `silent`: there was no answer in time. A connection can
   * be dead without an error, for example after a firewall has forgotten it, so a new one is made.
   */
  note(broker: Broker, { failed, silent = false }: { failed: boolean; silent?: boolean }): void {
    const time = now();
    broker.freeAt = failed ? time + (silent ? PASS_OVER_SILENT : PASS_OVER) : 0;
    if (this.#brokers.every(({ freeAt }) => freeAt > time)) {
      // Each has failed. One that was silent may have come back, as well as one that refuses may.
      for (const each of this.#brokers) if (each !== broker) each.freeAt = time;
    }
    if (silent || broker.isDead) this.#replace([broker]);
  }

  /** Connects to all brokers, if no call has done so. */
  connect(): void {
    for (const { client } of this.#brokers) client.getChannel().getConnectivityState(true);
  }

  /** Ends all calls and closes the connections. */
  close(): void {
    this.#closed = true;
    for (const { client } of [...this.#brokers, ...this.#old]) client.close();
  }

  #connect(target: string): Broker {
    const options = { ...OPTIONS };
    // A proxy of the environment is for other machines. It would read the rows.
    if (isLoopback(target)) options["grpc.enable_http_proxy"] = 0;
    // The certificate of a broker has the name and not the number that was found for it.
    const serverName = (this.credentials.kind === "tls" ? this.credentials.serverName : null) ?? this.#name?.host ?? null;
    if (serverName !== null) {
      options["grpc.ssl_target_name_override"] = serverName;
      options["grpc.default_authority"] = serverName;
    }
    return new Broker(target, new Client(target, this.#channelCredentials, options));
  }

  /** Makes new channels in the place of others. Calls that run keep the old ones. */
  #replace(old: readonly Broker[]): void {
    if (this.#closed) return;
    for (const broker of old) {
      const index = this.#brokers.indexOf(broker);
      if (index < 0) continue;
      const replacement = this.#connect(broker.target);
      replacement.freeAt = broker.freeAt;
      this.#brokers[index] = replacement;
      this.#old.push({ client: broker.client, closeAt: now() + CLOSE_AFTER });
    }
  }

  /** Reads certificates again that have changed, and closes old channels. */
  lookAtFiles(time: number): void {
    this.#lookedAt = time;
    for (const { client, closeAt } of this.#old) if (closeAt <= time) client.close();
    this.#old = this.#old.filter(({ closeAt }) => closeAt > time);
    const versions = fileVersions(this.credentials);
    if (versions === this.#versions) return;
    try {
      this.#channelCredentials = channelCredentials(this.credentials);
    } catch (error) {
      // The files are being replaced.
      if (versions !== this.#refusedVersions) this.warn(`the changed files of the credentials are not used: ${errorText(error)}`);
      this.#refusedVersions = versions;
      return;
    }
    this.#versions = versions;
    this.#replace([...this.#brokers]);
  }

  async #resolve(): Promise<void> {
    if (this.#name === null) return;
    const { host, port } = this.#name;
    try {
      this.#resolvedAt = now();
      const found = await lookup(host, { all: true });
      const targets = found.map(({ address, family }) => (family === 6 ? `ipv6:[${address}]:${port}` : `ipv4:${address}:${port}`));
      if (this.#closed) return;
      const known = new Map(this.#brokers.map((broker) => [broker.target, broker]));
      this.#brokers = [...new Set(targets)].sort().map((target) => known.get(target) ?? this.#connect(target));
      for (const broker of known.values()) if (!this.#brokers.includes(broker)) broker.client.close();
    } finally {
      this.#resolving = null;
    }
  }
}

/** Returns the error of a call that was cancelled because there was no connection. */
function noConnection(error: ServiceError): ServiceError {
  error.code = status.UNAVAILABLE;
  error.details = `no connection after ${CONNECT_TIMEOUT / 1_000} s`;
  return error;
}

function encode<I extends DescMessage>(rpc: DescMethodUnary<I>, request: MessageShape<I>): Buffer {
  try {
    const bytes = toBinary(rpc.input, request);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  } catch (error) {
    throw new LeaseBrokerError(rpc.name, "INVALID_ARGUMENT", null, errorText(error), null, "no");
  }
}
