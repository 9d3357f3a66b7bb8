# needs: $MODELS/shakespeare.bin
. "$CASES/try.bash"
ln -s "$MODELS/shakespeare.bin" model.bin
m=model.bin
ask() { printf '%s' "$1" | try chat $m "${@:2}"; }
ask 'Who art thou?' --chat-format alpaca -n 30
ask 'Who art thou?' --chat-format alpaca -n 30 --seed 1
ask 'Who art thou?' --chat-format vicuna -n 30 --system 'Speak as a king.'
ask 'Who art thou?' --chat-format alpaca --ctx 40
ask '' --chat-format alpaca
ask 'Who?'
ask 'Who?' --chat-format lama
ask 'Who?' --chat-format gemma --system x
ask 'Who?' --chat-format orion --system x -n 3
ask 'Who?' --chat-format '{"version": 1}'
try chat < /dev/null
echo "--- the answer of run to the same text"
printf 'Who art thou?' | tblock chat $m --chat-format openchat -n 30 > a
tblock run $m --special --no-bos -n 30 --prompt \
    'GPT4 Correct User: Who art thou?<|end_of_turn|>GPT4 Correct Assistant:' | cmp a - && echo same
