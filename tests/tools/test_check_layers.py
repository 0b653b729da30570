"""The check of the layers accepts what the page allows and rejects everything else, naming file, line and reason."""

import pytest

PAGE = """# The core

0. **base/**: shared words
1. **driver/**: the only code that talks to a driver
2. **vmm/**: owners
3. `policies/` — the interface
4. `policies/lake/`, `policies/torch/` — siblings
"""

EMULATOR_PAGE = """# The emulator

0. `basics/` — words
1. `memory/` — chunks
2. `code/`, `graphs/` — siblings
3. `entries/` — exported functions
"""

PACKAGE_PAGE = """# The package

0. `errors.py` — exceptions
1. `units.py`, `device/` — sizes;
   devices
2. `vmm/`, `trace/` — memory
3. `cli/` — commands
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
    "emulator/README.md": EMULATOR_PAGE,
    "emulator/exports.map": "{ global: cu*; };\n",
    "emulator/basics/refusal.hpp": '#include "driver/cuda_abi.hpp"\n#include "driver/results.inc"\n',
    "emulator/memory/chunk.cpp": '#include "base/bytes.hpp"\n#include "memory/chunk.hpp"\n',
    "emulator/memory/chunk.hpp": '#include "basics/refusal.hpp"\n',
    "emulator/code/module.hpp": '#include "code/images/ptx.hpp"\n#include "memory/chunk.hpp"\n',
    "emulator/code/images/ptx.hpp": '#include "code/images/words.hpp"\n',
    "emulator/graphs/graph.hpp": '#include "memory/chunk.hpp"\n',
    "emulator/entries/modules.cpp": '#include "code/module.hpp"\n#include "graphs/graph.hpp"\n',
    "bindings/module.cpp": '#include <nanobind/nanobind.h>\n#include "vmm/mapping.hpp"\n',
    "tests/native/check_cuda_h.cpp": "#include <cuda.h>\n",
    "src/memlake/README.md": PACKAGE_PAGE,
    "src/memlake/__init__.py": "from memlake import cli, vmm\n",
    "src/memlake/errors.py": "",
    "src/memlake/units.py": "from memlake.errors import MemlakeError\n",
    "src/memlake/device/__init__.py": "from memlake.device.device import Device\n",
    "src/memlake/device/device.py": "from memlake import _native\nfrom memlake.errors import ConfigError\nimport os\n",
    "src/memlake/vmm/mapping.py": "from memlake.device import Device\nfrom memlake.vmm.chunk import Chunk\n",
    "src/memlake/trace/trace.py": "from memlake import units\n",
    "src/memlake/cli/emulate.py": "from memlake import vmm\n",
    "src/memlake/examples/README.md": "Traces, no code.\n",
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
        ("core/vmm/mapping.hpp", '"memory/chunk.hpp"', "the core must not know the emulator"),
        ("emulator/memory/chunk.cpp", '"driver/driver.hpp"', "may include only base/, driver/cuda_abi.hpp"),
        ("emulator/memory/chunk.cpp", '"vmm/mapping.hpp"', "may include only base/, driver/cuda_abi.hpp"),
        ("emulator/memory/chunk.cpp", "<Python.h>", "only bindings/ knows Python"),
        ("emulator/memory/chunk.cpp", "<cuda.h>", "so that no toolkit is needed"),
        ("emulator/memory/chunk.cpp", '"chunk.hpp"', "write it from the include root, emulator/"),
        ("emulator/memory/chunk.cpp", '"../basics/refusal.hpp"', "write it from the include root, emulator/"),
        ("emulator/memory/chunk.cpp", '"emulator/basics/refusal.hpp"', "write it from the include root, emulator/"),
        ("emulator/code/module.hpp", '"images/ptx.hpp"', "write it from the include root, emulator/"),
        ("emulator/memory/chunk.cpp", '"entries/entry.hpp"', "memory/ may include only basics, memory"),
        ("emulator/basics/refusal.hpp", '"memory/chunk.hpp"', "basics/ may include only basics"),
        ("emulator/code/images/ptx.hpp", '"entries/entry.hpp"', "code/ may include only basics, memory, code"),
        ("emulator/code/images/ptx.hpp", '"graphs/graph.hpp"', "are siblings and must not know each other"),
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


def test_a_room_of_the_emulator_that_its_page_does_not_state_is_rejected(tree, check):
    status, said = check("check_layers.py", tree({**GOOD, "emulator/nvml/devices.cpp": ""}))
    assert status == 1
    assert said == "emulator/README.md:1: does not say which layer emulator/nvml is: add it to the numbered list\n"


@pytest.mark.parametrize("part", ["core", "emulator"])
def test_a_source_file_outside_the_folders_is_rejected(tree, check, part):
    status, said = check("check_layers.py", tree({**GOOD, f"{part}/loose.hpp": ""}))
    assert status == 1
    assert said == f"{part}/loose.hpp:1: is in no folder: move it into one of those that {part}/README.md lists\n"


def test_a_stated_room_without_a_folder_is_rejected(tree, check):
    page = EMULATOR_PAGE + "4. `shims/` — other names\n"
    status, said = check("check_layers.py", tree({**GOOD, "emulator/README.md": page}))
    assert status == 1
    assert said == "emulator/README.md:1: states the layer shims, but there is no folder emulator/shims\n"


def test_a_room_with_the_name_of_a_folder_of_the_core_is_rejected(tree, check):
    files = {"emulator/README.md": EMULATOR_PAGE + "4. `vmm/` — again\n", "emulator/vmm/mapping.hpp": ""}
    status, said = check("check_layers.py", tree({**GOOD, **files}))
    assert status == 1
    assert "emulator/README.md:1: has the room vmm, which is also a folder of the core" in said


def test_a_stated_layer_without_a_folder_is_rejected(tree, check):
    status, said = check("check_layers.py", tree({**GOOD, "core/README.md": PAGE + "5. **pool/**: doing\n"}))
    assert status == 1
    assert "states the layer pool, but there is no folder core/pool" in said


@pytest.mark.parametrize(
    ("path", "line", "reason"),
    [
        ("device/device.py", "from memlake.vmm.mapping import Mapping", "memlake.vmm: device is below it"),
        ("device/device.py", "from memlake import vmm", "memlake.vmm: device is below it"),
        ("device/device.py", "import memlake.cli.emulate", "memlake.cli: device is below it"),
        ("errors.py", "from memlake.units import Size", "memlake.units: errors is below it"),
        ("vmm/mapping.py", "from memlake.cli import main", "memlake.cli: vmm is below it"),
        ("vmm/mapping.py", "from memlake.trace import Trace", "memlake.trace: vmm is on the same floor"),
        ("units.py", "from memlake.device.device import Device", "memlake.device: units is on the same floor"),
    ],
)
def test_an_import_that_does_not_go_down_is_rejected_even_inside_a_function(tree, check, path, line, reason):
    status, said = check("check_layers.py", tree({**GOOD, f"src/memlake/{path}": f"def f():\n    {line}\n"}))
    assert status == 1
    assert said == f"src/memlake/{path}:2: imports {reason} and must not know it\n"


def test_an_import_for_types_only_is_an_import(tree, check):
    for_types = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from memlake.vmm import Segment\n"
    status, said = check("check_layers.py", tree({**GOOD, "src/memlake/device/device.py": for_types}))
    assert status == 1
    assert said == "src/memlake/device/device.py:4: imports memlake.vmm: device is below it and must not know it\n"


@pytest.mark.parametrize("line", ["import memlake", "from memlake import Pool", "from memlake import Pool, errors"])
def test_an_import_from_the_list_of_public_names_is_rejected(tree, check, line):
    status, said = check("check_layers.py", tree({**GOOD, "src/memlake/vmm/mapping.py": f"{line}\n"}))
    assert status == 1
    assert said.startswith("src/memlake/vmm/mapping.py:1: imports memlake")
    assert "from the package that has it" in said


@pytest.mark.parametrize("path", ["pool/pool.py", "pool.py"])
def test_a_package_or_module_without_a_floor_is_rejected(tree, check, path):
    status, said = check("check_layers.py", tree({**GOOD, f"src/memlake/{path}": ""}))
    assert status == 1
    assert said == "src/memlake/README.md:1: does not say on which floor pool is: add it to the numbered list\n"


def test_a_floor_without_a_package_is_rejected(tree, check):
    page = PACKAGE_PAGE + "4. `pool/` — pools\n"
    status, said = check("check_layers.py", tree({**GOOD, "src/memlake/README.md": page}))
    assert status == 1
    assert said == "src/memlake/README.md:1: states the floor of pool, but there is no such package or module\n"


def test_a_package_on_two_floors_is_rejected(tree, check):
    page = PACKAGE_PAGE + "4. `vmm/` — again\n"
    status, said = check("check_layers.py", tree({**GOOD, "src/memlake/README.md": page}))
    assert status == 1
    assert "src/memlake/README.md:1: states the floor of vmm more than once\n" in said


@pytest.mark.parametrize(
    ("path", "line", "reason"),
    [
        ("src/memlake/units.py", 'import_module("memlake.cli")', "imports memlake.cli: units is below it"),
        ("src/memlake/units.py", 'importlib.import_module(f"memlake.cli.{x}")', "imports memlake.cli"),
        ("src/memlake/vmm/mapping.py", '__import__("memlake.trace.trace")', "is on the same floor"),
        ("src/memlake/units.py", 'import_module("memlake")', "not from the list of public names"),
        ("src/memlake/units.py", 'import_module(f"memlake.{x}")', "by a name that this check cannot read"),
        ("src/memlake/units.py", "import_module(x)", "by a name that this check cannot read"),
    ],
)
def test_an_import_by_name_is_an_import(tree, check, path, line, reason):
    code, out = check("check_layers.py", tree(GOOD | {path: f"x = 1\n{line}\n"}))
    assert code == 1
    assert f"{path}:2: " in out
    assert reason in out


def test_imports_by_name_of_other_packages_and_of_lower_floors_are_accepted(tree, check):
    files = {
        "src/memlake/trace/trace.py": 'import_module("pyarrow.parquet")\nimport_module("memlake.units")\n',
        "src/memlake/vmm/mapping.py": 'import_module(f"memlake.vmm.{x}")\n',
    }
    assert check("check_layers.py", tree(GOOD | files)) == (0, "")


def test_only_results_that_print_themselves_may_load_tables_by_name(tree, check):
    page = PACKAGE_PAGE.replace("`units.py`", "`units.py`, `printable.py`").replace("`cli/`", "`tables/`, `cli/`")
    line = 'import_module(f"memlake.tables.{x}")\n'
    files = {"src/memlake/README.md": page, "src/memlake/tables/page.py": "", "src/memlake/printable.py": line}
    assert check("check_layers.py", tree(GOOD | files)) == (0, "")
    code, out = check("check_layers.py", tree(GOOD | files | {"src/memlake/units.py": line}))
    assert code == 1
    assert "imports memlake.tables: units is below it" in out


def test_only_traces_may_load_replays_by_name(tree, check):
    page = PACKAGE_PAGE.replace("`cli/`", "`replaying/`, `cli/`")
    line = 'import_module("memlake.replaying.verifying")\n'
    files = {"src/memlake/README.md": page, "src/memlake/replaying/verifying.py": "", "src/memlake/trace/x.py": line}
    assert check("check_layers.py", tree(GOOD | files)) == (0, "")
    code, out = check("check_layers.py", tree(GOOD | files | {"src/memlake/vmm/x.py": line}))
    assert code == 1
    assert "imports memlake.replaying: vmm is below it" in out


@pytest.mark.parametrize("path", ["report/page.py", "report.py"])
def test_a_package_or_module_with_the_name_of_a_public_function_is_rejected(tree, check, path):
    files = {
        "src/memlake/README.md": PACKAGE_PAGE.replace("`cli/`", "`report/`, `cli/`"),
        "src/memlake/__init__.py": "from memlake import cli, vmm\nfrom memlake.report import report\n",
        f"src/memlake/{path}": "",
    }
    status, said = check("check_layers.py", tree(GOOD | files))
    assert status == 1
    assert said.startswith("src/memlake/__init__.py:1: memlake.report is a public name")
