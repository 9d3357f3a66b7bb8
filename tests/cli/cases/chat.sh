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
try chat < /dev/null
echo "--- a template of one's own, and what it sees"
echo '{% for m in messages if m.role != "system" %}{{ m.role ~ ": " ~ m.content }}|{% endfor %}{{ tools | length ~ x ~ strftime_now("%d %b") }}' > own.jinja
echo '[{"name": "look"}]' > tools.json
ask 'Who?' --chat-format own.jinja --tools tools.json --template-args '{"x": "!"}' --date 2025-03-05 --show-prompt
ask 'Who?' --chat-format own.jinja --system x -n 3 --tools tools.json --date 2025-03-05
ask 'Who?' --chat-format own.jinja --show-prompt
ask 'Who?' --chat-format own.jinja --template-args '{"messages": 1}' --show-prompt
ask 'Who?' --chat-format own.jinja --template-args '[' --show-prompt
ask 'Who?' --chat-format own.jinja --tools own.jinja --show-prompt
ask 'Who?' --chat-format own.jinja --date tomorrow --show-prompt
echo '{% for %}' > bad.jinja
ask 'Who?' --chat-format bad.jinja --show-prompt
echo "--- a conversation in a file"
echo '[{"role": "user", "content": "Who art thou?"}]' > talk.json
try chat $m --chat-format alpaca -n 30 --messages talk.json
try chat $m --chat-format alpaca --messages talk.json --system 'Be brief.' --show-prompt
echo '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]' > done.json
try chat $m --chat-format alpaca --messages done.json
echo '[{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "tool", "name": "look", "content": "7"}]' > parts.json
try chat $m --chat-format alpaca --messages parts.json
echo '{{ messages | tojson }}' > show.jinja
try chat $m --chat-format show.jinja --messages parts.json --show-prompt
echo "--- the answer of run to the same text"
printf 'Who art thou?' | tblock chat $m --chat-format llama3 -n 30 > a
tblock run $m --special --no-bos -n 30 --prompt \
    $'<|start_header_id|>user<|end_header_id|>\n\nWho art thou?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n' | cmp a - && echo same
