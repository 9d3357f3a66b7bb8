#!/usr/bin/env python3
"""The manifests of docs/examples/kubernetes: YAML whose parts find each other, and options, paths, keys and metrics that a
server has."""
import pathlib
import sys
import tempfile

from server import ROOT, Server
from verdicts import Skip, attempt_all, need

try:
    import yaml
except ImportError:
    yaml = None

FOLDER = ROOT / "docs/examples/kubernetes"


def manifests():
    if not yaml:
        raise Skip("no PyYAML")
    found = {d["kind"]: d for d in yaml.safe_load_all((FOLDER / "tblock.yaml").read_text())}
    need(sorted(found) == ["Deployment", "Ingress", "PersistentVolumeClaim", "PodMonitor", "Secret", "Service"], sorted(found))
    for kind, d in found.items():
        need(d["apiVersion"] and d["metadata"]["name"].startswith("tblock"), kind)
    return found


def pod(found):
    return found["Deployment"]["spec"]["template"]


def each_part_finds_the_others():
    found = manifests()
    labels, spec = pod(found)["metadata"]["labels"], pod(found)["spec"]
    container = spec["containers"][0]
    for selector in (found["Deployment"]["spec"]["selector"]["matchLabels"], found["Service"]["spec"]["selector"],
                     found["PodMonitor"]["spec"]["selector"]["matchLabels"]):
        need(selector.items() <= labels.items(), selector)
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    service = found["Service"]["spec"]["ports"][0]
    backend = found["Ingress"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    need(service["targetPort"] in ports and backend == {"name": found["Service"]["metadata"]["name"], "port": {"name": service["name"]}},
         backend)
    need(found["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["port"] in ports, "port of PodMonitor")
    volumes = {v["name"]: v for v in spec["volumes"]}
    need({m["name"] for m in container["volumeMounts"]} == set(volumes), sorted(volumes))
    need(volumes["models"]["persistentVolumeClaim"]["claimName"] == found["PersistentVolumeClaim"]["metadata"]["name"], "claim")
    need(volumes["keys"]["secret"]["secretName"] == found["Secret"]["metadata"]["name"], "secret")


def a_server_has_what_they_name():
    found = manifests()
    container, secret = pod(found)["spec"]["containers"][0], found["Secret"]["stringData"]
    options = dict(zip(container["args"][2::2], container["args"][3::2]))
    need(container["args"][:2] == ["serve", "/models/model.bin"] and len(container["args"]) == 2 + 2 * len(options), container["args"])
    need(int(options.pop("--port")) == container["ports"][0]["containerPort"], "port")
    need(options.pop("--host") == "0.0.0.0" and options["--key-file"] == "/keys/keys", options)
    host, endpoint = found["Ingress"]["spec"]["rules"][0]["host"], found["PodMonitor"]["spec"]["podMetricsEndpoints"][0]
    with tempfile.TemporaryDirectory() as folder:
        options["--key-file"] = str(pathlib.Path(folder) / "keys")
        pathlib.Path(options["--key-file"]).write_text(secret["keys"])
        with Server(*[word for pair in options.items() for word in pair]) as s:
            for probe in ("startupProbe", "readinessProbe"):
                need(s.ask("GET", container[probe]["httpGet"]["path"])[0] == 200, probe)
            key = {"Authorization": "Bearer " + secret[endpoint["authorization"]["credentials"]["key"]]}
            need(s.ask("GET", endpoint["path"])[0] == 401, "metrics without a key")
            status, _, metrics = s.ask("GET", endpoint["path"], headers=key)
            need(status == 200, status)
            names = {line.split("{")[0].split(" ")[0] for line in metrics.decode().splitlines() if not line.startswith("#")}
            page = (FOLDER / "README.md").read_text()
            told = {word for word in page.split("`")[1::2] if word.startswith(("tblock_", "vllm:"))}
            need(len(told) >= 8 and told <= names, told - names)
            need(s.ask("GET", "/v1/models", headers={**key, "Host": host})[0] == 200, "the Ingress's host")
            need(s.ask("GET", "/v1/models", headers={**key, "Host": "other.example"})[0] != 200, "another host")


if __name__ == "__main__":
    sys.exit(attempt_all(each_part_finds_the_others, a_server_has_what_they_name))
