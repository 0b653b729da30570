"""The smallest device that serves every rank, if the ranks disagree about a size."""

import pytest

from helpers.torch_snapshots import roomy_job
from memlake.jobs.answer import Rank
from memlake.jobs.asking import Question, RankAnswer, answer_of
from memlake.jobs.joint_size import joint_sizes
from memlake.jobs.labels import labelled
from memlake.replaying import ReplayResult
from memlake.trace import TraceFileError

MIB = 2**20


@pytest.fixture
def ranks(tmp_path):
    """Two ranks with their fits under one policy; the second needs 880 MiB."""
    paths = [str(roomy_job(mib).save(tmp_path / f"rank{mib}.pickle")) for mib in (860, 880)]
    files, _ = labelled(paths)
    return [Rank.of(file, answer_of(file.path, Question("fit", None, {"policies": "direct"}))) for file in files]


def replays(path, pairs):
    return answer_of(path, Question("replays", None, {"pairs": tuple(pairs), "events": "immediate", "limit": None}))


def test_only_the_ranks_with_other_sizes_are_replayed(ranks):
    asked = []

    def replay(paths, pairs):
        asked.extend(paths)
        return [replays(path, pairs) for path in paths]

    (size,) = joint_sizes(ranks, replay)
    assert size.min_capacity == 880 * MIB
    assert asked == [ranks[0].file.path]


def test_a_larger_size_is_taken_if_a_rank_does_not_run_on_the_first(ranks):
    """A rank may run on 860 MiB and not on 880 MiB: fitting is not strictly monotonic."""

    def replay(paths, pairs):
        answers = []
        for path in paths:
            answer = replays(path, pairs)
            if path == ranks[0].file.path:
                small = replays(path, [(options, 100 * MIB) for options, _ in pairs]).result
                results = [
                    failed if result.capacity < 884 * MIB else result
                    for result, failed in zip(answer.result, small, strict=True)
                ]
                answer = RankAnswer(**vars(answer) | {"result": tuple(results)})
            assert all(isinstance(result, ReplayResult) for result in answer.result)
            answers.append(answer)
        return answers

    (size,) = joint_sizes(ranks, replay)
    assert size.sizes == {"860": 860 * MIB, "880": 880 * MIB}
    assert size.min_capacity == 884 * MIB


def test_no_size_is_claimed_if_a_file_can_no_longer_be_read(ranks):
    (size,) = joint_sizes(ranks, lambda paths, pairs: [TraceFileError("is gone", path) for path in paths])
    assert size.min_capacity is None
    assert size.spread.most == 880 * MIB
