/** The connection to the brokers: its options, and sending one request. */

import { isIPv4, isIPv6 } from "node:net";

import { type DescMethodUnary, type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  type ChannelOptions,
  Client,
  type ClientUnaryCall,
  connectivityState,
  Metadata,
  type ServiceError,
} from "@grpc/grpc-js";

import { channelCredentials, checkPlaintext, type Credentials, hostOf } from "./credentials.js";
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
  "grpc.keepalive_time_ms": 20_000,
  "grpc.keepalive_timeout_ms": 10_000,
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.primary_user_agent": `lease-broker-node/${VERSION}`,
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
};

/**
 * The milliseconds without a connection after which the channel is replaced. grpc-js waits without a limit for a server
 * that accepts a connection and then says nothing.
 */
const CONNECT_TIMEOUT = 10_000;

/** A request that was sent. */
export interface Sent<Response> {
  readonly response: Promise<Response>;
  cancel(): void;
}

/** A channel to one broker or to several. */
export class Transport {
  readonly #create: () => Client;
  #client: Client;
  #connected = false;
  #onConnection: (connected: boolean) => void = () => undefined;
  #connectTimer: NodeJS.Timeout | undefined;

  constructor(address: string | readonly string[], credentials: Credentials) {
    const addresses = typeof address === "string" ? [address] : address;
    checkPlaintext(addresses, credentials);
    const options = { ...OPTIONS };
    if (credentials.kind === "tls" && credentials.serverName !== null) {
      options["grpc.ssl_target_name_override"] = credentials.serverName;
      options["grpc.default_authority"] = credentials.serverName;
    }
    const grpcTarget = target(addresses);
    const grpcCredentials = channelCredentials(credentials);
    this.#create = () => new Client(grpcTarget, grpcCredentials, options);
    this.#client = this.#create();
    this.#watch(this.#client);
  }

  /** Sends a request. `timeout` is in milliseconds. The promise rejects with gRPC's `ServiceError`. */
  send<I extends DescMessage, O extends DescMessage>(
    rpc: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    timeout: number,
    token: string | null,
  ): Sent<MessageShape<O>> {
    const metadata = new Metadata();
    if (token !== null) metadata.set("authorization", `Bearer ${token}`);
    let call: ClientUnaryCall | undefined;
    const response = new Promise<MessageShape<O>>((resolve, reject: (error: ServiceError) => void) => {
      call = this.#client.makeUnaryRequest<MessageShape<I>, MessageShape<O>>(
        `/${rpc.parent.typeName}/${rpc.name}`,
        (message) => asBuffer(toBinary(rpc.input, message)),
        (bytes) => fromBinary(rpc.output, bytes),
        request,
        metadata,
        { deadline: Date.now() + timeout },
        (error, message) => {
          if (error !== null) reject(error);
          else if (message !== undefined) resolve(message);
        },
      );
    });
    return { response, cancel: () => call?.cancel() };
  }

  /** Connects, if no call has done so. */
  connect(): void {
    this.#client.getChannel().getConnectivityState(true);
  }

  /** Calls `observer` each time that the channel gets a connection (true) or has none any more (false). */
  watchConnection(observer: (connected: boolean) => void): void {
    this.#onConnection = observer;
  }

  /** Ends all calls and closes the connection. */
  close(): void {
    clearTimeout(this.#connectTimer);
    this.#onConnection = () => undefined;
    this.#client.close();
  }

  #watch(client: Client): void {
    const channel = client.getChannel();
    const look = () => {
      const state = channel.getConnectivityState(false);
      if (client !== this.#client || state === connectivityState.SHUTDOWN) return;
      this.#readState(state);
      channel.watchConnectivityState(state, Infinity, look);
    };
    look();
  }

  #readState(state: connectivityState): void {
    const connected = state === connectivityState.READY;
    if (connected !== this.#connected) {
      this.#connected = connected;
      this.#onConnection(connected);
    }
    if (connected || state === connectivityState.IDLE) {
      clearTimeout(this.#connectTimer);
      this.#connectTimer = undefined;
    } else {
      this.#connectTimer ??= setTimeout(this.#replace, CONNECT_TIMEOUT).unref();
    }
  }

  /** Calls that wait for the old channel's connection end with UNAVAILABLE. */
  readonly #replace = (): void => {
    this.#connectTimer = undefined;
    const old = this.#client;
    this.#client = this.#create();
    this.#watch(this.#client);
    old.close();
  };
}

/** Returns gRPC's target for a list of addresses. */
function target(addresses: readonly string[]): string {
  const [first] = addresses;
  if (first === undefined) throw new RangeError("address: the list is empty");
  if (addresses.length === 1) return first;
  const hosts = addresses.map(hostOf);
  if (hosts.every(isIPv4)) return `ipv4:${addresses.join(",")}`;
  if (hosts.every(isIPv6)) return `ipv6:${addresses.join(",")}`;
  throw new RangeError(
    `address: a list must have IP addresses of one version, and not ${addresses.join(", ")}; ` +
      "dns:///name:port stands for all addresses of a name",
  );
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
