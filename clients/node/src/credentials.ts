/** The security of a connection, and the bearer token. */

import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";

import { type ChannelCredentials, credentials as grpcCredentials } from "@grpc/grpc-js";

import { isLoopback } from "./addresses.js";
import { inOwnContext } from "./async_context.js";
import { now } from "./clock.js";
import { errorText } from "./errors.js";

/** The security of a connection. Create it with `plaintext` or `tls`. It can be sent to another thread. */
export type Credentials =
  | { readonly kind: "plaintext"; readonly allowPlaintext: boolean }
  | {
      readonly kind: "tls";
      readonly ca: Pem | null;
      readonly cert: Pem | null;
      readonly key: Pem | null;
      readonly serverName: string | null;
    };

/** A PEM text, or the file that has it. */
export type Pem = string | Uint8Array | { readonly file: string };

/** A bearer token: the text, the file that has it, or a function that returns it. */
export type TokenSource = string | { readonly file: string } | (() => string | Promise<string>);

/** The milliseconds after which a file is looked at again. */
export const FILE_INTERVAL = 10_000;

/** No encryption. Addresses of other machines are refused unless `allowPlaintext` is true. */
export function plaintext({ allowPlaintext = false } = {}): Credentials {
  return { kind: "plaintext", allowPlaintext };
}

/**
 * TLS. Without `ca` the authorities of Node are trusted. With `cert` and `key` the program identifies itself by them.
 * `serverName` is the name in the broker's certificate, if it is not the host of the address. Files are looked at again every
 * 10 s. While one is missing or malformed, the connections stay as they are, and the log has one warning. Throws if a file cannot be
 * read, or if a text is malformed.
 */
export function tls(options: { ca?: Pem; cert?: Pem; key?: Pem; serverName?: string } = {}): Credentials {
  if ((options.cert === undefined) !== (options.key === undefined)) {
    throw new TypeError("tls: cert and key must be set together");
  }
  const { ca = null, cert = null, key = null, serverName = null } = options;
  const credentials: Credentials = { kind: "tls", ca, cert, key, serverName };
  channelCredentials(credentials);
  return credentials;
}

/** Returns gRPC's credentials of a new connection. Throws if a file cannot be read, or if it is malformed: it may be half-written. */
export function channelCredentials(credentials: Credentials): ChannelCredentials {
  if (credentials.kind === "plaintext") return grpcCredentials.createInsecure();
  const buffer = (pem: Pem | null) => {
    if (pem === null) return null;
    return typeof pem === "object" && "file" in pem ? readFileSync(pem.file) : Buffer.from(pem);
  };
  const ca = buffer(credentials.ca);
  if (ca !== null) checkAuthorities(ca.toString("latin1"));
  return grpcCredentials.createSsl(ca, buffer(credentials.key), buffer(credentials.cert));
}

/** Throws unless each certificate of a PEM text can be read. Node would ignore the others, and perhaps trust no broker. */
function checkAuthorities(text: string): void {
  const isOther = /^-----BEGIN (?!(TRUSTED )?CERTIFICATE-)[A-Z0-9 ]+-----/;
  const blocks = text.split(/(?=-----BEGIN )/).filter((block) => block.startsWith("-----BEGIN ") && !isOther.test(block));
  if (blocks.length === 0) throw new TypeError("tls: the ca has no certificate in PEM form");
  for (const block of blocks) new X509Certificate(block);
}

/** Returns a text that differs after a file of the credentials was replaced. */
export function fileVersions(credentials: Credentials): string {
  if (credentials.kind === "plaintext") return "";
  return [credentials.ca, credentials.cert, credentials.key]
    .map((pem) => {
      if (pem === null || typeof pem !== "object" || !("file" in pem)) return "";
      const found = statSync(pem.file, { throwIfNoEntry: false });
      return found === undefined ? "missing" : `${found.mtimeMs} ${found.size} ${found.ino}`;
    })
    .join();
}

/** Throws an `Error` if an address of another machine would be called without encryption. */
export function checkPlaintext(addresses: readonly string[], credentials: Credentials): void {
  if (credentials.kind === "tls" || credentials.allowPlaintext) return;
  for (const address of addresses) {
    if (isLoopback(address)) continue;
    throw new Error(
      `${address} is not an address of this machine: set credentials to tls(…), or to ` +
        "plaintext({ allowPlaintext: true }) if the network is trusted",
    );
  }
}

/** A token that no header can carry. The text does not have the token, because it is logged. */
export class TokenError extends Error {
  override name = "TokenError";
}

/** A bearer token that can change while the program runs. */
export class Token {
  #text = "";
  #readAt = -Infinity;
  /** The read of the file that runs. There is never another one: each that hangs takes one of Node's four threads for files. */
  #reading: Promise<void> | null = null;

  /** Throws a `TypeError` if a text is the name of a file: the name would be sent as the token. */
  constructor(private readonly source: TokenSource) {
    if (typeof source === "string" && existsSync(source)) {
      throw new TypeError(`token: ${source} is a file; pass { file: ${JSON.stringify(source)} }`);
    }
  }

  /**
   * Returns the token without white space around it. A file is read again every 10 s, or if `fresh` is true. Rejects with a
   * `TokenError` if a header cannot carry the token, and with another error if there is none now.
   */
  async text(fresh = false): Promise<string> {
    let text: unknown;
    try {
      text = await this.#read(fresh);
    } catch (error) {
      // Otherwise the error would seem to be that of the call which needs the token.
      throw new Error(`no token: ${errorText(error)}`, { cause: error });
    }
    if (typeof text !== "string") throw new TokenError("the token is not a text");
    const token = text.trim();
    if (!/^[\x20-\x7e]*$/.test(token)) throw new TokenError("the token has a control character or one that is not ASCII");
    return token;
  }

  async #read(fresh: boolean): Promise<string> {
    if (typeof this.source === "string") return this.source;
    if (typeof this.source === "function") return inOwnContext(this.source);
    if (fresh || now() - this.#readAt >= FILE_INTERVAL) {
      this.#reading ??= this.#readFile(this.source.file).finally(() => {
        this.#reading = null;
      });
      await this.#reading;
    }
    return this.#text;
  }

  async #readFile(file: string): Promise<void> {
    // The read of a pipe would wait for a program that writes.
    if (!(await stat(file)).isFile()) throw new Error(`${file} is not a regular file`);
    const text = await readFile(file, "utf8");
    // A program that replaces the file empties it first.
    if (text.trim() === "") throw new Error(`${file} is empty`);
    this.#text = text;
    this.#readAt = now();
  }
}
