"""A headless Chromium that is driven through two pipes (the DevTools protocol), so that a window can
be 375 pixels wide, which --window-size does not allow, and a colour scheme can be chosen."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

SECONDS = 120  # for one answer, on a busy machine


def find():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{back_write}', "sh", program, "--headless",
             "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(to_read, back_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(back_write)
        self.number, self.held, self.events, self.session = itertools.count(1), b"", [], None
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to)  # it ends when its pipe does
        os.close(self.back)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def receive(self, until):
        while b"\0" not in self.held:
            if not select.select([self.back], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer within {SECONDS} s")
            data = os.read(self.back, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self.held += data
        message, _, self.held = self.held.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        number, until = next(self.number), time.monotonic() + SECONDS
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while (answer := self.receive(until)).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, url, width, height=900, dark=False):
        """Show a page in a window of this size; returns the errors of its scripts."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + SECONDS
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.receive(until))
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return [e["params"]["exceptionDetails"]["text"] for e in self.events
                if e.get("method") == "Runtime.exceptionThrown"]

    def run(self, script):
        """The value of a JavaScript expression in the page, a promise's when it is kept."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if wrong := answer.get("exceptionDetails"):
            raise RuntimeError(wrong.get("exception", {}).get("description", wrong["text"]))
        return answer["result"].get("value")

    def screenshot(self, path):
        """Of the whole page."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(picture["data"]))
