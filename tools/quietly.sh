#!/bin/sh
# Says what is being done, does it, and keeps its noise in a log that is shown only when it fails.
# usage: tools/quietly.sh LOG "what is being done" COMMAND [ARGUMENT]...
log=$1
shift
what=$1
shift
mkdir -p "$(dirname "$log")"
printf 'memlake: %s ... ' "$what"
start=$(date +%s)
if "$@" >"$log" 2>&1; then
  echo "done in $(($(date +%s) - start)) s"
else
  status=$?
  echo "failed"
  tail -n 60 "$log" >&2
  echo "memlake: $what failed; the whole log is $log" >&2
  exit "$status"
fi
