"""Addresses of clusters."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

__all__ = ["first_line", "knock"]


def knock(address: str, seconds: float) -> None:
    """Sees whether somebody listens at an address. The clients of clusters would try a wrong one for a long time.

    Args:
        address: for instance ``"tcp://host:8786"`` or ``"host:6379"``. One without a port is not tried.
        seconds: how long the other side has to accept the connection.

    Raises:
        OSError: if nobody does.
    """
    place = urlsplit(address if "//" in address else f"//{address}")
    try:
        port = place.port
    except ValueError as error:
        raise OSError(f"the address has no valid port: {error}") from None
    if port is not None and place.hostname is not None:
        socket.create_connection((place.hostname, port), timeout=seconds).close()


def first_line(error: BaseException) -> str:
    """Returns the first line of the message of an error, or the name of its class."""
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__
