"""The files a conversion reads: opened once, named by their base name in messages and in the metadata, hashed by a
thread while the conversion goes on."""
import hashlib
import os
import threading

from .errors import SYSTEM, ConvertError, bad
from . import jsonfile

HASH_PIECE = 4 << 20


class SourceFile:
    """One input file. read() is for the thread that converts; hashing uses a handle of its own."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)
        try:
            self.file = open(path, "rb", buffering=0)
            self.size = os.fstat(self.file.fileno()).st_size
        except IsADirectoryError:
            raise bad(path, "", "a file", "a directory")
        except FileNotFoundError:
            raise bad(path, "", "a file", "no such file")
        except OSError as e:
            raise ConvertError(SYSTEM, "%s: cannot be read: %s" % (path, e.strerror))

    def read_into(self, offset, buffer):
        """Fill a writable buffer from offset; a file that ends before is an error."""
        view = memoryview(buffer).cast("B")
        try:
            self.file.seek(offset)
            done = 0
            while done < len(view):
                n = self.file.readinto(view[done:])
                if not n:
                    raise bad(self.path, "", "%d bytes at offset %d" % (len(view), offset), "%d" % done,
                              "the file was cut while it was read")
                done += n
        except OSError as e:
            raise ConvertError(SYSTEM, "%s: cannot be read: %s" % (self.path, e.strerror))

    def read(self, offset=0, n_bytes=None):
        data = bytearray(self.size - offset if n_bytes is None else n_bytes)
        self.read_into(offset, data)
        return bytes(data)

    def read_small(self):
        """A whole small file, such as JSON."""
        if self.size > jsonfile.LARGEST:
            raise bad(self.path, "", "at most %d MB" % (jsonfile.LARGEST >> 20), "%d bytes" % self.size)
        return self.read()


class Sources:
    """Every file that was opened, in order: closed together, hashed in the background."""

    def __init__(self):
        self.files = []
        self.digests = {}
        self.failure = None
        self.thread = None
        self.stopping = False

    def open(self, path):
        for f in self.files:
            if os.path.realpath(f.path) == os.path.realpath(path):
                return f
        f = SourceFile(path)
        self.files.append(f)
        return f

    def start_hashing(self):
        self.thread = threading.Thread(target=self._hash_all, daemon=True)
        self.thread.start()

    def _hash_all(self):
        try:
            for f in self.files:
                digest = hashlib.sha256()
                with open(f.path, "rb", buffering=0) as handle:
                    piece = bytearray(HASH_PIECE)
                    while not self.stopping:
                        n = handle.readinto(piece)
                        if not n:
                            break
                        digest.update(memoryview(piece)[:n])
                self.digests[f] = digest.hexdigest()
        except OSError as e:
            self.failure = ConvertError(SYSTEM, "%s: cannot be read: %s" % (f.path, e.strerror))

    def listed(self, digests=True):
        """[{"file": name, "sha256": hex}, ...]; without digests, zeros of the same length."""
        if digests:
            self.thread.join()
            if self.failure:
                raise self.failure
        return [{"file": f.name, "sha256": self.digests[f] if digests else "0" * 64} for f in self.files]

    def close(self):
        self.stopping = True
        if self.thread:
            self.thread.join()
        for f in self.files:
            f.file.close()
