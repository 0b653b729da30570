#!/bin/sh
# Installs the Debian packages that building and testing memlake need, as root. Continuous integration and the development
# container use this one list. `bash .ci/run` adds a browser.
set -eu
apt-get update -qq
apt-get install -y -qq --no-install-recommends ca-certificates g++ git make python3 python3-dev python3-venv
