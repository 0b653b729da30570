"""``memlake top``: once, as JSON, and live in a real terminal (tmux)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memlake.cli import main
from memlake.publishing import PoolView, Published, PublishedPool, PublishedStream
from memlake.tables.top import Histories, page_of, sparkline

MIB = 2**20

# `memlake top` also shows the processes that publish in /tmp, and tests of publishing start some.
pytestmark = pytest.mark.alone("published-pools")

PROGRAM = """
import sys, memlake
(gpu,) = memlake.emulate(memory="2GiB", backing="none")
pool, second = memlake.Pool(gpu), memlake.Pool(gpu, "caching")
kept = [pool.allocate("40MiB"), second.allocate("60MiB")]
print("ready", flush=True)
for line in sys.stdin:
    kept.append(pool.allocate(line.strip()))
    print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def program(tmp_path):
    """A process with two pools, which allocates what it is told."""
    environment = os.environ | {"MEMLAKE_PUBLISH": "1"}
    (tmp_path / "job.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "job.py")]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert started.stdout.readline() == "ready\n"
    yield started
    started.kill()
    started.communicate()


def pool_of(number, policy, held, **more):
    figures = {
        **dict.fromkeys(("held_on_host", "pending", "num_live", "retries", "ooms", "waits"), 0),
        "pool": number,
        "policy": policy,
        "devices": (0,),
        "device": "memlake emulated GPU",
        "serves": "",
        "limit": None,
        "held": held,
        "live": held,
        "free": 0,
        "moves": None,
        "driver_ms": 0.0,
        "streams": (PublishedStream(0, held, 0, 0), PublishedStream(255, 0, 0, 0)),
    }
    return PublishedPool(**figures | more)


@pytest.fixture
def view():
    one = Published(11, "python train.py", "1", (pool_of(1, "lake", 30, retries=1), pool_of(2, "caching", 50)))
    other = Published(12, "python serve.py", "1", (pool_of(3, "lake", 40, serves="torch", driver_ms=2.0),))
    return PoolView((one, other, Published(13, "", "", None)))


def numbers(view):
    return [line.pool.pool for line in view.lines]


def test_pools_are_sorted_and_filtered(view):
    processes = view.processes
    assert numbers(view) == [2, 3, 1]
    assert numbers(PoolView(processes, "held", True)) == [1, 3, 2]
    assert numbers(PoolView(processes, "retries")) == [1, 2, 3]
    assert numbers(PoolView(processes, "driver")) == [3, 1, 2]
    assert numbers(PoolView(processes, "process")) == [1, 2, 3]
    assert numbers(PoolView(processes, filter="TRAIN")) == [2, 1]
    assert numbers(PoolView(processes, filter="torch")) == [3]
    assert numbers(PoolView(processes, filter="12")) == [3]
    assert numbers(PoolView(processes, filter="nothing")) == []
    assert numbers(PoolView(processes, filter="lake")) == [3, 1]  # the policy, not the name of the device
    assert numbers(PoolView(processes, filter="emulated g")) == [2, 3, 1]


def test_a_page_has_a_line_per_pool_and_per_stream_and_names_silent_processes(view):
    text = page_of(view, streams=True).to_text()
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "3 processes, 3 pools: held 120 B, live 120 B"
    assert lines[1] == "no answer from 13: stopped, or very busy"
    assert "11 python train.py caching 0 50 B 50 B 0 B 0 B 0 - 0.0" in lines
    assert "12 python serve.py lake (torch) 0 40 B 40 B 0 B 0 B 0 - 2.0" in lines
    assert lines.count("stream 0xff 0 B 0 B 0 B") == 3


def test_a_sparkline_shows_what_was_held_in_the_last_samples(view):
    assert sparkline([0, 1, 2, 4, 7]) == "▁▂▃▅█"
    assert sparkline([0, 1, 2, 4, 7], plain=True) == ".:-+@"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""
    histories = Histories()
    for _ in range(20):
        histories.add(view)
    assert list(histories.of(view.lines[0])) == [50] * 16
    histories.add(PoolView(()))
    assert list(histories.of(view.lines[0])) == []


def test_once_prints_one_table(program, capsys):
    assert main(["top", "--once", "--sort", "live"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith("1 process, 2 pools: held ")
    assert lines[4].startswith(f"{program.pid} python")
    assert " caching 0 60 MiB 60 MiB 0 B 0 B 0 - " in lines[4]
    assert " lake 0 " in lines[5]


def test_json_has_every_figure(program, capsys):
    assert main(["top", "--once", "--json", "--filter", "caching"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["processes"], found["silent"], found["held"], found["live"]) == (1, [], 60 * MIB, 60 * MIB)
    (pool,) = found["pools"]
    assert pool["process"] == program.pid
    assert pool["streams"] == [{"stream": 0, "live": 60 * MIB, "pending": 0, "free": 0}]
    names = PublishedPool.__dataclass_fields__
    assert set(pool) == {"process", "program", "version", *names}


def test_without_once_json_is_a_line_per_picture_until_ctrl_c(program):
    command = [sys.executable, "-m", "memlake", "top", "--json", "--interval", "0.05"]
    top = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = json.loads(top.stdout.readline())
    print("100MiB", file=program.stdin, flush=True)
    program.stdout.readline()
    while json.loads(top.stdout.readline())["live"] != first["live"] + 100 * MIB:
        pass
    top.send_signal(signal.SIGINT)
    assert top.communicate()[1] == ""
    assert top.returncode == 0


def test_where_stdout_is_no_terminal_it_prints_one_table(program):
    done = subprocess.run([sys.executable, "-m", "memlake", "top"], capture_output=True, text=True, check=True)
    assert "2 pools" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_without_processes_it_says_how_to_publish_and_exits_with_1(capsys):
    assert main(["top", "--once"]) == 1
    assert "MEMLAKE_PUBLISH=1" in capsys.readouterr().out
    assert main(["top", "--once", "--json"]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sort", "size"], "invalid choice: 'size'"),
        (["--interval", "0"], "--interval must be between 0.05 and 3600 seconds, got '0'"),
        (["--interval", "soon"], "--interval must be between"),
        (["--interval", "nan"], "--interval must be between"),
    ],
)
def test_bad_input_is_a_sentence(arguments, says, capsys):
    try:
        code = main(["top", "--once", *arguments])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert says in capsys.readouterr().err


def test_a_folder_that_others_may_open_is_a_sentence(runtime, capsys):
    (runtime / "memlake").mkdir()
    (runtime / "memlake").chmod(0o755)
    assert main(["top", "--once"]) == 2
    assert "other users may open the folder" in capsys.readouterr().err


class Terminal:
    """A terminal of tmux in which a program runs."""

    def __init__(self, folder, *command):
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        size = ["-x", "140", "-y", "20"]
        self._run(
            "new-session",
            "-d",
            *size,
            "sh",
            "-c",
            "trap : INT; echo before; LC_ALL=C.UTF-8 " + " ".join(command) + "; "
            "echo ended with $?; stty -a | grep -o -- '-*icanon'; exec cat",
        )

    def _run(self, *arguments):
        return subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True).stdout

    def press(self, *keys):
        self._run("send-keys", *keys)

    def resize(self, width, height):
        self._run("resize-window", "-x", str(width), "-y", str(height))

    def wait_for(self, *texts):
        """Waits until the screen has these texts, and returns it."""
        while not all(text in (screen := self._run("capture-pane", "-p")) for text in texts):
            time.sleep(0.05)
        return screen

    def terminate(self):
        """Sends SIGTERM to the program, which is the only child of the shell."""
        shell = self._run("list-panes", "-F", "#{pane_pid}").strip()
        (child,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)

    def end(self):
        self._run("kill-server")


@pytest.fixture
def terminal(tmp_path):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened = []

    def open_with(*command):
        opened.append(Terminal(tmp_path, sys.executable, "-m", "memlake", "top", "--interval", "0.1", *command))
        return opened[-1]

    yield open_with
    for one in opened:
        one.end()


def test_the_live_view_follows_the_pools_and_obeys_its_keys(program, terminal):
    top = terminal()
    screen = top.wait_for("memlake top  by held", "2 pools", "held over time", "█")
    assert screen.index(" caching ") < screen.index(" lake ")
    assert "before" not in screen
    print("1000MiB", file=program.stdin, flush=True)
    screen = top.wait_for("1.0", "▁█")
    assert screen.index(" lake ") < screen.index(" caching ")
    top.press("r")
    screen = top.wait_for("by held reversed")
    assert screen.index(" caching ") < screen.index(" lake ")
    top.press("t")
    top.wait_for("default stream")
    top.press("s")
    top.wait_for("by live reversed")
    top.press("/")
    top.press("cachx", "BSpace")
    top.wait_for("filter: cach_")
    top.press("Enter")
    screen = top.wait_for("filter: cach ", "1 pool:")
    assert " lake " not in screen
    top.press("Space")
    top.wait_for("stopped")
    top.press("q")
    screen = top.wait_for("before", "ended with 0", "icanon")
    assert "-icanon" not in screen
    assert "memlake top" not in screen


def test_a_narrow_terminal_cuts_lines_and_a_process_that_ends_disappears(program, terminal):
    top = terminal("--streams")
    top.wait_for("default stream")
    top.resize(40, 8)
    screen = top.wait_for("memlake top", "process")
    assert max(map(len, screen.splitlines())) <= 40
    top.resize(140, 20)
    program.kill()
    program.wait()
    top.wait_for("0 processes, 0 pools", "No process publishes its pools.")
    top.press("C-c")
    top.wait_for("ended with 0", "icanon")


def test_the_terminal_is_restored_when_the_view_is_terminated(program, terminal):
    top = terminal()
    top.wait_for("2 pools")
    top.terminate()
    screen = top.wait_for("before", "ended with 143", "icanon")
    assert "-icanon" not in screen
