"""A user's program for type checkers, which is never run: each line that ends in "# wrong" must be reported, and no other."""
import numpy as np
import tblock

model = tblock.Model("model.bin", type="q8", progress=lambda done: print(done))
text: str = str(model.generate("x", max_tokens=5, temperature=0.5, stop=["a"], lora=[], constraint=model.constraint(regex="a+")))
width: int = model.d_model * model.n_layers + len(model.eos)
with tblock.Model("model.bin") as m, m.context(threads=2, drafter=m) as c:
    logits = c.logits(m.tokenize("x"))[0, :5] + np.float32(1)
    c.verify("golden.safetensors", exact=True, tol=None).rows[0]
for piece in c.generate([1, 2], seed=3, logit_bias={5: 1.0}):
    print(piece.upper())
tblock.convert("a.gguf", "b.bin", type="q8", keep=["*=f32"], merge_lora=["adapter", ("other", 0.5)], threads=2)
print(model.create_chat_completion([{"role": "user", "content": "x"}], temperature=0, n=2)["choices"][0])
print([chunk["choices"] for chunk in model.create_chat_completion([{"role": "user", "content": "x"}], stream=True)], model.tokenizer.eos_token_id)
some = model.create_chat_completion([], stream=bool(width), max_tokens=None)
tblock.train("out.bin", text="text", steps=3, adamw={"lr": 1e-3}, progress=lambda p: p.step < 2)

tblock.Model("model.gguf", typ="q8")  # wrong
model.generate("x", max_new_tokens=5)  # wrong
model.generate("x", temperature="hot")  # wrong
model.context(thread=2)  # wrong
tblock.convert("a", "b", tpye="q8")  # wrong
name: str = model.d_model  # wrong
bos: str = model.tokenizer.bos_token  # wrong
model.tokenizer.encode("x", add_bos=True)  # wrong
model.tokenizer.pad_tokn  # wrong
model.create_chat_completion([{"role": "user", "content": "x"}], max_new_tokens=3)  # wrong
model.d_modell  # wrong
model("text")  # wrong
tblock.LLM("x")  # wrong
model.chat(format=5)  # wrong
model.from_pretrained("x")  # wrong
c.logit("x")  # wrong
c.generate("x", stop=5)  # wrong
c.verify("x", exat=True)  # wrong
m.chat().answer([{"role": "user", "content": "x"}], max_token=3)  # wrong
tblock.train("out", step=3)  # wrong
tblock.train("out", adamw={"rate": 1.0})  # wrong
model.constraint(json_schema={"type": "integer"}, any_oder=True)  # wrong
tblock.quantize("a", "b", 4)  # wrong
