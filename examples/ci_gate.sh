#!/bin/sh
# A gate for CI: it fails where the model is too poor on data that nobody has labelled.
#
#   sh ci_gate.sh validation.parquet new.parquet 0.85
#
# Exit code 0: at least that accuracy. 1: less. 2: the files can't be used, or there is no answer.
set -u
source=$1 target=$2 least=$3

oodometer estimate "$source" "$target" --fail-below "$least" --json > estimate.json
code=$?
case $code in
  0) echo "The estimate is at least $least." ;;
  1) echo "The estimate is under $least: look at estimate.json." ;;
  *) echo "There is no estimate; the reason is above." ;;
esac
exit $code
