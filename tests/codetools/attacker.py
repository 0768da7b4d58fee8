"""Swap what two names mean, as fast as the kernel can, until the input ends."""

import ctypes
import os
import sys
import threading

RENAME_EXCHANGE = 2
ROUNDS = 200
LEAST, MOST = 1000, 1_000_000


def main(folder: str, one: bytes, other: bytes) -> None:
    """Swap, and count the swaps."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    swap = libc.renameat2
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    count = failed = 0
    while not over.is_set() or (count - failed <= LEAST and count < MOST):  # others may have kept it waiting
        for _ in range(ROUNDS):
            failed += swap(fd, one, fd, other, RENAME_EXCHANGE) != 0
        count += ROUNDS
    sys.stdout.write(f'{{"swaps": {count}, "failed": {failed}}}\n')


main(sys.argv[1], os.fsencode(sys.argv[2]), os.fsencode(sys.argv[3]))
