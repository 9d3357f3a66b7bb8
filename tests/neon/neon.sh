# NEON without such a machine: the rooms that need no other library, linked statically for aarch64, run under qemu-user. The
# kernels against their definition, the unit tests that need no file, the shipped model, nine other shapes and a quantized one against
# this machine's bits.
set -u
PYTHON=${PYTHON:-.venv/bin/python} BUILD=${BUILD:-build/release}
TBLOCK=${TBLOCK:-$BUILD/tblock}
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
    echo "FAIL neon_builds: $(grep -m1 -iE 'error:|undefined|Error ' <<<"$log")"
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
results check_bf16 build/neon/tests/kernels/check_bf16
results check_integer build/neon/tests/kernels/check_integer --quick
results check_gguf build/neon/tests/kernels/check_gguf --quick
for unit in test_block test_codes test_kv_cache test_quant; do
    results "$unit" "build/neon/tests/unit/$unit"
done
# image NAME MODEL: this machine's logits of a model, and what NEON makes of it
image() {
    if "$BUILD/tests/neon/make_image" "$2" "$BUILD/tests/neon/$1.image"; then
        results "$1" build/neon/tests/neon/check_image "$BUILD/tests/neon/$1.image" | sed "s/ neon_model_/ neon_$1_/"
    else
        echo "FAIL neon_$1: make_image failed"
    fi
}
images() {
    image shakespeare models/shakespeare.bin
    # Other types and shapes: odd K and biases (bf16), a window (f32), a tied head (f16), scaled rotary embedding.
    if ! "$PYTHON" tests/golden/golden.py --build "$BUILD" --models > "$BUILD/tests/neon/models"; then
        echo "FAIL neon_images: golden.py --models"
    fi
    for name in odd window65 mqa12 yarn; do
        image $name "$BUILD/golden/$name.rows16.bin"
    done
    # LayerNorm, GELU, learned positions; soft caps and norms behind; experts with a shared one.
    for name in gpt neox bothsides behind shared; do
        image $name "$BUILD/golden/$name.rows.bin"
    done
    # Both quantized types in one model, K over a superblock and no multiple of anything.
    if "$TBLOCK" quantize "$BUILD/golden/chunks.rows16.bin" "$BUILD/tests/neon/mixed.bin" --type q4 --keep 'layers.1.*=q8' -q > /dev/null; then
        image mixed "$BUILD/tests/neon/mixed.bin"
    else
        echo "FAIL neon_mixed: quantize failed"
    fi
}
images | tee "$BUILD/tests/neon/images.out"
grep -q '^FAIL ' "$BUILD/tests/neon/images.out" && failed=1
exit $failed
