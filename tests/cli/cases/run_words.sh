# Arguments after MODEL are the prompt, as --prompt gives it: all lines of a part are the same run.
. "$CASES/try.bash"
ln -s "$MODELS/shakespeare.bin" text.bin
tblock run text.bin --prompt 'First Citizen:' -n 12
tblock run text.bin 'First Citizen:' -n 12
tblock run -n 12 text.bin First Citizen:
tblock run text.bin First -n 12 Citizen:
tblock run -m text.bin First -n 12 -- Citizen:
# with what a text has: --echo, ids of --json; "-" is standard input; an argument may begin with a dash after --
tblock run text.bin First Citizen: -n 4 --echo
tblock run text.bin First Citizen: --json -n 1 | grep -o '"prompt_ids": [^a-z]*' > words
tblock run text.bin -p 'First Citizen:' --json -n 1 | grep -o '"prompt_ids": [^a-z]*' | cmp - words
printf 'First Citizen:' | tblock run text.bin - -n 12
tblock run text.bin -n 4 --echo -- -n 9
try run text.bin '' -n 4
# one prompt
try run text.bin one -p two
try run text.bin one -f file
try run text.bin one --ids 1
# after a state
tblock run text.bin First -n 0 --save-state state
tblock run text.bin --prompt 'First' -n 0 --save-state state2 && cmp state state2
tblock run text.bin --load-state state ' Citizen:' -n 12
