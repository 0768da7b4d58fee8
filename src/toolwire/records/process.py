"""A process of its own that writes records, so that a gateway's event loop never waits for them.

Rules of this file:
- The gateway sends each record as it was on the wire through a pipe. The other process masks, compresses and stores it.
- The pipe's end is the order to finish: the other process writes what it has received, and exits. So a gateway that is
  killed loses no record that it has sent.
- If the process dies, another one is started, at most once a second. What it had not stored is counted as lost.
- The address of the database and the secrets go through the pipe, and never onto a command line.
"""

import atexit
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import IO, Any

import msgspec
from msgspec import Struct

from toolwire.errors import ToolwireError
from toolwire.records.database import open_records
from toolwire.records.packing import PackedRecord, shrink
from toolwire.records.record import Record
from toolwire.records.writer import RecordWriter, StoreLimits

_LOG = logging.getLogger("toolwire.records")
_REST = 0.1  # seconds between two looks at the queue: records that arrive meanwhile are sent together
_RESTART_SECONDS = 1.0
_LOG_SECONDS = 60.0
_LENGTH = 8
_EXIT_SECONDS = 30.0
_PIPE_BYTES = 1_048_576
_SET_PIPE_SIZE = 1031  # Linux: fcntl.F_SETPIPE_SZ, which Python has since 3.10 on Linux alone
_COUNT_SECONDS = 0.5
_NICE = 5  # the gateway's requests come first


class _Opening(Struct, array_like=True, tag="open"):
    url: str
    limits: StoreLimits


class _Sent(Struct, array_like=True, tag="record"):
    packed: PackedRecord
    secrets: list[str]


class _Flush(Struct, array_like=True, tag="flush"):
    number: int


class _Counts(Struct, array_like=True):
    """What the process has done, as it reports it."""

    written: int = 0
    lost: int = 0
    flushed: int = 0
    failed: str = ""


_Queued = tuple[bytes, bool]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Opening | _Sent | _Flush).decode
_read_counts = msgspec.json.Decoder(_Counts).decode


def _framed(message: Struct) -> bytes:
    data = _encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


class ProcessWriter:
    """Sends records to a process that stores them. It has the methods of `RecordWriter`."""

    def __init__(self, url: str, limits: StoreLimits) -> None:
        self._opening = _framed(_Opening(url, limits))
        self._limits = limits
        self._changed = threading.Condition()
        self._queue: deque[_Queued] = deque()
        self._bytes = 0
        self._sent = 0  # records that the present process has received
        self._counts = _Counts()
        self._before = (0, 0)  # records that earlier processes have written and lost
        self._dropped = 0
        self._flushes = 0
        self._logged = -_LOG_SECONDS
        self._started = -_RESTART_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self.closed: bool = False
        self._thread = threading.Thread(target=self._run, name="toolwire-records", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def written(self) -> int:
        """How many records are stored."""
        return self._before[0] + self._counts.written

    @property
    def lost(self) -> int:
        """How many records will never be stored."""
        return self._before[1] + self._counts.lost + self._dropped

    @property
    def failed(self) -> str:
        """Why the last batch was not stored. Empty if it was."""
        return self._counts.failed

    def put(self, record: Record, size: int, secrets: Sequence[str]) -> bool:
        """Put a record into the queue. Return False if it is lost, because the queue is full."""
        limits = self._limits
        if self.closed or self._bytes + size > limits.queue_bytes or len(self._queue) >= limits.queue:
            self._dropped += 1
            self._warn("%d records were lost: they arrive faster than they can be written", self.lost)
            return False
        self._queue_frame(_framed(_Sent(shrink(record), [*secrets])), is_record=True)
        return True

    def _queue_frame(self, frame: bytes, *, is_record: bool) -> None:
        with self._changed:
            self._queue.append((frame, is_record))
            self._bytes += len(frame)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records are stored or lost. Return False if `timeout` seconds have passed."""
        with self._changed:
            self._flushes += 1
            number = self._flushes
        self._queue_frame(_framed(_Flush(number)), is_record=False)
        with self._changed:
            return self._changed.wait_for(
                lambda: self._counts.flushed >= number or not self._thread.is_alive(), timeout
            )

    def close(self, timeout: float | None = _EXIT_SECONDS) -> None:
        """Send what waits, and wait until it is stored."""
        atexit.unregister(self.close)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)

    def _run(self) -> None:
        """Send what is in the queue, again and again. This is the thread."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.closed, _REST)
                queued, self._queue = self._queue, deque()
                is_last = self.closed
            while queued:
                group = _group(queued)
                self._send(b"".join(frame for frame, _ in group), sum(is_record for _, is_record in group))
            if is_last:
                self._end()
                return

    def _send(self, data: bytes, count: int) -> None:
        """Send the frames of `count` records. What a process that has died cannot receive goes to the next one."""
        while True:
            process = self._running()
            if process is not None:
                try:
                    _write(process, data)
                except OSError:
                    self._reap()
                else:
                    break
            elif self.closed:
                break
            else:
                time.sleep(_REST)
        with self._changed:
            self._bytes -= len(data)
            self._sent += count if process is not None else 0
            self._dropped += count if process is None else 0

    def _running(self) -> "subprocess.Popen[bytes] | None":
        """Return the process. Start it if there is none; return None if it is too soon for another one."""
        if self._process is not None:
            return self._process
        if time.monotonic() - self._started < _RESTART_SECONDS:
            return None
        self._started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "toolwire.records.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # a signal to the gateway's terminal must not end it before the gateway
        )
        with contextlib.suppress(OSError, ImportError, AttributeError):
            import fcntl  # noqa: PLC0415 - not on every system

            fcntl.fcntl(process.stdin, _SET_PIPE_SIZE, _PIPE_BYTES)  # type: ignore[arg-type]
        threading.Thread(target=self._listen, args=[process], name="toolwire-records-counts", daemon=True).start()
        self._process = process
        try:
            _write(process, self._opening)
        except OSError:
            self._reap()
            return None
        return process

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        """Read what the process reports, until it ends."""
        stdout: Any = process.stdout
        with stdout:
            for line in stdout:
                with contextlib.suppress(msgspec.DecodeError), self._changed:
                    if self._process is process:
                        self._counts = _read_counts(line)
                        self._changed.notify_all()
                        if self._counts.failed:
                            self._warn("%d records were lost: %s", self.lost, self._counts.failed)

    def _reap(self) -> None:
        """Count what a process that has died had not stored as lost."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        process.wait()
        with self._changed:
            counts, sent = self._counts, self._sent
            self._before = self._before[0] + counts.written, self._before[1] + sent - counts.written
            self._counts, self._sent = _Counts(flushed=self._flushes), 0
            self._changed.notify_all()
        self._warn("%d records were lost: the process that writes them has died", self.lost)

    def _end(self) -> None:
        """Close the pipe, and wait until the process has stored everything."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        process.wait()

    def _warn(self, words: str, *values: object) -> None:
        """Log a problem, at most once a minute."""
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            _LOG.warning(words, *values)


def _group(queued: deque[_Queued]) -> list[_Queued]:
    """Take frames from the queue that are sent together."""
    group, size = [queued.popleft()], 0
    while queued and (size := size + len(group[-1][0])) < _PIPE_BYTES:
        group.append(queued.popleft())
    return group


def _write(process: "subprocess.Popen[bytes]", frame: bytes) -> None:
    pipe: Any = process.stdin
    pipe.write(frame)
    pipe.flush()


# The other process


def _frames(pipe: IO[bytes]) -> Any:
    """Yield the messages of the pipe, until its end."""
    while len(length := pipe.read(_LENGTH)) == _LENGTH:
        data = pipe.read(int.from_bytes(length, "big"))
        if len(data) < int.from_bytes(length, "big"):
            return
        yield _decode(data)


def _report(writer: RecordWriter, flushed: int, output: IO[bytes]) -> None:
    counts = _Counts(writer.written, writer.lost, flushed, writer.failed)
    with contextlib.suppress(OSError):
        output.write(msgspec.json.encode(counts) + b"\n")
        output.flush()


def _report_often(writer: RecordWriter, flushed: list[int], output: IO[bytes], ended: threading.Event) -> None:
    last = None
    while not ended.wait(_COUNT_SECONDS):
        counts = (writer.written, writer.lost, writer.failed)
        if counts != last:
            last = counts
            _report(writer, flushed[0], output)


def serve(source: IO[bytes], output: IO[bytes]) -> None:
    """Store the records that arrive in `source` until it ends, and report to `output`."""
    messages = _frames(source)
    opening = next(messages, None)
    if opening is None:
        return
    writer = RecordWriter(open_records(opening.url, create=True), opening.limits)
    flushed, ended = [0], threading.Event()
    threading.Thread(target=_report_often, args=[writer, flushed, output, ended], daemon=True).start()
    for message in messages:
        match message:
            case _Sent(packed=packed, secrets=secrets):
                size = sum(len(body.data) for body in packed.record.bodies.values())
                writer.put(packed, size, secrets, waits=True)
            case _Flush(number=number):
                writer.flush()
                flushed[0] = number
                _report(writer, number, output)
    writer.close()
    ended.set()
    _report(writer, flushed[0], output)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # the end of the pipe ends it, when the gateway has sent everything
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICE)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except ToolwireError as problem:
        sys.stdout.buffer.write(msgspec.json.encode(_Counts(failed=str(problem))) + b"\n")
        sys.exit(1)
