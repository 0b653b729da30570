"""The check of the layers accepts what the page allows and rejects everything else, naming file, line and reason."""

import pytest

PAGE = """# The core

0. **base/**: shared words
1. **driver/**: the only code that talks to a driver
2. **vmm/**: owners
3. `policies/` — the interface
4. `policies/lake/`, `policies/torch/` — siblings
"""

GOOD = {
    "core/README.md": PAGE,
    "core/base/bytes.hpp": "#include <cstdint>\n",
    "core/driver/cuda_abi.hpp": '#include "base/bytes.hpp"\n',
    "core/driver/results.inc": "R(0)\n",
    "core/driver/driver.hpp": '#include "driver/cuda_abi.hpp"\n#include "base/bytes.hpp"\n',
    "core/vmm/mapping.hpp": '#include "driver/driver.hpp"\n#include "vmm/mapping.hpp"\n',
    "core/policies/space.hpp": '#include "vmm/mapping.hpp"\n',
    "core/policies/lake/lake.hpp": '#include "policies/space.hpp"\n',
    "core/policies/torch/torch.hpp": '#include "policies/space.hpp"\n#include "policies/torch/sizes.hpp"\n',
    "emulator/memory.cpp": '#include "base/bytes.hpp"\n#include "driver/cuda_abi.hpp"\n#include "memory.hpp"\n',
    "bindings/module.cpp": '#include <nanobind/nanobind.h>\n#include "vmm/mapping.hpp"\n',
    "tests/native/check_cuda_h.cpp": "#include <cuda.h>\n",
    "src/memlake/__init__.py": "from memlake import cli, vmm\n",
    "src/memlake/device.py": "from memlake.errors import MemlakeError\nimport numpy\n",
    "src/memlake/vmm/mapping.py": "from memlake.device import Device\nfrom memlake.vmm.chunk import Chunk\n",
    "src/memlake/cli/emulate.py": "from memlake import vmm\n",
}


def test_a_tree_that_keeps_the_rule_passes_in_silence(tree, check):
    assert check("check_layers.py", tree(GOOD)) == (0, "")


def test_the_project_itself_keeps_the_rule(check):
    assert check("check_layers.py") == (0, "")


@pytest.mark.parametrize(
    ("path", "include", "reason"),
    [
        ("core/base/bytes.hpp", '"driver/driver.hpp"', "base/ may include only base"),
        ("core/driver/driver.hpp", '"vmm/mapping.hpp"', "driver/ may include only base, driver"),
        ("core/driver/driver.hpp", "<vmm/mapping.hpp>", "driver/ may include only base, driver"),
        ("core/driver/driver.hpp", '"../vmm/mapping.hpp"', "write it from the include root"),
        ("core/driver/driver.hpp", '"core/vmm/mapping.hpp"', "write it from the include root"),
        ("core/driver/cuda_abi.hpp", '"driver/driver.hpp"', "stands for cuda.h and may use only base/"),
        ("core/vmm/mapping.hpp", '"policies/lake/lake.hpp"', "vmm/ may include only base, driver, vmm"),
        (
            "core/policies/space.hpp",
            '"policies/lake/lake.hpp"',
            "policies/ may include only base, driver, vmm, policies",
        ),
        ("core/policies/lake/lake.hpp", '"policies/torch/torch.hpp"', "are siblings and must not know each other"),
        ("core/vmm/mapping.hpp", "<Python.h>", "only bindings/ knows Python"),
        ("core/vmm/mapping.hpp", "<nanobind/nanobind.h>", "only bindings/ knows Python"),
        ("core/driver/driver.hpp", "<cuda.h>", "so that no toolkit is needed"),
        ("core/driver/driver.hpp", "<cuda_runtime_api.h>", "so that no toolkit is needed"),
        ("emulator/memory.cpp", '"driver/driver.hpp"', "the emulator may include only base/, driver/cuda_abi.hpp"),
        ("emulator/memory.cpp", '"vmm/mapping.hpp"', "the emulator may include only base/, driver/cuda_abi.hpp"),
        ("emulator/memory.cpp", "<Python.h>", "only bindings/ knows Python"),
    ],
)
def test_an_include_against_the_rule_is_rejected(tree, check, path, include, reason):
    bad = {**GOOD, path: f"// first line\n  #  include {include}\n"}
    status, said = check("check_layers.py", tree(bad))
    assert status == 1
    assert said.startswith(f"{path}:2: includes {include[1:-1]}: ")
    assert reason in said


def test_a_folder_that_the_page_does_not_state_is_rejected(tree, check):
    status, said = check("check_layers.py", tree({**GOOD, "core/blocks/block.hpp": ""}))
    assert status == 1
    assert "core/README.md:1: does not say which layer core/blocks is" in said


def test_a_folder_beside_stated_siblings_needs_a_line_of_its_own(tree, check):
    status, said = check("check_layers.py", tree({**GOOD, "core/policies/toy/toy.hpp": ""}))
    assert status == 1
    assert "core/README.md:1: does not say which layer core/policies/toy is" in said


def test_a_stated_layer_without_a_folder_is_rejected(tree, check):
    status, said = check("check_layers.py", tree({**GOOD, "core/README.md": PAGE + "5. **pool/**: doing\n"}))
    assert status == 1
    assert "states the layer pool, but there is no folder core/pool" in said


@pytest.mark.parametrize(
    ("path", "line", "part", "target"),
    [
        ("src/memlake/device.py", "from memlake.vmm.mapping import Mapping", "device", "vmm"),
        ("src/memlake/device.py", "from memlake import vmm", "device", "vmm"),
        ("src/memlake/device.py", "import memlake.cli.emulate", "device", "cli"),
        ("src/memlake/vmm/mapping.py", "from memlake.integrations import pytest_plugin", "vmm", "integrations"),
            "src/memlake/vmm/mapping.py",
            "from memlake.integrations.pytest_plugin import EmulatorFixture",
            "vmm",
            "integrations",
        ),
    ],
)
def test_an_import_that_goes_up_is_rejected_even_inside_a_function(tree, check, path, line, part, target):
    status, said = check("check_layers.py", tree({**GOOD, path: f"def f():\n    {line}\n"}))
    assert status == 1
    assert said == f"{path}:2: imports memlake.{target}: {part} is below it and must not know it\n"
