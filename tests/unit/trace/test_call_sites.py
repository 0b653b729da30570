"""Which frame of a stack is the call site, and which category an allocation has."""

import pytest

from memlake.trace import Frame
from memlake.trace.call_sites import call_site_of
from memlake.trace.categories import RULES, category_of

PACKAGES = "/venv/lib/python3.12/site-packages"
MALLOC = Frame("CUDACachingAllocator.cpp", 0, "c10::cuda::CUDACachingAllocator::malloc(unsigned long)")
MATMUL = Frame("??", 0, "at::native::matmul(at::Tensor const&, at::Tensor const&)")
CALL = Frame(f"{PACKAGES}/torch/nn/modules/module.py", 1790, "_call_impl")
LINEAR = Frame(f"{PACKAGES}/torch/nn/modules/linear.py", 125, "forward")
HUB = Frame(f"{PACKAGES}/transformers/llama.py", 7, "attend")
MODEL = Frame("/home/someone/model.py", 12, "forward")
TRAIN = Frame("/home/someone/train.py", 90, "main")
WRAPPER = Frame("/usr/lib/python3.12/contextlib.py", 81, "inner")
NODE = Frame("Functions.cpp", 0, "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)")
ENGINE = Frame("engine.cpp", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr<GraphTask>&)")
SAVED = Frame("??", 0, "torch::autograd::SavedVariable::reset_data()")


@pytest.mark.parametrize(
    ("stack", "text", "rule"),
    [
        ([MALLOC, LINEAR, CALL, WRAPPER, MODEL, TRAIN], "model.py:12 forward", "program"),
        ([MALLOC, LINEAR, CALL, HUB, WRAPPER], "llama.py:7 attend", "library"),
        ([MALLOC, LINEAR, CALL, WRAPPER], "linear.py:125 forward", "library"),
        ([MALLOC, MATMUL, NODE, ENGINE], "autograd MmBackward0", "autograd"),
        ([MALLOC, Frame("", 0, "torch::autograd::AccumulateGrad::apply(x)")], "autograd AccumulateGrad", "autograd"),
        ([MALLOC, MATMUL], "C++ at::native::matmul", "native"),
        ([MALLOC], "(no Python frame)", "native"),
        ([], "(no stack recorded)", "none"),
        # A user's folder may be called torch; a checkout of PyTorch is still PyTorch.
        ([Frame("/home/someone/torch/train.py", 3, "f")], "train.py:3 f", "program"),
        ([Frame("/src/pytorch/torch/nn/functional.py", 3, "linear"), TRAIN], "train.py:90 main", "program"),
        ([Frame("/tmp/torchinductor_me/ab/cxyz.py", 53, "call"), TRAIN], "train.py:90 main", "program"),
        ([Frame("<ipython-input-3-abc>", 4, "<module>")], "<ipython-input-3-abc>:4 <module>", "program"),
        (
            [Frame(r"C:\Python\Lib\site-packages\torch\nn\functional.py", 1, "f"), MODEL],
            "model.py:12 forward",
            "program",
        ),
    ],
)
def test_the_call_site_is_the_innermost_frame_of_the_program(stack, text, rule):
    site = call_site_of(stack)
    assert (site.text, site.rule) == (text, rule)


@pytest.mark.parametrize(
    ("category", "stack", "free"),
    [
        ("weights", [MALLOC, Frame(CALL.filename, 1, "convert"), Frame(CALL.filename, 2, "_apply"), TRAIN], []),
        ("weights", [MALLOC, Frame(LINEAR.filename, 1, "__init__"), MODEL], []),
        ("optimizer state", [MALLOC, Frame(f"{PACKAGES}/torch/optim/adamw.py", 1, "_init_group"), TRAIN], []),
        ("gradients", [MALLOC, MATMUL, NODE, ENGINE], []),
        ("activations", [MALLOC, LINEAR, CALL, MODEL], [SAVED, ENGINE]),
        ("workspaces", [MALLOC, Frame("", 0, "at::cuda::getNewWorkspace()"), NODE, ENGINE], []),
        # A forward pass without a backward pass, a free outside of it, and code outside of modules decide nothing.
        ("unknown", [MALLOC, LINEAR, CALL, MODEL], []),
        ("unknown", [MALLOC, LINEAR, CALL, MODEL], [TRAIN]),
        ("unknown", [MALLOC, TRAIN], [SAVED, ENGINE]),
        ("unknown", [MALLOC, Frame(f"{PACKAGES}/torch/optim/optimizer.py", 1, "profile_hook_step"), TRAIN], []),
        # Recomputed activations are allocated in backward as well, and are no gradients.
        ("unknown", [MALLOC, LINEAR, CALL, ENGINE], []),
        ("unknown", [], []),
    ],
)
def test_a_category_needs_a_proof(category, stack, free):
    assert category_of(stack, free) == category
    assert category in RULES
