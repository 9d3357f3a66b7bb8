"""The model that ships with another rotation, for tests of what is built on the program."""
import json
import pathlib

SHIPPED = pathlib.Path(__file__).resolve().parents[1] / "models" / "shakespeare.bin"


def rotating(out, **rope):
    """Writes it to the file out; rope: what its config says. The weights stay where they are."""
    data = SHIPPED.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    config = json.loads(header["__metadata__"]["config"])
    header["__metadata__"]["config"] = json.dumps({**config, "rope": rope}, separators=(",", ":"))
    text = json.dumps(header, separators=(",", ":")).encode()
    assert len(text) <= n, "no room for the header"
    pathlib.Path(out).write_bytes(data[:8] + text + b" " * (n - len(text)) + data[8 + n:])
    return str(out)
