"""A GGUF file without a tokenizer gets one: llama-server starts with no other.

  gguf_tokenizer.py IN.gguf tokenizer.model OUT.gguf      (needs the packages gguf and numpy)

tokenizer.model is Llama 3's, a list of byte strings and ranks. Merges follow from the ranks: a token is made of the two parts that lower
ranks join it from. Weights are copied as they are."""
import base64
import pathlib
import sys

import gguf

NAMED = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 6: "<|start_header_id|>", 7: "<|end_header_id|>", 8: "<|eom_id|>", 9: "<|eot_id|>"}


def byte_letters():
    """The letter of each byte in GPT-2's alphabet, which GGUF spells tokens in."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = (b for b in range(256) if b not in plain)
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(other)}}


def last_two(token, ranks):
    """The parts that the last merge of this token joins."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], len(ranks)), i) for i in range(len(parts) - 1))
        if rank >= ranks[token]:
            return None   # a token that no merges reach
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def main():
    source, ranks_file, target = map(pathlib.Path, sys.argv[1:])
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith(("GGUF.", "tokenizer.")) or field.name == "general.architecture":
            continue
        writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in ranks_file.read_text().splitlines() if line)}
    letter = byte_letters()
    spell = lambda token: "".join(letter[b] for b in token)
    pairs = [last_two(token, ranks) for token in ranks if len(token) > 1]
    special = [NAMED.get(i, "<|reserved_special_token_%d|>" % i) for i in range(256)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list([spell(t) for t in ranks] + special)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(ranks) + [gguf.TokenType.CONTROL] * len(special))
    writer.add_token_merges([" ".join(map(spell, pair)) for pair in pairs if pair])
    writer.add_bos_token_id(len(ranks))
    writer.add_eos_token_id(len(ranks) + 1)
    for t in reader.tensors:
        writer.add_tensor_info(t.name, t.data.shape, t.data.dtype, t.data.nbytes, t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for t in reader.tensors:
        writer.write_tensor_data(t.data)
    writer.close()


main()
