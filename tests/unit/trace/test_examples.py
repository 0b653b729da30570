import pytest

from memlake import ConfigError
from memlake.trace import example_traces, load_example

# Name: live peak, streams, steps.
EXAMPLES = {
    "infer_opt-30b_weight_streaming": (39372566528, 2, 1),
    "infer_sdxl_sizes": (43380325888, 1, 6),
    "train_gpt-1.4b": (26581238784, 1, 0),
    "train_moe": (57525974016, 1, 1),
    "train_opt-1.3b_recompute": (59307607040, 1, 6),
    "train_opt-13b_lora_offload": (63333992448, 4, 6),
}


def test_the_examples_are_these():
    assert list(example_traces()) == list(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_what_its_table_says(name):
    trace = load_example(name)
    assert (trace.peak_live, trace.num_streams, len(trace.steps)) == EXAMPLES[name]
    row = next(line for line in README().splitlines() if f"`{name}`" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:5] == [str(trace.num_streams), str(len(trace)), f"{trace.peak_live / 2**30:.2f} GiB"]


def README():  # noqa: N802  the file's name
    (folder,) = {path.parent for path in example_traces().values()}
    return (folder / "README.md").read_text()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_small(name):
    assert 20_000 < example_traces()[name].stat().st_size < 200_000


def test_an_unknown_example_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match="no example is named 'train'; there are: infer_opt-30b"):
        load_example("train")
