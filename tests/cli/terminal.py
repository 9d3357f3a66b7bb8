"""Programs on a pseudo-terminal, and what its screen shows afterwards."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time


def possible():
    try:
        for fd in pty.openpty():
            os.close(fd)
        return True
    except OSError:
        return False


class Shown:
    """What a program wrote to its terminal, its exit status (negative: a signal) and its seconds."""

    def __init__(self, data, status, seconds):
        self.data, self.status, self.seconds = data, status, seconds

    def screen(self):
        """The lines as they stay: \\r and the clearing of a line done, colours left out."""
        lines, at = [""], 0
        for part in re.findall("\x1b\\[[0-9;]*[A-Za-z]|.", re.sub("\x1b\\[[0-9;]*m", "", self.data), re.S):
            if part == "\r":
                at = 0
            elif part == "\n":
                lines, at = lines + [""], 0
            elif part == "\x1b[K":
                lines[-1] = lines[-1][:at]
            else:
                lines[-1], at = lines[-1][:at] + part + lines[-1][at + 1:], at + 1
        return lines


def run(args, columns=80, until=None, then="\x03", cwd=None, patience=120, **env):
    """Run it to its end; `then` is typed once `until` was shown."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        if cwd:
            os.chdir(cwd)
        try:
            os.execve(args[0], args, {k: v for k, v in {**os.environ, "TERM": "xterm", **env}.items() if v is not None})
        finally:
            os._exit(127)
    data, start = b"", time.monotonic()
    while time.monotonic() < start + patience:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            more = os.read(fd, 65536)
        except OSError:
            more = b""
        if not more:
            break
        data += more
        if until and until.encode() in data:
            os.write(fd, then.encode())
            until = None
    os.close(fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Shown(data.decode("utf-8", "replace").replace("\r\n", "\n"), status, time.monotonic() - start)
