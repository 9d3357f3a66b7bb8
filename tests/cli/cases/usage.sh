# Wrong command lines: one line that says what was expected and what was found, status 2, before any file is opened.
. "$CASES/try.bash"
try
try rnu
try tokenise
try frobnicate
try ''
try --hepl
try -x
try help rum
try help frobnicate
try help samplin
try help run more
try run
try verify model.bin
try run m --prompt a one
try run m one --prompt-file a
try run m one two --ids 1
try chat m 'What is this?'
try tokenize m 'a text'
try logits m 'a text'
try logits m -o x 'a text'
try logits m -p a x.safetensors
try convert folder model.bin
try synth c.json out.bin
try info m one
try tokenize m "$(printf 'long %.0s' {1..500})" | tail -n 2
try quantize a b -o c --type q8
try quantize a '' -o c --type q8
try quantize a --type q8
try train text.txt out.bin
try train a -o b
try train a -o b --text c
try train
try train -o a
try train --text a
try train -n 5
try train -c x.json -o a --text b
try train -c
try bench m -p 4
try run m --tmep 0.5
try run m --topk=3
try run m --xyzzy
try run m --
try run m -Z
try run m -qZ
try run m -é
try run m --quiet=yes
try run m --temp
try run m -n
try run m --temp nan
try run m --temp inf
try run m --temp 0x10
try run m --temp ' 1'
try run m --temp 1,5
try run m --temp ''
try run m --temp .
try run m --temp 1e
try run m --temp -1
try run m --temp 1e999
try run m --temp=100.01
try run m -n --temp 0
try run m -n 1.5
try run m -n 1e3
try run m -n 99999999999999999999999
try run m -n -2
try run m -n ''
try run m -n5x
try run m --top-p 1.1
try run m --seed -1
try run m --seed 18446744073709551616
try run m --seed 0x
try run m --seed 0x1g
try run m --seed rnd
try run m --isa avx3
try run m --isa ''
try run m --isa 'auto|scalar'
try run m --kv-type F16
try run m --math bf17
try run m --ids 1,,2
try run m --ids 1,
try run m --ids ,1
try run m --ids 1,x
try run m --ids -1
try run m --ids 2147483648
try run m --ids 1.5
try run m --stop ''
try run m $'--a\nb\e[31m'
try logits m
try logits m -o
try synth c.json
try synth c.json -o x --type q3
try run m -temp 0
try run m --isa avx51
try run m --math float
try completions
try completions zhs
try completions bash zsh
try help run --man
try model.bin
try model.bin 'Once upon a time'
mkdir folder
try folder text
try llama3.2:1b hi
try version
try tok
try run m --top 1
try run m --temperature 1
try run m --prom x
