# SPDX-License-Identifier: Apache-2.0
"""A user who calls all the while, in a process of its own so that the times are
the daemon's.

    steady_caller.py PORT CA     the token is the first line of the input

Ends with its input, and prints as JSON the seconds of each call, and of each call
on a new connection, handshake included."""

import json
import sys
import threading
import time

import raw_http2


def main():
    port, authority = int(sys.argv[1]), sys.argv[2]
    token = sys.stdin.readline().strip().encode()
    context = raw_http2.client_context(authority)
    headers = raw_http2.request(b"/mpsd.v1.AccessService/WhoAmI",
                                (b"authorization", b"Bearer " + token))
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()),
                     daemon=True).start()
    calls, connects, faults = [], [], []

    def timed(connection, times, since):
        status, _ = connection.call(headers)
        times.append(time.monotonic() - since)
        if status != 0:
            faults.append(f"status {status}")

    print("ready", flush=True)
    while not ended.is_set():
        since = time.monotonic()
        try:
            with raw_http2.Connection(port, context) as connection:
                timed(connection, connects, since)
                for _ in range(40):
                    timed(connection, calls, time.monotonic())
                    if ended.wait(0.005):
                        break
        except (raw_http2.Closed, TimeoutError) as error:
            faults.append(repr(error))
    print(json.dumps({"calls": calls, "connects": connects, "faults": faults}))


if __name__ == "__main__":
    main()
