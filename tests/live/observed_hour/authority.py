# SPDX-License-Identifier: Apache-2.0
"""A certificate authority that gives one server a certificate after the other,
each with the time left that is asked for."""

import datetime
import subprocess

CONFIGURATION = """
[ca]
default_ca = here
[here]
database = {folder}/index.txt
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = DNS:localhost,IP:127.0.0.1
"""
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True,
                   capture_output=True)


class Authority:
    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self.configuration = folder / "ca.cnf"
        self.configuration.write_text(CONFIGURATION.format(folder=folder))
        (folder / "index.txt").touch()
        openssl("req", "-x509", *KEY, "-subj", "/CN=the hour", "-days", 30,
                "-out", self.certificate, "-keyout", folder / "ca.key")
        openssl("req", "-new", *KEY, "-subj", "/CN=localhost", "-out",
                folder / "mpsd.csr", "-keyout", folder / "mpsd.key")
        (folder / "mpsd.key").chmod(0o600)

    def options(self):
        """Of mpsd, whose certificate is the last one given: that of its metrics
        and that of its API."""
        pair = (("cert", str(self.folder / "mpsd.pem")),
                ("key", str(self.folder / "mpsd.key")))
        return [word for prefix in ("--metrics-tls-", "--tls-")
                for name, path in pair for word in (prefix + name, path)]

    def give(self, seconds):
        """A certificate with so many seconds left."""
        end = (datetime.datetime.now(datetime.timezone.utc)
               + datetime.timedelta(seconds=seconds))
        openssl("ca", "-batch", "-notext", "-config", self.configuration,
                "-in", self.folder / "mpsd.csr", "-out",
                self.folder / "mpsd.pem", "-enddate",
                end.strftime("%Y%m%d%H%M%SZ"))
