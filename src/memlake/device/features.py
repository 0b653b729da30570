"""Features: what a device and its driver can do. Each question is asked once per device and process.

The environment variable ``MEMLAKE_FEATURES`` answers instead of the device: ``MEMLAKE_FEATURES=rdma=no``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from memlake import _native
from memlake.errors import MemlakeError
from memlake.logs import logger

if TYPE_CHECKING:
    from memlake.device.device import Device

__all__ = ["Feature", "Features", "log_refusals", "without_of"]

_log = logger("device")


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature of a device.

    Attributes:
        name: its name, for instance ``"virtual_memory"``.
        what: the feature in one line.
        without: what memlake does without it.
        has: True or False. None: it could not be asked, for instance because there was no memory for a trial. memlake
            then does without it and asks again the next time.
        source: how the answer was found: ``"attribute"`` of the device, ``"trial"``, ``"environment"``
            (``MEMLAKE_FEATURES``), ``"settings"`` of an emulated device, or ``"refusal"`` (the driver refused it in
            use).
        reason: why the device does not have it; empty if it has it.
        refusals: how often the driver refused it in use.
    """

    name: str
    what: str
    without: str
    has: bool | None
    source: str
    reason: str
    refusals: int


@cache
def _texts() -> dict[str, tuple[str, str]]:
    return {name: (what, without) for name, what, without in _native.features()}


def without_of() -> dict[str, str]:
    """Returns what memlake does without each feature, by its name."""
    return {name: without for name, (_, without) in _texts().items()}


class Features(Mapping[str, Feature]):
    """The features of a device by name. The device is asked when a feature is first looked up."""

    __slots__ = ("_device",)

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getitem__(self, name: str) -> Feature:
        what, without = _texts()[name]
        return Feature(name=name, what=what, without=without, **_native.ask_feature(self._device._open, name))

    def refused(self) -> dict[str, Feature]:
        """Returns the features that the driver refused in use. It asks the device nothing."""
        return {name: self[name] for name in _native.refused_features(self._device._open)}

    def __iter__(self) -> Iterator[str]:
        return iter(_texts())

    def __len__(self) -> int:
        return len(_texts())

    def __repr__(self) -> str:
        words = {True: "yes", False: "no", None: "not known"}
        try:
            return f"Features({', '.join(f'{name}: {words[feature.has]}' for name, feature in self.items())})"
        except MemlakeError as error:  # the device is closed, or cannot be asked
            return f"Features(not known: {error})"


def log_refusals() -> None:
    """Writes what the driver refused since the last call to the log ``memlake.device``."""
    for notice in _native.take_feature_notices():
        _log.warning(notice)
