"""The one exception that becomes the one error line. Status: 2 usage, 3 input, 4 system, 130 interrupted."""

USAGE, INPUT, SYSTEM, INTERRUPTED = 2, 3, 4, 130


class ConvertError(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Interrupted(BaseException):
    """Raised by the signal handler, so that every `finally` runs; not an Exception, so that no `except` eats it."""


def bad(file, thing, expected, found, hint=""):
    """An error in an input: 'FILE: THING: expected X, found Y (likely cause)'. `expected` may be empty."""
    text = "%s: %s: " % (file, thing) if thing else "%s: " % file
    text += "expected %s, found %s" % (expected, found) if expected else "%s" % found
    return ConvertError(INPUT, text + (" (%s)" % hint if hint else ""))


def shape_text(shape):
    return "[%s]" % ", ".join(str(n) for n in shape)


def quoted(name):
    """A name from a file, made safe for one line of a terminal."""
    text = "".join(c if c.isprintable() else "\\x%02x" % ord(c) for c in str(name))
    return text if len(text) <= 120 else text[:117] + "..."
