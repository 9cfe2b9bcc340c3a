# SPDX-License-Identifier: Apache-2.0
"""Certificates that no well-behaved authority makes: DER written by hand, so that
a subject may hold any bytes, signed by any key."""

import os
import pathlib
import subprocess
import time

CN, ORGANISATION = "2.5.4.3", "2.5.4.10"
UTF8, PRINTABLE, T61, IA5, BMP, UNIVERSAL = 0x0C, 0x13, 0x14, 0x16, 0x1E, 0x1C
CLIENT, SERVER = "1.3.6.1.5.5.7.3.2", "1.3.6.1.5.5.7.3.1"
DAY = 24 * 3600


def tlv(tag, *parts):
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + content


def oid(text):
    first, second, *rest = map(int, text.split("."))
    out = bytes([40 * first + second])
    for number in rest:
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(0x80 | number & 0x7F)
        out += bytes(reversed(digits))
    return tlv(0x06, out)


def name(entries):
    """A Name of (type, tag of the string, bytes)."""
    return tlv(0x30, *(tlv(0x31, tlv(0x30, oid(kind), tlv(tag, value)))
                       for kind, tag, value in entries))


def common_name(text, tag=UTF8):
    return [(CN, tag, text if isinstance(text, bytes) else text.encode())]


def date(seconds):
    return tlv(0x18, time.strftime("%Y%m%d%H%M%SZ", time.gmtime(seconds)).encode())


def extension(kind, value, critical=True):
    return tlv(0x30, oid(kind), tlv(0x01, b"\xff") if critical else b"",
               tlv(0x04, value))


def extensions(authority=False, usage=CLIENT, path_length=None):
    constraints = tlv(0x01, b"\xff") if authority else b""
    if path_length is not None:
        constraints += tlv(0x02, bytes([path_length]))
    all_ = [extension("2.5.29.19", tlv(0x30, constraints)),
            # digitalSignature, and keyCertSign for an authority.
            extension("2.5.29.15", tlv(0x03, b"\x02\x84" if authority
                                       else b"\x07\x80"))]
    if usage is not None:
        all_.append(extension("2.5.29.37", tlv(0x30, oid(usage)), False))
    return tlv(0xA3, tlv(0x30, *all_))


def pem(der):
    return subprocess.run(["openssl", "x509", "-inform", "DER"], input=der,
                          capture_output=True, check=True).stdout


def elements(der):
    """The (tag, whole bytes) of what stands in a constructed value."""
    def header(at):
        size, begin = der[at + 1], at + 2
        if size & 0x80:
            begin += size & 0x7F
            size = int.from_bytes(der[at + 2:begin], "big")
        return begin, begin + size

    at, end = header(0)
    while at < end:
        _, after = header(at)
        yield der[at], der[at:after]
        at = after


class Signer:
    """A key, and the name that it signs as: of an authority in files, or of its
    own."""

    def __init__(self, folder, key=None, certificate=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.key = key
        if key is None:
            self.key = self.folder / "signer.key"
            subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-out", self.key],
                           check=True, capture_output=True)
        self.spki = self._openssl("pkey", "-in", self.key, "-pubout", "-outform",
                                  "DER")
        self.name = name(common_name("stranger"))
        self.chain = b""
        if certificate is not None:
            self.chain = pathlib.Path(certificate).read_bytes()
            der = self._openssl("x509", "-in", certificate, "-outform", "DER")
            (_, tbs), *_ = elements(der)
            # version, serial, algorithm, issuer, validity, subject
            self.name = list(elements(tbs))[5][1]

    def _openssl(self, *args, **more):
        return subprocess.run(["openssl", *args], check=True, capture_output=True,
                              **more).stdout

    def issue(self, subject, key, begin=-DAY, end=30 * DAY, extras=None,
              spoil=False):
        """The certificate in PEM, for the key of another Signer; `begin` and `end`
        are seconds from now."""
        now = int(time.time())
        algorithm = tlv(0x30, oid("1.2.840.10045.4.3.2"))  # ECDSA with SHA-256
        tbs = tlv(0x30, tlv(0xA0, tlv(0x02, b"\x02")),
                  tlv(0x02, b"\x01" + os.urandom(15)), algorithm, self.name,
                  tlv(0x30, date(now + begin), date(now + end)), name(subject),
                  key.spki, extensions() if extras is None else extras)
        signature = self._openssl("dgst", "-sha256", "-sign", self.key, input=tbs)
        if spoil:
            signature = signature[:-1] + bytes([signature[-1] ^ 1])
        return pem(tlv(0x30, tbs, algorithm, tlv(0x03, b"\0" + signature)))
