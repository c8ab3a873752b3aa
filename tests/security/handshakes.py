"""Connects to a broker once for each scenario, and prints as JSON what happened. Uses the TLS of Python."""

import json
import socket
import ssl
import sys
import warnings

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
SETTINGS = 4


def read_frame_type(stream):
    head = b""
    while len(head) < 9:
        part = stream.recv(9 - len(head))
        if not part:
            return None
        head += part
    return head[3]


def connect(address, scenario):
    seen = {"version": None, "has_settings": False, "has_ticket": False}
    try:
        with socket.create_connection(address, timeout=20) as plain:
            if not scenario["versions"]:
                plain.sendall(PREFACE)
                seen["has_settings"] = read_frame_type(plain) == SETTINGS
                return seen
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            # Old versions need a lower level of security than the default.
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            low, high = (getattr(ssl.TLSVersion, name) for name in scenario["versions"])
            context.minimum_version, context.maximum_version = low, high
            if scenario["alpn"]:
                context.set_alpn_protocols(scenario["alpn"])
            if scenario.get("certificate"):
                context.load_cert_chain(*scenario["certificate"])
            with context.wrap_socket(plain) as stream:
                seen["version"] = stream.version()
                stream.sendall(PREFACE)
                seen["has_settings"] = read_frame_type(stream) == SETTINGS
                session = stream.session
                seen["has_ticket"] = session is not None and session.has_ticket
    except OSError as error:
        seen["error"] = str(error)
    return seen


warnings.simplefilter("ignore")
host, port, scenarios = sys.argv[1:]
print(json.dumps([connect((host, int(port)), scenario) for scenario in json.loads(scenarios)]))
