# NEON without such a machine: the rooms that need no other library, linked statically for aarch64, run under qemu-user. The
# kernels against their definition, the unit tests that need no file, and the shipped model against this machine's bits.
set -u
if [ "$(uname -m)" = aarch64 ]; then
    echo "skip neon: this machine has NEON: every other test runs it"
    exit 0
fi
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null && continue
    echo "skip neon: no $tool (make test-neon installs it)"
    exit 0
done
if ! log=$(env -u MAKEFLAGS -u MAKELEVEL -u CC make -s -j2 config=neon BUILD=build/neon programs 2>&1); then
    echo "FAIL neon_builds: $(grep -m1 -i error <<<"$log")"
    exit 1
fi
failed=0
# results NAME PROGRAM...: its lines, with "neon" in their names; a crash is a failure too
results() {
    local name=$1 out status
    shift
    out=$(qemu-aarch64 "$@" 2>&1)
    status=$?
    grep -E '^(ok|FAIL|skip) ' <<<"$out" | sed -E "s/^(ok|FAIL|skip) (neon_)?/\1 neon_/"
    [ $status -eq 0 ] && return
    failed=1
    grep -q '^FAIL ' <<<"$out" || echo "FAIL neon_$name: status $status: $(tail -n 1 <<<"$out")"
}
results check_kernels build/neon/tests/kernels/check_kernels --quick
for unit in test_block test_kv_cache test_quant; do
    results "$unit" "build/neon/tests/unit/$unit"
done
if "$BUILD/tests/neon/make_image" models/shakespeare.bin "$BUILD/tests/neon/shakespeare.image"; then
    results image build/neon/tests/neon/check_image "$BUILD/tests/neon/shakespeare.image"
else
    echo "FAIL neon_image: make_image failed"
    failed=1
fi
exit $failed
