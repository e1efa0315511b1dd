"""A process that throws random frames at a listening port: ``net_noise.py PORT FRAMES SEED``.

Three of four come behind the preamble of a call, of a session that nobody knows, so that they get
as far as TLS where calls are taken whatever their session.
"""

import contextlib
import random
import socket
import struct
import sys

# Together with a second process below the listener's limit of strangers.
BATCH = 24
RESET = struct.pack("ii", 1, 0)
MAGIC = b"HDGR\x01"
PREAMBLE = b"HDGS" + bytes(16)


def frame(noise: random.Random) -> bytes:
    """Make random bytes; some begin like a TLS record, some like a frame of Hedgerow."""
    body = noise.randbytes(noise.randrange(1, 400))
    match noise.randrange(4):
        case 0:
            return body
        case 1:
            # A handshake, an alert or data, as long as it says.
            return bytes([noise.randrange(20, 25), 3, 1]) + len(body).to_bytes(2, "big") + body
        case 2:
            # A greeting of a client whose content is noise, and which may end too early.
            claimed = len(body) + noise.choice([0, 0, 1, 5000])
            inner = b"\x01" + max(0, claimed - 4).to_bytes(3, "big") + body
            return b"\x16\x03\x01" + claimed.to_bytes(2, "big") + inner
        case _:
            return MAGIC + body


def shout(port: int, frames: int, seed: int) -> None:
    noise = random.Random(seed)
    for start in range(0, frames, BATCH):
        count = min(BATCH, frames - start)
        callers = []
        for i in range(count):
            caller = socket.create_connection(("127.0.0.1", port))
            # Closed by a reset: 100,000 connections would else use up the ports of the machine.
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            last = i == count - 1
            with contextlib.suppress(OSError):
                preamble = PREAMBLE if last or noise.randrange(4) else b""
                caller.sendall(preamble + (MAGIC + noise.randbytes(51) if last else frame(noise)))
            callers.append(caller)
        # Calls are taken in order, and the last one is no TLS for certain: once it is answered,
        # all have been taken, so that calls do not queue up without end.
        with contextlib.suppress(ConnectionResetError):
            while callers[-1].recv(100):
                pass
        for caller in callers:
            caller.close()


if __name__ == "__main__":
    shout(*map(int, sys.argv[1:]))
