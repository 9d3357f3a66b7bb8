"""The model file: header, alignment, hash, and an output that appears whole or not at all (docs/format.md)."""
import hashlib
import json
import os
import queue
import stat
import threading

import numpy as np

from .errors import SYSTEM, USAGE, ConvertError

HEADER_ALIGN, TENSOR_ALIGN = 4096, 64
QUEUE_PIECES = 4


def layout(entries):
    """{name: header entry} with the pad tensors between, and the bytes of the data section."""
    header, at, pads = {}, 0, 0
    for e in entries:
        gap = -at % TENSOR_ALIGN
        if gap:
            header["pad.%d" % pads] = {"dtype": "U8", "shape": [gap], "data_offsets": [at, at + gap]}
            at, pads = at + gap, pads + 1
        header[e.name] = {"dtype": e.dtype, "shape": e.shape, "data_offsets": [at, at + e.n_bytes]}
        at += e.n_bytes
    return header, at


def header_bytes(metadata, header):
    """The first bytes of the file, up to the data."""
    tensors = ["%s: %s" % (json.dumps(name), json.dumps(entry)) for name, entry in header.items()]
    text = ("{%s}" % ",\n".join(["\"__metadata__\": %s" % json.dumps(metadata)] + tensors)).encode()
    text += b" " * (-(8 + len(text)) % HEADER_ALIGN)
    return len(text).to_bytes(8, "little") + text


def write(path, entries, metadata, progress=None):
    """Write the model file. metadata(sha256) gives the metadata; called with zeros first, its values must keep their
    length. progress(n) is told of n more bytes. Returns (bytes of the file, sha256 of the data)."""
    check_target(path)
    header, n_data = layout(entries)
    head = header_bytes(metadata(None), header)
    temporary = os.path.join(os.path.dirname(path) or ".", ".%s.%d.tmp" % (os.path.basename(path), os.getpid()))
    try:
        with open(temporary, "xb", buffering=0) as file:
            check_space(file, path, len(head) + n_data)
            write_all(file, head)
            stage = Stage(file, progress)
            try:
                for e in entries:
                    stage.put(bytes(-stage.n_bytes % TENSOR_ALIGN))
                    for piece in e.pieces():
                        stage.put(np.ascontiguousarray(piece).reshape(-1).view(np.uint8))
            finally:
                digest = stage.finish()
            assert stage.n_bytes == n_data
            final = header_bytes(metadata(digest), header)
            assert len(final) == len(head)
            file.seek(0)
            write_all(file, final)
        os.replace(temporary, path)
    except OSError as e:
        raise ConvertError(SYSTEM, "%s: cannot be written: %s" % (path, e.strerror))
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return len(head) + n_data, digest


def check_target(path):
    """The output replaces a plain file or nothing: a rename over a device or a folder would not do what was meant."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise ConvertError(SYSTEM, "%s: cannot be written: no folder %s" % (path, folder))
    if os.path.lexists(path) and not stat.S_ISREG(os.stat(path).st_mode if os.path.exists(path) else 0):
        raise ConvertError(USAGE, "-o %s: expected a new or a plain file, found %s" %
                           (path, "a folder" if os.path.isdir(path) else "something else"))


def check_space(file, path, n_bytes):
    """Say at once that the disk is too small, not after minutes."""
    free = os.fstatvfs(file.fileno())
    free = free.f_bavail * free.f_frsize
    if free < n_bytes:
        raise ConvertError(SYSTEM, "%s: cannot be written: expected %d bytes of free space, found %d" % (path, n_bytes, free))


def write_all(file, data):
    view = memoryview(data)
    while len(view):
        view = view[file.write(view):]


class Stage:
    """One thread hashes pieces and hands them on to one that writes them, while the caller reads and packs the next ones
    (hashing and writing release Python's lock)."""

    def __init__(self, file, progress):
        self.file, self.progress = file, progress
        self.n_bytes = 0
        self.digest = hashlib.sha256()
        self.failure = None
        self.to_hash, self.to_write = queue.Queue(QUEUE_PIECES), queue.Queue(QUEUE_PIECES)
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self._hash, self._write)]
        for t in self.threads:
            t.start()

    def put(self, piece):
        if self.failure:
            raise self.failure
        if len(piece):
            self.n_bytes += len(piece)
            self.to_hash.put(piece)

    def _hash(self):
        while True:
            piece = self.to_hash.get()
            if piece is not None:
                self.digest.update(piece)
            self.to_write.put(piece)
            if piece is None:
                return

    def _write(self):
        while True:
            piece = self.to_write.get()
            if piece is None:
                return
            if self.failure:
                continue     # keep emptying the queue, so that nobody waits for a thread that has failed
            try:
                write_all(self.file, piece)
                if self.progress:
                    self.progress(len(piece))
            except OSError as e:
                self.failure = e

    def finish(self):
        """Wait for what was put; the sha256 in hex."""
        self.to_hash.put(None)
        for t in self.threads:
            t.join()
        if self.failure:
            raise self.failure
        return self.digest.hexdigest()
