"""What the core knows about its policies: their names, what each can do, and its options. Read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

__all__ = ["Capabilities", "Entry", "Option", "default_policy", "entries", "policies_with"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What pools of a policy can do.

    Attributes:
        several_devices: one pool over several devices, and a `placement` among them.
        host_memory: a pool whose memory lies on the host (`location`).
        spill: memory of the host for requests that the devices have no room for.
        sharing: buffers that other processes may be given.
        preallocation: it keeps freed memory, so memory can be taken in advance.
        reuse_rules: rules by which freed memory reaches other streams.
        peers: access for devices beside the pool's own.
        driver_release: the driver acts on the release threshold, not memlake.
        in_pytorch: PyTorch has it, and ``PYTORCH_ALLOC_CONF`` configures it there.
        approximate: its figures on the emulator are not those of the real thing. Then its driver time is not modelled,
            and comparisons show it only when it is asked for.
    """

    several_devices: bool
    host_memory: bool
    spill: bool
    sharing: bool
    preallocation: bool
    reuse_rules: bool
    peers: bool
    driver_release: bool
    in_pytorch: bool
    approximate: bool


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a policy, as its text has it.

    Attributes:
        key: in a text.
        kind: ``"flag"``, ``"size"``, ``"mib"`` (a size written in MiB), ``"count"``, ``"number"`` or ``"divisions"``.
        value: what it may be, in words.
        default: a value that can be written, or words where leaving it out is the only way to say it.
        help: what it does, in one line.
    """

    key: str
    kind: str
    value: str
    default: str
    help: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One policy.

    Attributes:
        name: what it is called.
        summary: what it is, in one line.
        capabilities: what its pools can do.
        options: what may be set, in the order of its text.
    """

    name: str
    summary: str
    capabilities: Capabilities
    options: tuple[Option, ...]


@cache
def entries() -> dict[str, Entry]:
    """Every policy by its name, in the order of tables; the first is the default."""
    from memlake import _native

    return {
        policy["name"]: Entry(
            name=policy["name"],
            summary=policy["summary"],
            capabilities=Capabilities(**policy["capabilities"]),
            options=tuple(Option(**option) for option in policy["options"]),
        )
        for policy in _native.policies()
    }


def default_policy() -> str:
    """The name of the policy that pools have by default."""
    return next(iter(entries()))


def policies_with(capability: str) -> str:
    """``'"lake" or "driver"'``: the policies that can do something, for a sentence."""
    names = [f'"{entry.name}"' for entry in entries().values() if getattr(entry.capabilities, capability)]
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
