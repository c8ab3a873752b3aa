/** The addresses of brokers: their forms, and the ones that are on this machine. */

import { BlockList, isIP } from "node:net";

/** A name, an IPv4 address or an IPv6 address in brackets, and a port. */
const HOST_AND_PORT = /^(?:dns:\/\/\/|dns:|ipv4:|ipv6:)?(?:[^\s:/,[\]]+|\[[^\s/,[\]]+\]):([0-9]{1,5})$/;

/**
 * Returns the addresses of an option: one or a list.
 *
 * Throws a `RangeError` for one of another form. gRPC would take a name without a port for port 443, and a scheme for a name.
 */
export function readAddresses(address: string | readonly string[]): readonly string[] {
  const addresses = typeof address === "object" ? address : [address];
  if (addresses.length === 0) throw new RangeError("address: the list is empty");
  for (const each of addresses) {
    const [, scheme, rest] = /^(https?:\/\/)([^/]*)/i.exec(each) ?? [];
    if (scheme !== undefined) {
      throw new RangeError(`address: pass ${rest ?? ""} without ${scheme}; TLS is turned on by credentials: tls(…)`);
    }
    if (addresses.length > 1 && /^(?:dns|unix):/.test(each)) throw new RangeError(`address: a list has host:port, and not ${each}`);
    if (/^unix:.+/.test(each)) continue;
    const port = Number(HOST_AND_PORT.exec(each)?.[1] ?? 0);
    if (port < 1 || port > 65_535) throw new RangeError(`address: expected host:port, such as 127.0.0.1:50051, and not ${each}`);
  }
  return addresses;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** Returns true if an address such as "127.0.0.1:50051" or "unix:/run/broker.sock" is on this machine. */
export function isLoopback(address: string): boolean {
  if (address.startsWith("unix:")) return true;
  const host = hostOf(address);
  const family = isIP(host);
  return family === 0 ? host.toLowerCase() === "localhost" : LOOPBACK.check(host, family === 6 ? "ipv6" : "ipv4");
}

/** Returns the host of an address such as "dns:///name:50051" or "[::1]:50051". */
export function hostOf(address: string): string {
  const rest = address.replace(/^(?:dns|ipv4|ipv6):(?:\/\/[^/]*\/)?/, "");
  return /^\[(.*)\]/.exec(rest)?.[1] ?? rest.replace(/:[0-9]+$/, "");
}
