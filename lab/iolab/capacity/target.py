"""The server that a URL names: its protocol, one address, and its TLS."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from iolab.contract.literals import Protocol
from iolab.contract.types import Tls
from iolab.errors import PlanError

# How long to wait for an address to accept before trying the next address of a name.
CONNECT_S_MAX = 1.0
# The schemes of URLs with a host, and their default ports.
PORTS = {"http": 80, "https": 443, "tcp": None, "tls": None}


@dataclass(frozen=True, slots=True)
class Target:
    """The server of a URL: its protocol and settings, one resolved address, and TLS settings if it uses TLS."""

    protocol: Protocol
    workload: Mapping[str, Any]
    connect: str
    tls: Tls | None = None


def parse_url(url: str, protocol: Protocol | None) -> Target:
    """Parses and resolves a URL: `http(s)://host[:port][/path]`, `tcp://host:port`, `tls://host:port` or `unix:/path`.

    If a name has several addresses, the first that accepts a connection is used. Raises PlanError with one line.
    """
    if url.startswith("unix:") and not url.startswith("unix://"):
        if url == "unix:":
            raise PlanError(f"{url!r} has no path: write it as in unix:/tmp/server.sock")
        return Target(protocol or "echo", {"host": "localhost"} if protocol == "http" else {}, url)
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise PlanError(f"{url!r} is not complete: write http://{url} or tcp://{url}")
    if scheme not in PORTS:
        raise PlanError(f"{scheme}:// is not supported: write http://, https://, tcp://, tls:// or unix:/path")
    is_http = scheme in ("http", "https")
    if protocol is not None and (protocol == "http") != is_http:
        fit = "http goes with http:// and https://, others with tcp:// and tls://"
        raise PlanError(f"--protocol {protocol} and {scheme}:// do not fit: {fit}")
    parts, host, port = _split(url, scheme)
    if not is_http and parts.path not in ("", "/"):
        raise PlanError(f"{url!r} is not an address: write {scheme}://host:port")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"target": path, "host": parts.netloc} if is_http else {}
    tls = Tls(server_name=host) if scheme in ("https", "tls") else None
    return Target("http" if is_http else protocol or "echo", fields, _resolved(host, port), tls)


def with_tls(target: Target, *, server_name: str | None, cacert: Path | None, insecure: bool) -> Target:
    """The same target with the TLS settings of the flags; raises PlanError with one line."""
    flags = {"--server-name": server_name, "--cacert": cacert, "--insecure": insecure}
    given = next((flag for flag, value in flags.items() if value), None)
    if target.tls is None:
        if given is not None:
            raise PlanError(f"{given} goes with https:// or tls://: write one of them, or leave it out")
        return target
    if cacert is not None and insecure:
        raise PlanError("--cacert and --insecure do not fit: leave out --insecure to have the certificate checked")
    if cacert is not None and not cacert.is_file():
        raise PlanError(f"there is no file {str(cacert)!r}: name a PEM file of trusted authorities")
    # An absolute path names the same file from every working directory.
    authorities = None if cacert is None else str(cacert.absolute())
    name = server_name or target.tls.server_name
    return replace(target, tls=Tls(server_name=name, cacert=authorities, insecure=insecure))


def _split(url: str, scheme: str) -> tuple[SplitResult, str, int]:
    """The parts of a URL, with its host and port; raises PlanError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, PORTS[scheme] if parts.port is None else parts.port
    except ValueError:
        parts, host, port = SplitResult(scheme, "", "", "", ""), None, 0
    if "@" in parts.netloc:
        raise PlanError("a user name in the address is not supported: leave out what is before the @")
    if not host or port == 0:
        raise PlanError(f"{url!r} has no host and port: write it as in {scheme}://127.0.0.1:8080")
    if port is None:
        raise PlanError(f"{url!r} is not an address: write {scheme}://host:port")
    return parts, host, port


def _resolved(host: str, port: int) -> str:
    """One address as the contract writes it; raises PlanError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PlanError(f"cannot find {host!r}: {reason}: check the name, or write an address as 127.0.0.1") from None
    addresses = [(family, address[0], port) for family, _, _, _, address in found]
    chosen = next((each for each in addresses if len(addresses) == 1 or _accepts(*each)), addresses[0])
    family, address, port = chosen
    return f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"


def _accepts(family: int, address: str | int, port: int) -> bool:
    with socket.socket(family) as probe:
        probe.settimeout(CONNECT_S_MAX)
        return probe.connect_ex((address, port)) == 0
