#!/bin/sh
# CI step that fails if the estimated accuracy on unlabelled data is too low.
#
#   sh ci_gate.sh validation.parquet new.parquet 0.85
#
# Exit code 0: the estimate reaches the limit. 1: it is below. 2: the files cannot be used, or no
# estimator applies.
set -u
source=$1 target=$2 limit=$3

oodometer estimate "$source" "$target" --fail-below "$limit" --json > estimate.json
code=$?
case $code in
  0) echo "The estimated accuracy is at least $limit." ;;
  1) echo "The estimated accuracy is below $limit; see estimate.json." ;;
  *) echo "There is no estimate; the reason is above." ;;
esac
exit $code
