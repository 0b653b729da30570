#!/bin/sh
# Says in one sentence what this machine lacks to build memlake; silent if it lacks nothing.
# usage: tools/check_machine.sh [PYTHON [package]]     package: without what only `make` needs, for pip
python=${1:-python3}
for=${2:-make}
cxx=${CXX:-g++}
missing=""

lacks() {
  missing="${missing:+$missing; }$1"
}

case "$(uname -s) $(uname -m)" in
  "Linux x86_64" | "Linux aarch64") ;;
  *) lacks "Linux on x86-64 or aarch64 (this is $(uname -s) on $(uname -m))" ;;
esac

if ! command -v "$python" >/dev/null 2>&1; then
  lacks "Python 3.10 or newer ($python was not found; another one: make PYTHON=/path/to/python)"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  lacks "Python 3.10 or newer ($python is $("$python" --version 2>&1); another one: make PYTHON=/path/to/python)"
else
  # Debian and Ubuntu split the standard library: without python3-venv there is `venv` but not the pip that goes into one.
  [ "$for" = package ] || "$python" -c 'import venv, ensurepip' 2>/dev/null ||
    lacks "Python's venv module (on Debian and Ubuntu: the package python3-venv)"
  headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -f "$headers/Python.h" ] ||
    lacks "the Python headers ($headers/Python.h; on Debian and Ubuntu the package python3-dev, on Fedora python3-devel)"
fi

# Compiled rather than asked for its version: what counts is that the language and its library are there.
if ! command -v "$cxx" >/dev/null 2>&1; then
  lacks "a C++20 compiler ($cxx was not found; g++ 11 or newer, on Debian and Ubuntu the package g++)"
elif ! printf '#include <bit>\n#include <concepts>\n#include <span>\n#include <source_location>\nint main() {}\n' |
  "$cxx" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null; then
  lacks "a C++20 compiler ($cxx does not compile C++20; g++ 11 or newer)"
fi

if [ -n "$missing" ]; then
  echo "memlake cannot be built here, because this machine lacks: $missing." >&2
  exit 1
fi
