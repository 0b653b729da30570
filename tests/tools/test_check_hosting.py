"""The check of the files for the host finds files that cannot be read, and commands that do not exist."""

import pytest

WORKFLOW = """
on: push
jobs:
  checks:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
      - run: bash .ci/run
      - run: make wheel
"""
GOOD = {
    "Makefile": "demo: all\nwheel:\n",
    ".ci/run": "",
    "tools/packages.sh": "",
    "src/memlake/cli/doctor.py": "",
    "src/memlake/cli/convert.py": "",
    ".github/workflows/checks.yml": WORKFLOW,
    ".github/ISSUE_TEMPLATE/fault.yml": "name: Output of memlake doctor, and memlake convert a.pickle b.npz\n",
    ".github/pull_request_template.md": "The output of `memlake doctor`:\n",
    ".devcontainer/devcontainer.json": '{"postCreateCommand": "make demo"}\n',
    ".devcontainer/Dockerfile": "FROM debian:12\nCOPY tools/packages.sh /tmp/\nRUN sh /tmp/packages.sh\n",
}


def test_files_that_name_what_exists_pass_in_silence(tree, check):
    assert check("check_hosting.py", tree(GOOD)) == (0, "")


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        (
            ".github/workflows/checks.yml",
            "make wheel",
            "make wheels",
            ":9: calls make wheels, which the Makefile does not",
        ),
        (".github/workflows/checks.yml", ".ci/run", ".ci/start", ":8: calls .ci/start, which does not exist"),
        (".github/workflows/checks.yml", "on: push", "on: [push", ":3: cannot be read: "),
        (".github/workflows/checks.yml", "jobs:", "job:", ":1: is a workflow without jobs"),
        (".github/workflows/checks.yml", "runs-on", "runs", ":1: the job checks has no steps, or no machine"),
        (".github/workflows/checks.yml", "run: make", "name: make", ":1: step 3 of the job checks must have either"),
        (".github/ISSUE_TEMPLATE/fault.yml", "doctor", "nurse", ":1: does not ask for the output of memlake doctor"),
        (
            ".github/ISSUE_TEMPLATE/fault.yml",
            "memlake convert",
            "memlake shrink",
            ":1: calls memlake shrink, which is no",
        ),
        (".github/pull_request_template.md", "doctor", "--version", ":1: does not ask for the output"),
        (".devcontainer/devcontainer.json", "make demo", "make show", ":1: calls make show"),
        (".devcontainer/devcontainer.json", "}", "", ":2: cannot be read: Expecting ',' delimiter"),
        (
            ".devcontainer/Dockerfile",
            "COPY tools/packages",
            "COPY tools/gone",
            ":2: calls tools/gone.sh, which does not",
        ),
    ],
)
def test_what_cannot_work_is_found(tree, check, path, old, new, message):
    root = tree(GOOD)
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))
    status, said = check("check_hosting.py", root)
    assert status == 1
    assert f"{path}{message}" in said
