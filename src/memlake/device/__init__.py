"""Devices, their streams and events, and memory at device addresses.

Pools, virtual memory and sharing build on this package. A driver of another vendor is added in the core; Python sees
its devices as `Device`.
"""

from memlake.device.device import Device, devices
from memlake.device.event import Event
from memlake.device.memory import Memory
from memlake.device.piece import Piece
from memlake.device.stream import Stream

__all__ = ["Device", "Event", "Memory", "Piece", "Stream", "devices"]
