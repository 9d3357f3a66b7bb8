#!/usr/bin/env bash
# The first token is there soon after the start (3 ms on an idle machine; the note tells). The limit is one that only a different way of
# loading would pass, such as reading the whole file: the quickest of 30 runs, as a busy machine delays
# most of them; of up to 300 where it delays all.
set -u
cd "$(dirname "$0")/../.." || exit 4
TBLOCK=${TBLOCK:-$PWD/${BUILD:-build/release}/tblock}
case $TBLOCK in
*/release/* | */clang/*) ;;
*) echo "skip first_token_within_100_ms: only optimized builds are quick"; exit 0 ;;
esac
least=1000000
for ((i = 0; i < 30 || (i < 300 && least >= 100000); i++)); do
    start=${EPOCHREALTIME/./}
    IFS= read -r -N 1 < <(exec "$TBLOCK" run models/shakespeare.bin --prompt 'ROMEO:' -n 1) ||
        { echo "FAIL first_token_within_100_ms: there is none"; exit 1; }
    us=$((${EPOCHREALTIME/./} - start))
    [ $us -ge $least ] || least=$us
done
echo "note: first byte after $least us"
if [ $least -lt 100000 ]; then echo "ok first_token_within_100_ms"; exit 0; fi
echo "FAIL first_token_within_100_ms: $least us"
exit 1
