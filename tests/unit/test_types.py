"""What type checkers know about public arguments and attributes."""

from typing import get_args, get_type_hints

import pytest

import memlake
from memlake.policies import Options
from memlake.pool.arguments import HandleType, Location, Placement, Spill
from memlake.pool.shortage import Shortage


def test_words_of_a_pool_are_literals(gpu):
    hints = get_type_hints(memlake.Pool.__init__, localns={"Options": Options})
    assert hints["placement"] is Placement
    assert hints["location"] is Location
    assert set(get_args(hints["spill"])) == {Spill, type(None)}
    assert set(get_args(hints["handle_type"])) == {HandleType, type(None)}
    for placement in get_args(Placement):
        memlake.Pool(gpu, placement=placement).close()
    for location in get_args(Location):
        assert memlake.Pool(gpu, location=location).location == location


def test_the_attributes_of_out_of_memory_have_the_types_of_the_shortage(gpu):
    hints = get_type_hints(memlake.OutOfMemory)
    of_shortage = get_type_hints(Shortage)
    figures = {name: hint for name, hint in hints.items() if name != "details"}
    assert len(figures) == 13
    assert figures == {name: of_shortage[name] for name in figures}
    with pytest.raises(memlake.OutOfMemory) as refusal:
        memlake.Pool(gpu).allocate("65MiB")
    for name in figures:
        assert getattr(refusal.value, name) == getattr(refusal.value.details, name)
    bare = memlake.OutOfMemory("no memory")
    for name in figures:
        assert not hasattr(bare, name)
