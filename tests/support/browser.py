"""A real browser without a window, driven over the DevTools pipe, which needs no package.

https://chromedevtools.github.io/devtools-protocol/: commands go to the browser's descriptor 3 and
answers come from its 4, each a JSON object with a zero byte after it.
"""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import contextmanager

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chrome-headless-shell",
)
# Nothing is looked up on a network: the only hosts are those that a page would ask for.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-device-scale-factor=1",
    "--window-size=1280,900",
    "--remote-debugging-pipe",
)
TIMEOUT_S = 120  # of one command, on a machine that is busy with something else


def find_browser():
    """The path of a browser, or None; the environment's BROWSER_PATH goes before PATH."""
    return os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """One page, everything it asked for and everything it complained about."""

    def __init__(self, commands, answers):
        self._commands, self._answers = commands, answers
        self._buffer, self._last_id, self._session = b"", 0, None
        self.requests, self.complaints = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self):
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], deadline - time.monotonic())
            assert ready, f"the browser has not answered for {TIMEOUT_S} s"
            content = os.read(self._answers, 1 << 20)
            assert content, "the browser has gone"
            self._buffer += content
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, parameters):
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(parameters["args"])
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"])

    def open(self, address):
        """Loads an address anew, also where only its `#…` is another."""
        for place in ("about:blank", address):
            self.call("Page.navigate", url=place)
            while self.run("document.readyState") != "complete":
                time.sleep(0.05)

    def run(self, expression):
        """The value of a JavaScript expression in the page, as JSON data."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def hover(self, selector):
        """Moves the pointer onto the first element of a selector, after scrolling it into sight."""
        x, y = self.run(
            f"""(() => {{
                const found = document.querySelector({json.dumps(selector)});
                found.scrollIntoView({{block: "center"}});
                const box = found.getClientRects()[0];
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


@contextmanager
def open_tab(profile):
    """A tab of a new browser whose profile is the folder `profile`."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    # Above 9, so that neither is overwritten before it has become 3 or 4.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
    os.close(to_browser)
    os.close(from_browser)
    command = [find_browser(), *FLAGS, f"--user-data-dir={profile}"]
    browser = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}', "bash", *command],
        pass_fds=ends,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in ends:
        os.close(end)
    try:
        yield Tab(commands, answers)
    finally:
        browser.terminate()
        browser.wait(timeout=TIMEOUT_S)
        os.close(commands)
        os.close(answers)
