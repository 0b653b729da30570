"""python -m benchmarks [NAME]...: runs the named benchmarks, or all; a line each, and a file in benchmarks/results/."""

import argparse

from benchmarks import demo_memory, emulator_cycle, pool_calls, python_call

BENCHMARKS = {
    "emulator_cycle": emulator_cycle.measure,
    "python_call": python_call.measure,
    "pool_calls": pool_calls.measure,
    "demo_memory": demo_memory.measure,
}


def main() -> int:
    """A missed goal is reported, not an error: the figures depend on the machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    names = parser.parse_args().names or list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in names:
        figures = BENCHMARKS[name]()
        print(figures.line())
        figures.write()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
