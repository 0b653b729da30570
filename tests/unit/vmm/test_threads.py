"""Many threads at once: nobody gets in anybody's way, and a chunk still has one user."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from memlake import ConfigError, vmm

GRANULE = 2 * 2**20
THREADS = 8


def in_threads(work):
    """What `work(index)` returned, in threads that begin together."""
    start = Barrier(THREADS)

    def run(index):
        start.wait()
        return work(index)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_segments_are_made_cut_joined_and_closed_side_by_side(gpus):
    def work(index):
        gpu = gpus[index % 2]
        for turn in range(25):
            value = 1 + index * 25 + turn
            segment = vmm.Segment.create(gpu, 2 * GRANULE, access=gpus)
            segment.fill(value)
            left, right = segment.split(GRANULE)
            with vmm.stitch([*right.chunks, *left.chunks], access=gpus) as fused:
                assert (fused.numpy() == value).all()
            right.merge(left).close()
        return True

    assert all(in_threads(work))
    assert all(gpu.ledger().is_empty for gpu in gpus)


def test_one_thread_wins_a_chunk(gpu):
    chunks = [vmm.create(gpu, GRANULE) for _ in range(4)]
    for _ in range(20):

        def work(index):
            try:
                # From both ends, so that a claim that stops half-way would leave traces.
                return vmm.stitch(chunks if index % 2 else reversed(chunks))
            except ConfigError as error:
                return str(error)

        results = in_threads(work)
        winners = [result for result in results if isinstance(result, vmm.Segment)]
        assert len(winners) == 1
        assert all("used by Segment" in result for result in results if result is not winners[0])
        assert all(chunk.user is winners[0] for chunk in chunks)
        winners[0].close()
        assert all(chunk.is_free for chunk in chunks)
