"""Steps that are inferred from a period of the requests, and traces in which there is none."""

import random

import numpy as np
import pytest

import memlake
from memlake.analysis import overview
from memlake.analysis.request_period import find_period
from memlake.trace import Context, Frame, Op, Stacks, example_traces, load_example

MIB = 2**20


class Job:
    """Rows of a trace: requests at places of the code, and their frees."""

    def __init__(self):
        self.rows, self.places = [], []

    def ask(self, mib, place=0):
        self.places.append(place)
        number = len(self.places)
        self.rows.append((Op.ALLOCATE, number, int(mib * MIB), place))
        return number

    def free(self, *numbers):
        self.rows += [(Op.FREE, number, 0, 0) for number in numbers]

    @property
    def length(self):
        return len(self.rows)

    def columns(self):
        return [[row[column] for row in self.rows] for column in range(3)]

    def trace(self, **more):
        tags = [f"place {number}" for number in range(max(self.places, default=0) + 1)]
        return memlake.Trace(*self.columns(), tag=[row[3] for row in self.rows], tags=tags, **more)


def step(job, sizes, kept=()):
    """Forward keeps its requests, backward frees them in reverse order, with a temporary for each."""
    held = [job.ask(size, 1 + place) for place, size in enumerate(sizes)]
    for place, number in enumerate(reversed(held)):
        job.free(job.ask(1.5, 50 + place))
        job.free(number)
    job.free(*kept)


SIZES = [3, 40, 7, 7, 12, 90, 2, 2, 31]


def test_a_loop_is_found_with_its_first_rows():
    job, starts = Job(), []
    for _ in range(6):
        starts.append(job.length)
        step(job, SIZES)
    period, reason = find_period(job.trace())
    assert reason == ""
    assert (period.length, period.equal, period.with_sizes) == (18, 1.0, True)
    assert list(period.rows) == [*starts, job.length]
    assert period.sentence.startswith("inferred from a period of 18 requests (100 % of them equal")


def test_what_comes_before_and_after_the_loop_is_in_no_step():
    chance, job, starts = random.Random(1), Job(), []
    weights = [job.ask(chance.uniform(1, 60), 100 + number % 7) for number in range(60)]
    for _ in range(5):
        starts.append(job.length)
        step(job, SIZES)
    end = job.length
    for _ in range(9):
        job.ask(chance.uniform(1, 60), 200)
    job.free(*weights)
    period, _ = find_period(job.trace())
    assert list(period.rows) == [*starts, end]
    found = overview(job.trace())
    assert [(one.number, one.start, one.stop) for one in found.steps] == list(
        zip(range(5), starts, [*starts[1:], end], strict=True)
    )
    assert {one.peak_live - found.steps[0].end_live for one in found.steps} == {int((sum(SIZES) + 1.5) * MIB)}
    assert len({one.end_live for one in found.steps}) == 1


def test_layers_of_a_step_are_no_steps_if_there_are_steps():
    job, starts = Job(), []
    for _ in range(4):
        starts.append(job.length)
        head = job.ask(100, 90)
        for _ in range(30):
            job.free(job.ask(5, 1), job.ask(9, 2))
        job.free(head, job.ask(64, 91))
    period, _ = find_period(job.trace())
    assert period.length == 62
    assert list(period.rows) == [*starts, job.length]


def test_batches_of_other_lengths_are_steps_by_their_call_sites_alone():
    job, starts = Job(), []
    for length in (1, 3, 2, 2, 2, 1, 5, 3, 1, 2, 1, 3):
        starts.append(job.length)
        step(job, [size * length for size in SIZES])
    trace = job.trace()
    period, _ = find_period(trace)
    assert (period.with_sizes, list(period.rows)) == (False, [*starts, job.length])
    assert "by stream and call site, with other sizes" in period.sentence
    # Without call sites only the three batches of one length show themselves, and those are steps.
    period, _ = find_period(memlake.Trace(trace.op, trace.id, trace.bytes))
    assert (period.with_sizes, list(period.rows)) == (True, starts[2:6])


def test_batches_of_other_lengths_are_not_known_without_call_sites():
    job = Job()
    for length in (1, 3, 2, 5, 1, 4, 2, 7, 3, 1, 6, 2):
        step(job, [size * length for size in SIZES])
    trace = job.trace()
    assert find_period(memlake.Trace(trace.op, trace.id, trace.bytes))[0] is None


def test_steps_with_other_numbers_of_requests_are_not_known():
    chance, job = random.Random(5), Job()
    for _ in range(30):
        step(job, SIZES * chance.randrange(1, 9))
    assert find_period(job.trace())[0] is None


def test_a_little_noise_lowers_the_share_and_much_of_it_hides_the_period():
    def noisy(share):
        chance, job = random.Random(6), Job()
        for _ in range(40):
            step(job, [size + chance.random() * (chance.random() < share) for size in SIZES])
        trace = job.trace()
        return find_period(memlake.Trace(trace.op, trace.id, trace.bytes))[0]

    assert 0.9 < noisy(0.04).equal < 1
    assert noisy(0.04).length == 18
    assert noisy(0.9) is None


def random_job(count):
    chance, job, live = random.Random(7), Job(), []
    for _ in range(count):
        live.append(job.ask(chance.choice((1, 2, 3, 5, 8, 13)), chance.randrange(5)))
        if len(live) > 20:
            job.free(live.pop(chance.randrange(len(live))))
    return job


@pytest.mark.parametrize("count", [6, 7, 20, 100, 1000, 5000])
def test_requests_in_no_order_have_no_period(count):
    period, reason = find_period(random_job(count).trace())
    assert period is None
    assert reason


@pytest.mark.parametrize("count", range(6))
def test_few_requests_have_no_period(count):
    job = Job()
    for _ in range(count):
        job.free(job.ask(1))
    assert find_period(job.trace()) == (None, f"{count} requests are too few for a period")


def test_the_same_request_over_and_over_is_no_step():
    job = Job()
    for _ in range(50):
        job.free(job.ask(4))
    assert find_period(job.trace()) == (None, "all requests are alike, so each may be a step or none")
    # Nor if the same request is most of what happens.
    job.free(job.ask(7))
    assert find_period(job.trace())[0] is None


def test_a_period_of_two_requests_is_found():
    job = Job()
    for _ in range(20):
        first = job.ask(4, 1)
        job.free(job.ask(9, 2), first)
    assert find_period(job.trace())[0].length == 2


def test_what_keeps_its_memory_or_frees_older_memory_is_no_step():
    forward = Job()
    kept = []
    for _ in range(30):
        kept += [forward.ask(30, 1), forward.ask(20, 2)]
        forward.free(forward.ask(5, 3))
    period, reason = find_period(forward.trace())
    assert period is None
    assert "does not return to the memory" in reason
    backward = Job()
    old = [backward.ask(30 + number / 7, 100 + number % 11) for number in range(30)]
    for number in reversed(old):
        backward.free(backward.ask(3, 1), backward.ask(5, 2), number)
    assert find_period(backward.trace())[0] is None


def with_stacks(job, outer):
    """The trace of a job, each place of the code as a function below the same outer frames."""
    frames = [Frame(f"/job/model{number}.py", number, "f") for number in range(100)]
    every = [*frames, *outer]
    outside = [len(frames) + number for number in reversed(range(len(outer)))]
    texts = [text for frame in every for text in (frame.filename, frame.name)]
    stacks = Stacks(
        starts=[0, 0, *(3 * (number + 1) for number in range(100))],
        frames=[number for place in range(100) for number in (place, *outside)],
        filename=range(0, len(texts), 2),
        line=[frame.line for frame in every],
        name=range(1, len(texts), 2),
        texts=texts,
    )
    places = np.array([1 + row[3] if row[0] == Op.ALLOCATE else 0 for row in job.rows], np.uint32)
    return memlake.Trace(*job.columns(), context=Context(places, stacks))


MAIN = Frame("/job/train.py", 10, "main")
TORCH = "/opt/venv/lib/python3.12/site-packages/torch"


@pytest.mark.parametrize(
    ("inner", "is_found"),
    [
        (Frame("/job/train.py", 20, "train"), True),
        (Frame(f"{TORCH}/utils/_contextlib.py", 116, "decorate_context"), True),
        (Frame(f"{TORCH}/nn/modules/module.py", 1750, "_call_impl"), False),
        (Frame(f"{TORCH}/optim/optimizer.py", 526, "wrapper"), False),
        (Frame(f"{TORCH}/autograd/__init__.py", 300, "backward"), False),
        (Frame("/job/model.py", 56, "forward"), False),
    ],
)
def test_a_loop_inside_one_call_of_a_module_is_no_step(inner, is_found):
    job = Job()
    for _ in range(8):
        step(job, SIZES)
    period, reason = find_period(with_stacks(job, [MAIN, inner]))
    assert (period is not None) == is_found
    assert is_found or "inside one call of a module or an optimizer" in reason


@pytest.mark.parametrize("name", [name for name in example_traces() if len(load_example(name).steps) > 2])
def test_the_steps_of_the_examples_are_found_without_their_rows(name):
    given = load_example(name)
    kept = given.op != Op.STEP
    bare = memlake.Trace(
        given.op[kept], given.id[kept], given.bytes[kept], given.stream[kept], tag=given.tag[kept], tags=given.tags
    )
    period, _ = find_period(bare)
    named = [int(np.count_nonzero(kept[: one.start])) for one in given.steps]
    # The first step also allocates what stays, so it is not like the others. A few requests may come before the row.
    assert np.abs(np.array(period.rows[:-1]) - np.array(named[1:])).max() <= 3
    assert period.equal > 0.99


def test_an_overview_says_how_steps_are_known_or_why_they_are_not():
    job = Job()
    for _ in range(5):
        step(job, SIZES)
    text = " ".join(overview(job.trace()).to_text(steps=True).split())
    assert "5 steps; inferred from a period of 18 requests (100 % of them equal" in text
    found = overview(random_job(200).trace())
    assert found.steps == ()
    assert "The steps are not known: no rows and no annotations name them, and no period shows them" in " ".join(
        found.to_text(steps=True).split()
    )
    assert overview(job.trace(), steps=False).steps == ()
