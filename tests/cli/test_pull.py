#!/usr/bin/env python3
"""tblock pull, list and rm against a server on loopback that answers as the Hub's API does, and lies where a test wants it to: redirects, ranges,
401, 404, 429, bodies that break off, wrong hashes, names that lead out of the cache. Then the names that every command takes."""
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip, attempt_all, need, option_only  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build/release")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SMALL = 2000  # files from this size on are large ones, with a sha256


class Hub(http.server.ThreadingHTTPServer):
    """repos: {"ORG/NAME": {path: bytes}}. lies: what to do otherwise, by path; log: requests."""
    daemon_threads = True

    def __init__(self, repos, tls=None):
        super().__init__(("127.0.0.1", 0), Answer)
        self.repos, self.lies, self.log, self.token = repos, {}, [], None
        self.other = None  # another host, for redirects
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


def entry(path, data):
    if len(data) < SMALL:
        return {"rfilename": path, "size": len(data), "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
    return {"rfilename": path, "size": len(data), "blobId": "f" * 40, "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        hub, path = self.server, self.path.split("?")[0]
        hub.log.append((self.path, dict(self.headers)))
        lie = hub.lies.get("api" if path.startswith("/api/") else path.rsplit("/", 1)[-1])
        if lie and lie(self):
            return
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.say(401, b"no", X_Error_Code="GatedRepo")
            return
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.*)", path)
        if found:
            if found[1] not in hub.repos:
                self.say(401, b"{}", X_Error_Code="RepoNotFound")
            elif found[2] not in ("main", COMMIT):
                self.say(404, b"{}", X_Error_Code="RevisionNotFound")
            else:
                self.say(200, json.dumps({"sha": COMMIT, "siblings": [entry(*item) for item in hub.repos[found[1]].items()]}).encode())
            return
        found = re.fullmatch(r"(?:/cdn)?/([^/]+/[^/]+)/resolve/([0-9a-f]{40})/(.*)", path)
        if not found or found[3] not in hub.repos.get(found[1], {}):
            self.say(404, X_Error_Code="EntryNotFound")
            return
        self.send_bytes(hub.repos[found[1]][found[3]])

    def send_bytes(self, data, cut=None):
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        part = data[start:]
        if start:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part if cut is None else part[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True


def gguf():
    """A real model of this project's data, one file."""
    return (ROOT / "tests/data" / GGUF).read_bytes()


GGUF = next((str(p.relative_to(ROOT / "tests/data")) for p in sorted((ROOT / "tests/data").rglob("*.gguf")) if SMALL < p.stat().st_size < 500000), "")


class Place:
    """A home of its own and a hub."""

    def __init__(self, repos, tls=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tblock-pull-"))
        self.hub = Hub(repos, tls)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "OLLAMA_", "HUGGING"))}
        self.env.update(HOME=str(self.folder), HF_ENDPOINT=self.hub.url, XDG_CACHE_HOME="", no_proxy="*")
        self.cache = self.folder / ".cache/huggingface/hub"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hub.shutdown()
        self.hub.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *args, status=0, **env):
        done = subprocess.run([BUILD / "tblock", *args], env={**self.env, **env}, capture_output=True, text=True, cwd=self.folder, timeout=120)
        if "libcurl.so.4 cannot be loaded" in done.stderr:
            raise Skip("no libcurl.so.4")
        need(done.returncode == status, f"{args}: status {done.returncode}, expected {status}: {done.stderr[:400]}")
        need(done.returncode in (0, 1) or done.stderr.count("\n") == 1, f"{args}: expected one line, found {done.stderr[:400]!r}")
        return done

    def blobs(self, repo="org/name"):
        folder = self.cache / ("models--" + repo.replace("/", "--")) / "blobs"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def repository():
    model = gguf()
    return {"org/name": {"model-Q4_K_M.gguf": model, "model-Q8_0.gguf": model + b"", "mmproj-F16.gguf": b"x" * 3000, "README.md": b"words"},
            "org/folder": {"config.json": b'{"model_type": "llama"}', "model.safetensors": b"s" * 5000, "pytorch_model.bin": b"p" * 5000,
                           "onnx/model.onnx": b"o" * 5000, "tokenizer.json": b"{}"}}


def a_model_of_the_hub_is_pulled_listed_run_and_removed():
    with Place(repository()) as at:
        told = at.run("pull", "org/name").stdout
        need("model-Q4_K_M.gguf" in told and "Q8_0" not in told and COMMIT in told, f"found {told}")
        ref = at.cache / "models--org--name/refs/main"
        need(ref.read_text() == COMMIT, f"{ref}: found {ref.read_text()!r}")
        link = at.cache / f"models--org--name/snapshots/{COMMIT}/model-Q4_K_M.gguf"
        need(link.is_symlink() and os.readlink(link).startswith("../../blobs/") and link.read_bytes() == gguf(), f"{link}: found another file")
        n = len(at.hub.log)
        again = at.run("pull", "org/name").stdout
        need("in the cache" in again and len(at.hub.log) == n + 1, f"found {again}, {at.hub.log[n:]}")
        for name in ("org/name", "org/name:Q4_K_M", "org/name:q4_k_m", "hf.co/org/name", "https://huggingface.co/org/name", "org/name:model-Q4_K_M.gguf"):
            at.run("info", name)
        need("found Q4_K_M" in at.run("info", "org/name:Q8_0", status=3).stderr, "expected what there is")
        listed = json.loads(at.run("list", "--json").stdout)["models"]
        need([(m["name"], m["commit"], m["kinds"]) for m in listed] == [("org/name", COMMIT, "GGUF Q4_K_M")], f"found {listed}")
        at.run("rm", "org/name", "--dry-run")
        need(link.exists(), "--dry-run removed the model")
        at.run("rm", "org/name")
        need(not (at.cache / "models--org--name").exists(), "rm left the model")
        need("tblock pull org/name" in at.run("info", "org/name", status=3).stderr, "expected the command that downloads it")
        at.run("rm", "org/name", status=3)


def only_what_tblock_reads_is_taken():
    with Place(repository()) as at:
        at.run("pull", "org/folder")
        found = sorted(p.name for p in (at.cache / f"models--org--folder/snapshots/{COMMIT}").iterdir())
        need(found == ["config.json", "model.safetensors", "tokenizer.json"], f"found {found}")
        del at.hub.repos["org/folder"]["model.safetensors"]
        told = at.run("pull", "org/folder", "--dry-run").stdout
        need("pytorch_model.bin" in told, f"found {told}")
        del at.hub.repos["org/folder"]["pytorch_model.bin"]
        need("found none of these" in at.run("pull", "org/folder", status=3).stderr, "expected what is missing")


def shards_come_together_and_a_choice_is_asked_for():
    files = {f"big/m-IQ4_XS-0000{i}-of-00002.gguf": b"%d" % i * 3000 for i in (1, 2)}
    with Place({"org/name": {**files, "m-Q5_K_M.gguf": b"q" * 3000}}) as at:
        told = at.run("pull", "org/name", status=3).stderr
        need("IQ4_XS" in told and "Q5_K_M" in told and "found 2" in told, f"found {told}")
        at.run("pull", "org/name:IQ4_XS")
        need(len(at.blobs()) == 2, f"found {at.blobs()}")
        at.run("pull", "org/name:Q5_K_M")
        at.run("rm", "org/name:iq4_xs")
        need(at.blobs() == [hashlib.sha256(b"q" * 3000).hexdigest()], f"found {at.blobs()}")


def a_dry_run_writes_nothing():
    with Place(repository()) as at:
        told = json.loads(at.run("pull", "org/name:Q8_0", "--dry-run", "--json").stdout)
        need(told["fetched"] == len(gguf()) and told["files"][0]["there"] is False, f"found {told}")
        need(not at.cache.exists(), f"{at.cache} was made")


def what_was_cut_off_is_continued():
    with Place(repository()) as at:
        cuts = []

        def cut(answer):
            if len(cuts) < 3:
                cuts.append(answer.headers.get("Range"))
                answer.send_bytes(gguf(), 700)
                return True
            return False
        at.hub.lies["model-Q4_K_M.gguf"] = cut
        at.run("pull", "org/name")
        need(cuts == [None, "bytes=700-", "bytes=1400-"], f"found {cuts}")
    with Place(repository()) as at:  # by the next pull, and what lay there was of another file
        blobs = at.cache / "models--org--name/blobs"
        blobs.mkdir(parents=True)
        (blobs / (hashlib.sha256(gguf()).hexdigest() + ".incomplete")).write_bytes(b"another")
        at.run("pull", "org/name")
        at.run("info", "org/name")
        need([h.get("Range") for p, h in at.hub.log[1:]] == ["bytes=7-", None], f"found {at.hub.log[1:]}")


def a_server_without_ranges_begins_again():
    with Place(repository()) as at:
        tries = []

        def cut(answer):
            tries.append(answer.headers["Range"])
            del answer.headers["Range"]
            answer.send_bytes(gguf(), 700 if len(tries) == 1 else None)
            return True
        at.hub.lies["model-Q4_K_M.gguf"] = cut
        at.run("pull", "org/name")
        need(tries == [None, "bytes=700-"], f"found {tries}")
        at.run("info", "org/name")


def a_server_that_never_ends_a_file_is_given_up():
    with Place(repository()) as at:
        at.hub.lies["model-Q4_K_M.gguf"] = lambda answer: answer.send_bytes(gguf(), 0) or True
        at.run("pull", "org/name", status=4)
        need(not (at.cache / "models--org--name/refs").exists(), "half a model has a reference")


def wrong_bytes_are_refused_and_removed():
    for what, lie in (("hash", lambda a: a.send_bytes(gguf()[:-1] + b"?") or True), ("more bytes", lambda a: a.send_bytes(gguf() + b"?") or True),
                      ("expected", lambda a: a.send_bytes(gguf()[:-1]) or True)):
        with Place(repository()) as at:
            at.hub.lies["model-Q4_K_M.gguf"] = lie
            told = at.run("pull", "org/name", status=3).stderr
            need(what in told, f"expected {what}, found {told}")
            need([b for b in at.blobs() if not b.endswith(".incomplete")] == [], f"found {at.blobs()}")
            need(what != "hash" or at.blobs() == [], f"found {at.blobs()}")
            at.hub.lies.clear()
            at.run("pull", "org/name")
    with Place(repository()) as at:  # a small file has git's hash
        at.hub.lies["tokenizer.json"] = lambda a: a.send_bytes(b"[]") or True
        need("hash" in at.run("pull", "org/folder", status=3).stderr, "a small file with a wrong hash was taken")


def lists_that_lie_are_refused():
    def listing(**change):
        return lambda answer: answer.say(200, json.dumps({"sha": COMMIT, "siblings": [{**entry("model.gguf", b"x" * 3000), **change}]}).encode()) or True
    with Place(repository()) as at:
        for name in ("../../../evil.gguf", "/etc/evil.gguf", "a/../b.gguf", "", "a//b.gguf", "a\nb.gguf"):
            at.hub.lies["api"] = listing(rfilename=name)
            at.run("pull", "org/name", status=3)
        for change in ({"lfs": {"sha256": "../../x", "size": 1}}, {"lfs": {"sha256": "a" * 64, "size": -1}}, {"lfs": {"sha256": "a" * 64}},
                       {"lfs": None, "blobId": "x"}):
            at.hub.lies["api"] = listing(**change)
            at.run("pull", "org/name", status=3)
        for body in (b"", b"{", b"[]", b'{"sha": "main", "siblings": []}', b"<html>", b'{"sha": "' + COMMIT.encode() + b'"}'):
            at.hub.lies["api"] = lambda answer, b=body: answer.say(200, b) or True
            at.run("pull", "org/name", status=3)
        at.hub.lies["api"] = listing(lfs={"sha256": "a" * 64, "size": 10**17})
        at.run("pull", "org/name", status=4)
        at.hub.lies["api"] = lambda answer: answer.say(200, b" " * (33 << 20)) or True
        need("at most 32 MB" in at.run("pull", "org/name", status=3).stderr, "a list without end was read")
        need(not list(at.folder.rglob("evil*")), "a file lies outside")


def refusals_say_what_to_do():
    with Place(repository()) as at:
        need("no such repository" in at.run("pull", "org/none", status=3).stderr, "401 of no repository")
        need("revision" in at.run("pull", "org/name", "--revision", "v9", status=3).stderr, "404 of no revision")
        at.run("pull", "org/name", "--revision", "../x", status=2)
        at.run("pull", "name", status=2)
        at.run("pull", "../name", status=2)
        at.run("pull", "org/name:Q2_K", status=3)
        at.run("pull", "org/name", status=2, HF_HUB_OFFLINE="1")
        at.run("pull", "org/name", status=2, HF_ENDPOINT="ftp://x")
        at.run("pull", "org/name", status=2, HF_TOKEN="a\r\nX: y")
        waits = []

        def busy(answer):
            waits.append(1)
            return len(waits) == 1 and (answer.say(429, Retry_After=1) or True)
        at.hub.lies["api"] = busy
        at.run("pull", "org/name", "--dry-run")
        at.hub.lies["api"] = lambda answer: answer.say(429, Retry_After=9999) or True
        need("9999 s" in at.run("pull", "org/name", status=4).stderr, "expected how long to wait")


def a_token_goes_to_the_hub_alone():
    with Place(repository()) as at:
        at.hub.token = "hf_secret"
        need("HF_TOKEN" in at.run("pull", "org/name", status=3).stderr, "expected HF_TOKEN")
        other = Hub(at.hub.repos)
        at.hub.lies["model-Q4_K_M.gguf"] = lambda answer: answer.say(302, Location=other.url + "/cdn" + answer.path) or True
        at.run("pull", "org/name", HF_TOKEN="hf_secret")
        need(other.log and not any("Authorization" in headers for _, headers in other.log), f"found {other.log}")
        other.shutdown()
        other.server_close()
        at.run("rm", "org/name")
        at.hub.lies.clear()
        (at.folder / ".cache/huggingface/token").write_text("hf_secret\n")
        at.run("pull", "org/name")


def certificate(folder):
    done = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days",
                           "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True) if shutil.which("openssl") else None
    if not done or done.returncode:
        raise Skip("no openssl to make a certificate with")
    return folder / "cert.pem", folder / "key.pem"


def tls_is_checked():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tblock-pull-"))
    try:
        cert, key = certificate(folder)
        with Place(repository(), (cert, key)) as at:
            need("certificate" in at.run("pull", "org/name", status=4).stderr.lower(), "a certificate of nobody was taken")
            at.run("pull", "org/name", SSL_CERT_FILE=str(cert))
            plain = Hub(at.hub.repos)
            at.run("rm", "org/name")
            at.hub.lies["model-Q4_K_M.gguf"] = lambda answer: answer.say(302, Location=plain.url + answer.path) or True
            at.run("pull", "org/name", status=4, SSL_CERT_FILE=str(cert))
            need(not plain.log, "a redirect led away from TLS")
            plain.shutdown()
            plain.server_close()
    finally:
        shutil.rmtree(folder)


def broken_caches_are_named():
    with Place(repository()) as at:
        at.run("pull", "org/name")
        for blob in (at.cache / "models--org--name/blobs").iterdir():
            blob.unlink()
        told = at.run("info", "org/name", status=3).stderr
        need("one to nothing" in told and "tblock pull org/name" in told, f"found {told}")
        at.run("pull", "org/name")
        at.run("info", "org/name")
        outside = at.folder / "outside"
        outside.mkdir()
        (outside / "kept").write_text("kept")
        os.symlink(outside, at.cache / "models--org--name/snapshots/link")
        at.run("rm", "org/name")
        need((outside / "kept").exists(), "rm followed a link out of the cache")


def ollamas_store_is_read():
    with Place({}) as at:
        store = at.folder / ".ollama/models"
        blob = hashlib.sha256(gguf()).hexdigest()
        manifest = store / "manifests/registry.ollama.ai/library/tiny/1b"
        manifest.parent.mkdir(parents=True)
        (store / "blobs").mkdir()
        (store / f"blobs/sha256-{blob}").write_bytes(gguf())

        def layers(*types, digest=f"sha256:{blob}"):
            manifest.write_text(json.dumps({"layers": [{"mediaType": f"application/vnd.ollama.image.{t}", "digest": digest} for t in types]}))
        layers("model", "template")
        at.run("info", "tiny:1b")
        need("tiny:1b" in at.run("list").stdout, "list leaves it out")
        need("tiny" in at.run("info", "tiny", status=3).stderr, "expected an error for another tag")
        layers("model", "adapter")
        need("adapter" in at.run("info", "tiny:1b", status=3).stderr, "an adapter was ignored")
        for digest in ("sha256:../../../etc/passwd", "sha256:" + "0" * 64, 3, None):
            layers("model", digest=digest)
            at.run("info", "tiny:1b", status=3)
        manifest.write_text("{")
        at.run("info", "tiny:1b", status=3)


if __name__ == "__main__":
    only = option_only(__doc__).parse_args().only
    sys.exit(attempt_all(a_model_of_the_hub_is_pulled_listed_run_and_removed, only_what_tblock_reads_is_taken, shards_come_together_and_a_choice_is_asked_for,
                         a_dry_run_writes_nothing, what_was_cut_off_is_continued, a_server_without_ranges_begins_again, a_server_that_never_ends_a_file_is_given_up,
                         wrong_bytes_are_refused_and_removed, lists_that_lie_are_refused, refusals_say_what_to_do, a_token_goes_to_the_hub_alone,
                         tls_is_checked, broken_caches_are_named, ollamas_store_is_read, only=only))
