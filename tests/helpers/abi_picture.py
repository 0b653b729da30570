"""What exists on a driver, as far as it can be asked: did a refused call change anything, did a case leave anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.abi_world import World


def picture(world: World) -> dict[str, Any]:
    """Free memory, and for each granule of each reservation what lies there; on the emulator its ledger, too.

    Two pictures are equal if nothing happened between them that a program could notice.
    """
    seen: dict[str, Any] = {"free": [world.free_memory(device) for device in world.devices]}
    for start, size in sorted(world.reservations.items()):
        for address in range(start, start + size, world.granularity):
            seen[f"{address:#x}"] = _look_at(world, address)
    if world.driver.is_emulated:
        ledger = world.driver.ledger()
        kinds = (
            "reservations chunks mappings allocations managed_allocations pools pool_allocations graphs graph_execs "
            "graph_memory"
        )
        seen |= {kind: ledger[kind] for kind in kinds.split()}
    return seen


def _look_at(world: World, address: int) -> tuple[object, ...]:
    code, handle = world.retain(address)
    if code == 0:
        world.must("cuMemRelease", world.release(handle))
    rights = [world.get_access(address, device) for device in world.devices]
    return (code, handle, world.address_range(address), rights)


def left_in_ledger(before: dict[str, Any], after: dict[str, Any], expected_violations: int) -> list[str]:
    """A sentence for each thing in the later ledger that the earlier one does not have."""
    problems = []
    memory = "reservations chunks mappings allocations managed_allocations host_allocations pools pool_allocations"
    others = "streams events modules libraries graphs graph_execs user_objects"
    for kind in f"{memory} {others}".split():
        known = [_identity(entry) for entry in before[kind]]
        # Sequence 0: made by the driver itself, like a context's default stream.
        problems += [
            f"left behind in {kind}: {entry}"
            for entry in after[kind]
            if entry["made_by"]["sequence"] != 0 and _identity(entry) not in known
        ]
    violations = after["violations"][len(before["violations"]) :]
    if len(violations) != expected_violations:
        problems.append(f"{expected_violations} contract violations were expected; the ledger has {violations}")
    return problems


def _identity(entry: dict[str, Any]) -> tuple[object, ...]:
    """Two entries are the same thing if one call made them."""
    return (entry.get("address"), entry.get("handle"), entry["made_by"]["sequence"])
