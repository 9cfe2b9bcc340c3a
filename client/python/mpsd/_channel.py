# SPDX-License-Identifier: Apache-2.0
"""The connection to a daemon: TLS with the pinned authority, and the token
with every call."""

from __future__ import annotations

import collections

import grpc

from mpsd._address import Address, is_loopback
from mpsd._errors import Invalid

# A page of a list is larger than a message of gRPC's default at worst.
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    # A machine that is gone without a word is noticed.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


class _CallDetails(
        collections.namedtuple(
            "_CallDetails",
            ("method", "timeout", "metadata", "credentials",
             "wait_for_ready", "compression")),
        grpc.ClientCallDetails):
    pass


class _WithToken(grpc.UnaryUnaryClientInterceptor,
                 grpc.UnaryStreamClientInterceptor,
                 grpc.StreamUnaryClientInterceptor,
                 grpc.StreamStreamClientInterceptor):
    """gRPC sends call credentials over TLS alone; a port of this machine's
    loopback has none, and asks for the token nonetheless."""

    def __init__(self, token: str):
        self._header = ("authorization", "Bearer " + token)

    def _call(self, continuation, details, request):
        metadata = [*(details.metadata or ()), self._header]
        return continuation(
            _CallDetails(details.method, details.timeout, metadata,
                         details.credentials,
                         getattr(details, "wait_for_ready", None),
                         getattr(details, "compression", None)), request)

    intercept_unary_unary = _call
    intercept_unary_stream = _call
    intercept_stream_unary = _call
    intercept_stream_stream = _call


def open_channel(address: Address) -> grpc.Channel:
    if address.tls:
        channel = grpc.secure_channel(
            address.target,
            grpc.ssl_channel_credentials(address.ca_pem), _OPTIONS)
    else:
        host = address.target.rpartition(":")[0].strip("[]")
        if not address.target.startswith("unix:") and not is_loopback(host):
            raise Invalid(f"{address.target}: mpsd is spoken to over TLS "
                          "anywhere but on this machine")
        channel = grpc.insecure_channel(address.target, _OPTIONS)
    if address.token:
        channel = grpc.intercept_channel(channel, _WithToken(address.token))
    return channel
