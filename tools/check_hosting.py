"""The files for the site that hosts the project can be read, and the commands in them exist.

These files run on machines of others only, so no test of the project runs them: the workflows and templates in .github/
and the container for development in .devcontainer/. Each YAML and JSON file must parse, each step of a workflow must
run a command or use an action, and each `make TARGET`, script and `memlake COMMAND` that the files name must exist.
Templates must ask for the output of `memlake doctor`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from source_tree import Finding, files, report, root_from_arguments

FOLDERS = (".github", ".devcontainer")
TEMPLATES = (".github/ISSUE_TEMPLATE/", ".github/pull_request_template")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
SCRIPT = re.compile(r"\b(?:bash|sh) ([\w./-]+)|^COPY ([\w./-]+)", re.MULTILINE)
COMMAND = re.compile(r"\bmemlake (doctor|[a-z]+(?= [\w.-]+\.\w+))")


def parse_fault(path: Path, text: str) -> tuple[int, str] | None:
    """The line and the reason if a YAML or JSON file cannot be read."""
    try:
        if path.suffix == ".json":
            json.loads(text)
        elif path.suffix in (".yml", ".yaml"):
            yaml.safe_load(text)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return (mark.line + 1 if mark else 1), getattr(error, "problem", None) or "is no YAML"
    return None


def findings_in_workflow(path: Path, text: str) -> Iterator[Finding]:
    """Jobs without steps, and steps that do nothing or two things."""
    workflow = yaml.safe_load(text)
    jobs = workflow.get("jobs") if isinstance(workflow, dict) else None
    if not jobs:
        yield Finding(path, 1, "is a workflow without jobs")
        return
    for name, job in jobs.items():
        steps = job.get("steps") or []
        if not steps or "runs-on" not in job:
            yield Finding(path, 1, f"the job {name} has no steps, or no machine to run on")
        for number, step in enumerate(steps, 1):
            if ("run" in step) == ("uses" in step):
                yield Finding(path, 1, f"step {number} of the job {name} must have either run or uses")


def findings_in_commands(root: Path, path: Path, text: str) -> Iterator[Finding]:
    """Commands that do not exist in the project."""
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.MULTILINE))
    for number, line in enumerate(text.splitlines(), 1):
        for target in MAKE.findall(line):
            if target not in targets:
                yield Finding(path, number, f"calls make {target}, which the Makefile does not have")
        for called, copied in SCRIPT.findall(line):
            script = called or copied
            if not script.startswith("/") and not (root / script).is_file():
                yield Finding(path, number, f"calls {script}, which does not exist")
        for command in COMMAND.findall(line):
            if not (root / f"src/memlake/cli/{command}.py").is_file():
                yield Finding(path, number, f"calls memlake {command}, which is no command")


def findings(root: Path) -> Iterator[Finding]:
    """Files that cannot be read, and commands that do not exist."""
    for path in files(root):
        if path.parts[0] not in FOLDERS:
            continue
        text = (root / path).read_text()
        if fault := parse_fault(path, text):
            yield Finding(path, fault[0], f"cannot be read: {fault[1]}")
            continue
        if path.parent == Path(".github/workflows"):
            yield from findings_in_workflow(path, text)
        if path.as_posix().startswith(TEMPLATES) and "memlake doctor" not in text:
            yield Finding(path, 1, "does not ask for the output of memlake doctor")
        yield from findings_in_commands(root, path, text)


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
