/** A gRPC server whose responses a test writes. */

import { create, type DescMethodUnary, fromBinary, type Message, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { anyPack, DurationSchema } from "@bufbuild/protobuf/wkt";
import { Metadata, type sendUnaryData, Server, ServerCredentials, type ServerUnaryCall, status } from "@grpc/grpc-js";
import type { TestContext } from "node:test";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema, StatusSchema } from "../../src/gen/google/rpc/details_pb.js";
import { LeaseService } from "../../src/v1.js";

/** A call that has arrived. */
export interface Arrival {
  readonly rpc: string;
  readonly request: unknown;
  readonly metadata: Metadata;
  readonly at: number;
}

/** An error to answer with. */
export interface ScriptedError {
  readonly code: status;
  readonly reason?: string;
  readonly field?: string;
  readonly retryAfterMs?: number;
  readonly pushback?: string;
  readonly text?: string;
  readonly applied?: string;
}

type Answer = { readonly error: ScriptedError } | { readonly message: object } | "never" | ((request: unknown) => object);

/** Answers the calls of one rpc, one after the other. The last answer stays. */
export type Script = Partial<Record<keyof typeof LeaseService.method, Answer[]>>;

export class ScriptedServer {
  readonly arrivals: Arrival[] = [];
  /** The addresses of the callers. */
  readonly peers: string[] = [];
  readonly #server = new Server();
  address = "";

  constructor(private readonly script: Script) {}

  async listen(credentials = ServerCredentials.createInsecure(), address = "127.0.0.1:0"): Promise<void> {
    for (const [name, method] of Object.entries(LeaseService.method)) this.#add(name as keyof Script, method);
    const port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync(address, credentials, (error, port) => {
        if (error === null) resolve(port);
        else reject(error);
      });
    });
    this.address = `127.0.0.1:${port}`;
  }

  close(): void {
    this.#server.forceShutdown();
  }

  /** Returns the calls of one rpc. */
  of(rpc: string): Arrival[] {
    return this.arrivals.filter((arrival) => arrival.rpc === rpc);
  }

  #add(name: keyof Script, method: DescMethodUnary): void {
    const answers = [...(this.script[name] ?? [])];
    const definition = {
      [method.name]: {
        path: `/${LeaseService.typeName}/${method.name}`,
        requestStream: false,
        responseStream: false,
        requestDeserialize: (bytes: Buffer) => fromBinary(method.input, bytes),
        requestSerialize: (message: Message) => Buffer.from(toBinary(method.input, message)),
        responseDeserialize: (bytes: Buffer) => fromBinary(method.output, bytes),
        responseSerialize: (message: Message) => Buffer.from(toBinary(method.output, message)),
      },
    };
    this.#server.addService(definition, {
      [method.name]: (call: ServerUnaryCall<Message, Message>, callback: sendUnaryData<Message>) => {
        this.peers.push(call.getPeer());
        this.arrivals.push({ rpc: method.name, request: call.request, metadata: call.metadata, at: performance.now() });
        const answer = answers.length > 1 ? answers.shift() : answers[0];
        if (answer === "never") return;
        if (answer === undefined) callback({ code: status.UNIMPLEMENTED, details: "no answer is scripted" });
        else if (typeof answer === "function") callback(null, create(method.output, answer(call.request) as MessageInitShape<typeof method.output>));
        else if ("error" in answer) callback(serviceError(answer.error));
        else callback(null, create(method.output, answer.message as MessageInitShape<typeof method.output>));
      },
    });
  }
}

/** Starts a server for a test. */
export async function startServer(
  test: TestContext,
  script: Script,
  credentials?: ServerCredentials,
  address?: string,
): Promise<ScriptedServer> {
  const server = new ScriptedServer(script);
  test.after(() => {
    server.close();
  });
  await server.listen(credentials, address);
  return server;
}

function serviceError({ code, reason, field, retryAfterMs, pushback, text = "scripted", applied }: ScriptedError) {
  const details = [];
  if (reason !== undefined) {
    const metadata: Record<string, string> = applied === undefined ? {} : { applied };
    details.push(anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason, domain: "leasebroker", metadata })));
  }
  if (retryAfterMs !== undefined) {
    const retryDelay = create(DurationSchema, { seconds: 0n, nanos: retryAfterMs * 1_000_000 });
    details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })));
  }
  if (field !== undefined) {
    const fieldViolations = [{ field, description: text }];
    details.push(anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations })));
  }
  const metadata = new Metadata();
  if (details.length > 0) {
    const bytes = toBinary(StatusSchema, create(StatusSchema, { code, message: text, details }));
    metadata.set("grpc-status-details-bin", Buffer.from(bytes));
  }
  if (pushback !== undefined) metadata.set("grpc-retry-pushback-ms", pushback);
  return { code, details: text, metadata };
}
