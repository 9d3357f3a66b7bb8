#!/usr/bin/env python3
"""/openapi.json describes what the server does: every path, every parameter with its range and default, and docs/serve.md has the
same. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import re
import sys
import tempfile

from server import HELLO, ROOT, Server, talking
from verdicts import attempt_all

# What a request needs before anything else of it is looked at.
NEEDED = {"/v1/completions": {"prompt": "A"}, "/v1/chat/completions": {"messages": HELLO}, "/apply-template": {"messages": HELLO},
          "/v1/responses": {"input": "A"}, "/tokenize": {"prompt": "A"}, "/detokenize": {"tokens": [1]},
          "/v1/messages": {"messages": HELLO, "max_tokens": 1}, "/v1/messages/count_tokens": {"messages": HELLO},
          "/v1/embeddings": {"input": "A"}, "/v1/rerank": {"query": "A", "documents": ["A"]}}


def read(s, **headers):
    def once(pairs):
        assert len({k for k, _ in pairs}) == len(pairs), [k for k, _ in pairs]
        return dict(pairs)
    status, headers, data = s.ask("GET", "/openapi.json", headers=headers)
    assert status == 200 and headers["Content-Type"] == "application/json", (status, headers)
    return json.loads(data, object_pairs_hook=once)


def bodies(described):
    return {path: o["post"]["requestBody"]["content"]["application/json"]["schema"]
            for path, o in described["paths"].items() if "requestBody" in o.get("post", {})}


def it_has_the_form_and_every_path():
    source = (ROOT / "src/serve/serve.c").read_text()
    routes = re.findall(r'\{ "(GET|POST)", +"(/[^"]*)"', source)
    with Server() as s:
        d = read(s)
    assert d["openapi"] == "3.1.0" and d["info"]["title"] and re.match(r"\d+\.\d+", d["info"]["version"]), d
    assert len(routes) > 8 and {(m.lower(), p) for m, p in routes} == {(m, p) for p, o in d["paths"].items() for m in o}, routes
    operations = [o for path in d["paths"].values() for o in path.values()]
    assert len({o["operationId"] for o in operations}) == len(operations)
    for o in operations:
        assert o["summary"] and re.fullmatch(r"\w+", o["operationId"]) and set(o["responses"]) == {"200", "default"}, o
        reference = o["responses"]["default"]["content"]["application/json"]["schema"]["$ref"]
        assert reference.removeprefix("#/components/schemas/") in d["components"]["schemas"], reference
    posts = {path for path, o in d["paths"].items() if "post" in o}
    assert posts == set(bodies(d)), posts
    for path, body in bodies(d).items():
        assert body["type"] == "object" and body["additionalProperties"] is False and set(body["required"]) <= set(body["properties"]), body
        assert all(p["description"] for p in body["properties"].values()), (path, body)
        streams = "text/event-stream" in d["paths"][path]["post"]["responses"]["200"]["content"]
        assert streams == ("stream" in body["properties"]), path


def wrong_values(schema):
    """Values that the schema leaves out."""
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    if types == ["null"]:
        return [1]
    if "boolean" in types:
        return ["true", 1]
    if "string" in types:
        return [7, ["x"]]
    if "integer" in types or "number" in types:
        return [schema["minimum"] - 1, schema["maximum"] * 2 + 1, "1"] + ([schema["minimum"] + 0.5] if "integer" in types else [])
    return []


def right_values(schema):
    values = [schema[key] for key in ("default", "minimum", "maximum") if key in schema]
    return values if "null" not in schema.get("type", []) else values + [None]


def the_server_keeps_to_it():
    n = 0
    with talking() as s:
        for path, body in bodies(read(s)).items():
            needed = NEEDED[path]
            assert set(body["required"]) == set(needed), (path, body["required"])
            for name in needed:
                status, answer = s.send(path, {k: v for k, v in needed.items() if k != name})
                assert status == 400 and name in answer["error"]["message"] and "found none" in answer["error"]["message"], (path, answer)
            s.refused(path, 400, "unknown parameter", None, **needed, no_such_thing=1)
            for name, schema in body["properties"].items():
                for value in wrong_values(schema):
                    status, answer = s.send(path, {**needed, name: value})
                    assert status == 400 and answer["error"]["message"].startswith(name + ": "), (path, name, value, answer)
                    n += 1
                for value in right_values(schema):   # perhaps refused for its sake with others, but not for its form
                    status, answer = s.send(path, {**{k: v for k, v in {"max_tokens": 1, "max_output_tokens": 1}.items()
                                                      if k in body["properties"]}, **needed, name: value, "stream": None}
                                            if "stream" in body["properties"] else {**needed, name: value})
                    said = answer["error"]["message"] if status != 200 else ""
                    assert not said.startswith(name + ": expected a") and not said.startswith(name + ": not supp"), (path, name, value, said)
    assert n > 100, n


def documented(page):
    """The parameters of each path that docs/serve.md has in its tables, with their defaults; "": those of every path that draws."""
    found, section = {}, None
    for line in page.splitlines():
        if line.startswith("## "):
            section = "" if line == "## Settings" else line[3:]
        row = re.match(r"\| (`.*?) \|", line)
        if row and section is not None:
            cells = [c.strip() for c in line.strip("|").split("|")]
            names = re.findall(r"`([a-z_]\w*)`", cells[0])
            values = [v.strip() for v in cells[-1].split(",")] if len(cells) == 3 else []
            for i, name in enumerate(names):
                found.setdefault(section, {})[name] = values[i] if len(values) == len(names) else None
    return found


def the_page_has_the_same():
    page = (ROOT / "docs/serve.md").read_text()
    tables = documented(page)
    with Server() as s:
        described = bodies(read(s))
    n = 0
    for path, body in described.items():
        own, properties = tables.get(path, {}), body["properties"]
        both = {**tables[""], **own} if "temperature" in properties else {"model": None, **own}
        for name, schema in properties.items():
            assert name in both or (not own and "`%s`" % name in page), (path, name)
            if "default" in schema and re.fullmatch(r"-?[\d.]+|true|false", both.get(name) or ""):
                assert json.loads(both[name]) == schema["default"], (path, name, both[name], schema)
                n += 1
        missing = set(own) - set(properties)
        assert not missing, (path, missing)
    everywhere = set.union(*(set(b["properties"]) for b in described.values()))
    assert set(tables[""]) <= everywhere, set(tables[""]) - everywhere
    assert n > 15, n


def keys_are_described():
    with Server("--lenient") as s:
        d = read(s)
        assert "security" not in d and all(b["additionalProperties"] is True for b in bodies(d).values())
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("secret\n")
        keys.flush()
        with Server("--key-file", keys.name) as s:
            d = read(s, Authorization="Bearer secret")
            assert s.ask("GET", "/openapi.json")[0] == 401
    assert {name for way in d["security"] for name in way} == set(d["components"]["securitySchemes"]), d["security"]
    assert [path for path, o in d["paths"].items() for way in o.values() if way.get("security") == []] == [
        path for path in d["paths"] if path in ("/", "/health")]


sys.exit(attempt_all(it_has_the_form_and_every_path, the_server_keeps_to_it, the_page_has_the_same, keys_are_described))
