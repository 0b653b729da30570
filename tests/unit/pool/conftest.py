import pytest

import memlake

POLICIES = ["lake", "expandable", "caching", "stitch", "direct", "driver"]


@pytest.fixture(params=POLICIES)
def pool(request, gpu):
    """A pool of every policy, on a device of 64 MiB; sound when the test is over."""
    pool = memlake.Pool(gpu, request.param)
    yield pool
    if pool.is_open:
        pool.check()
