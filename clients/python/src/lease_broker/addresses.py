"""The addresses of brokers: host:port, or a name to resolve."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

_HOST_PORT = re.compile(r"(\[[\w:.%]+\]|[^\s/,@\[\]]+):([0-9]{1,5})")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def list_addresses(address: str | Sequence[str]) -> list[str]:
    """Returns the addresses of a worker or a client.

    Raises `ValueError`, which names the address and the right form, if one of them cannot be an address.
    """
    if address is None or isinstance(address, bytes):
        raise ValueError(f"address {address!r}: it must be a str or a list of them")
    addresses = [address] if isinstance(address, str) else list(address)
    if not addresses:
        raise ValueError("address: the list is empty")
    for each in addresses:
        if not isinstance(each, str):
            raise ValueError(f"address {each!r}: it must be a str or a list of them")
        if len(addresses) > 1 and each.startswith(("dns:", "unix:")):
            raise ValueError(f"address {each!r}: it must be alone; a list has host:port")
        if not each.startswith("unix:"):
            split_address(each)
    return addresses


def split_address(address: str) -> tuple[str, int]:
    """Returns host and port of host:port or dns:///host:port. Raises `ValueError` for another text."""
    found = _HOST_PORT.fullmatch(address.removeprefix("dns:///"))
    if found is None:
        raise ValueError(
            f"address {address!r}: it is not of the form host:port, such as 127.0.0.1:50051{hint(address)}"
        )
    port = int(found[2])
    if not 1 <= port <= 65_535:
        raise ValueError(f"address {address!r}: a port is 1 to 65535")
    return found[1].strip("[]"), port


def hint(address: str) -> str:
    """Returns advice for a malformed address."""
    scheme = _SCHEME.match(address)
    if address.startswith("dns:"):
        return "; a name to resolve is dns:///host:port"
    if scheme is not None:
        return f"; leave out {scheme[0]}"
    return "; pass a list for several" if "," in address else ""


def is_loopback(address: str) -> bool:
    """Returns True if an address such as "127.0.0.1:50051" or "unix:/run/broker.sock" is on this machine."""
    if address.startswith("unix:"):
        return True
    # An address that was found for a name can have the name of an interface, such as fe80::1%br-9f3c.
    host = re.sub("^(dns:///|ipv[46]:)", "", address).rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
