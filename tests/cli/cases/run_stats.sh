# needs: $MODELS/shakespeare.bin
tblock run "$MODELS/shakespeare.bin" --prompt ROMEO: -n 4 --temp 0 --stats --threads 1 --isa scalar 2>&1 > /dev/null |
    sed -E 's/[0-9]+\.[0-9]+/X/g; s/X [kM]B measured/X measured/; /^pages /d'
tblock run "$MODELS/shakespeare.bin" --prompt ROMEO: -n 4 --temp 0 --json --threads 1 --isa scalar |
    sed -E 's/("(seconds|load_seconds|tok_per_s|gb_per_s|resident_bytes|activation_bytes|predicted_private_bytes|private_bytes|huge_share)": )[0-9.e+-]+/\1X/g'
