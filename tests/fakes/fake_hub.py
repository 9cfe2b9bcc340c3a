# SPDX-License-Identifier: Apache-2.0
"""A hub of models that behaves as the Hugging Face hub does towards whoever
downloads by HTTP, and misbehaves as a test asks.

  fake_hub.py ROOT [--tls CERTIFICATE KEY]

ROOT/ORG/NAME/… are the files of a model; .safetensors files are kept with LFS:
the hub tells their SHA-256 and redirects to a second server, as the real one
does to a CDN. ROOT/ORG/NAME@REVISION/… are those of another revision. Models of
"gated" want the token "hf_member", those of "private" any good token.

The first line on stdout is JSON: "url" of the hub and "cdn" of the second
server. POST /_faults takes a list of faults; GET /_log answers the requests so
far. A fault is {"path": a regular expression, "kind": …, "times": …}:

  status      answers "code" with "headers" and "body"
  break       ends the connection after "bytes" of the body
  wrong       one byte of the body is another
  more, less  the body is longer, shorter than said; "told": so says its header
  endless     the body has no end
  drip        a byte every 50 ms
  silent      no answer at all
  redirect    to "to"
  whole       answers 200 with the whole file, whatever range is asked for
  headers     replaces headers ("headers")
  json        answers "body" in the place of the list of files
"""

import argparse
import hashlib
import http.server
import json
import pathlib
import re
import ssl
import sys
import threading
import time
import urllib.parse

GOOD_TOKENS = {"hf_member", "hf_other"}
PIECE = 1 << 16


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Model:
    """The files of a model at one revision."""

    def __init__(self, folder):
        self.files = {
            str(path.relative_to(folder)): path
            for path in sorted(folder.rglob("*")) if path.is_file()
        }
        self.entries = {name: self.entry(name) for name in self.files}
        listed = json.dumps(self.entries, sort_keys=True)
        self.commit = hashlib.sha1(listed.encode()).hexdigest()

    def entry(self, name):
        content = self.files[name].read_bytes()
        entry = {"rfilename": name, "size": len(content)}
        if name.endswith(".safetensors"):
            digest = hashlib.sha256(content).hexdigest()
            pointer = (f"version https://git-lfs.github.com/spec/v1\n"
                       f"oid sha256:{digest}\nsize {len(content)}\n").encode()
            entry["blobId"] = git_hash(pointer)
            entry["lfs"] = {"sha256": digest, "size": len(content),
                            "pointerSize": len(pointer)}
        else:
            entry["blobId"] = git_hash(content)
        return entry

    def hash_of(self, name):
        entry = self.entries[name]
        return entry["lfs"]["sha256"] if "lfs" in entry else entry["blobId"]


class State:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.lock = threading.Lock()
        self.faults = []
        self.log = []
        self.models = {}
        self.cdn = ""
        self.hub = ""

    def model(self, name, revision):
        """The model, or None; a commit finds what was served before."""
        suffix = "" if revision == "main" else "@" + revision
        folder = self.root / (name + suffix)
        with self.lock:
            if folder.is_dir() and ".." not in folder.parts:
                model = Model(folder)
                self.models[name, model.commit] = model
                return model
            known = self.models.get((name, revision))
        if known or not re.fullmatch("[0-9a-f]{40}", revision):
            return known
        # As the real hub: any commit of the repository's history.
        for folder in self.root.glob(name + "*"):
            model = Model(folder)
            if model.commit == revision:
                return model
        return None

    def fault(self, path, kinds):
        with self.lock:
            for fault in self.faults:
                if fault["kind"] in kinds and re.search(fault["path"], path):
                    times = fault.get("times", 1 << 30)
                    if times <= 0:
                        continue
                    fault["times"] = times - 1
                    return fault
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "FakeHub"
    state = None
    is_cdn = False

    def log_message(self, *unused):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.state.lock:
            self.state.faults = json.loads(body)
        self.say(200, {}, b"{}")

    def say(self, code, headers, body=b""):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def say_error(self, code, error, message=""):
        self.say(code, {"X-Error-Code": error, "X-Error-Message": message,
                        "Content-Type": "application/json"},
                 json.dumps({"error": message or error}).encode())

    def answer(self):
        path = urllib.parse.unquote(self.path)
        if path == "/_log":
            with self.state.lock:
                log = json.dumps(self.state.log).encode()
            return self.say(200, {}, log)
        with self.state.lock:
            self.state.log.append({
                "server": "cdn" if self.is_cdn else "hub",
                "method": self.command, "path": path,
                "range": self.headers.get("Range", ""),
                "authorization": self.headers.get("Authorization", "")})
        if self.misbehave(path):
            return None
        return self.answer_cdn(path) if self.is_cdn else self.answer_hub(path)

    def misbehave(self, path):
        fault = self.state.fault(path, {"status", "redirect", "silent"})
        if not fault:
            return False
        if fault["kind"] == "silent":
            while not self.state.fault("/_end", {"end"}):
                time.sleep(0.05)
                if not self.connection_lives():
                    break
            self.close_connection = True
        elif fault["kind"] == "redirect":
            self.say(302, {"Location": fault["to"]})
        else:
            self.say(fault["code"], fault.get("headers", {}),
                     fault.get("body", "").encode())
        return True

    def connection_lives(self):
        self.connection.settimeout(0.01)
        try:
            return self.connection.recv(1) != b""
        except (TimeoutError, OSError):
            return True

    # --- the hub -------------------------------------------------------------

    def refused(self, name):
        """Whether the caller may not see the model."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in GOOD_TOKENS:
            self.say_error(401, "", "Invalid credentials in Authorization header")
            return True
        if name.startswith("private/") and not token:
            self.say_error(401, "RepoNotFound", "Repository not found")
            return True
        return False

    def gated(self, name):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not name.startswith("gated/") or token == "hf_member":
            return False
        self.say_error(403 if token else 401, "GatedRepo",
                       f"Access to model {name} is restricted.")
        return True

    def answer_hub(self, path):
        path, _, query = path.partition("?")
        listed = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path)
        cached = re.fullmatch(
            r"/api/resolve-cache/models/([^/]+/[^/]+)/([0-9a-f]{40})/(.+)", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = listed or cached or file
        if not found:
            return self.say_error(404, "", "Not found")
        name, revision = found[1], found[2]
        if self.refused(name):
            return None
        model = self.state.model(name, revision)
        if model is None:
            if self.state.model(name, "main"):
                return self.say_error(404, "RevisionNotFound", "Invalid rev id")
            # Whether it exists is no stranger's business.
            token = self.headers.get("Authorization", "")
            return self.say_error(404 if token else 401, "RepoNotFound",
                                  "Repository not found")
        if listed:
            return self.answer_list(path, name, model, "blobs=true" in query)
        if self.gated(name):
            return None
        if found[3] not in model.files:
            return self.say_error(404, "EntryNotFound", "Entry not found")
        return (self.send_file(model.files[found[3]], model.hash_of(found[3]),
                               {"X-Repo-Commit": model.commit})
                if cached else self.resolve(name, model, found[3]))

    def answer_list(self, path, name, model, blobs):
        fault = self.state.fault(path, {"json"})
        siblings = [entry if blobs else {"rfilename": entry["rfilename"]}
                    for entry in model.entries.values()]
        body = json.dumps({"id": name, "modelId": name, "sha": model.commit,
                           "private": name.startswith("private/"),
                           "gated": "auto" if name.startswith("gated/") else False,
                           "tags": [], "downloads": 0,
                           "siblings": siblings}).encode()
        if fault:
            body = fault["body"].encode()
        self.say(200, {"Content-Type": "application/json"}, body)

    def resolve(self, name, model, file):
        entry = model.entries[file]
        headers = {"X-Repo-Commit": model.commit, "Accept-Ranges": "bytes"}
        if "lfs" in entry:
            digest = model.hash_of(file)
            headers |= {
                "X-Linked-Etag": f'"{digest}"', "ETag": f'"{digest}"',
                "X-Linked-Size": str(entry["size"]),
                "Location": f"{self.state.cdn}/repos/{name}/{digest}"
                            f"?Signature=s3cret&Expires={int(time.time()) + 3600}"}
            code = 302
        else:
            headers["ETag"] = f'"{entry["blobId"]}"'
            headers["X-Linked-Size"] = str(entry["size"])
            headers["Location"] = ("/api/resolve-cache/models/" + name + "/" +
                                   model.commit + "/" +
                                   urllib.parse.quote(file, safe=""))
            code = 307
        fault = self.state.fault(self.path, {"headers"})
        if fault:
            headers |= fault["headers"]
        self.say(code, headers, b"Redirecting")

    # --- bytes ---------------------------------------------------------------

    def answer_cdn(self, path):
        if self.headers.get("Authorization"):
            return self.say_error(400, "", "Only one way to sign is allowed")
        if "Signature=" not in path:
            return self.say_error(403, "", "AccessDenied")
        found = re.fullmatch(r"/repos/([^/]+/[^/]+)/([0-9a-f]{64})\?.*", path)
        for folder in self.state.root.glob(found[1] + "*"):
            model = Model(folder)
            for file, entry in model.entries.items():
                if entry.get("lfs", {}).get("sha256") == found[2]:
                    return self.send_file(model.files[file], found[2], {})
        return self.say_error(404, "", "NoSuchKey")

    def send_file(self, path, tag, headers):
        content = path.read_bytes()
        size, start = len(content), 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and not self.state.fault(self.path, {"whole"}):
            start = int(wanted[1])
            if start >= size:
                return self.say(416, {"Content-Range": f"bytes */{size}"})
        headers = headers | {"ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
        if start:
            headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
        self.send_body(206 if start else 200, headers, content[start:])

    def send_body(self, code, headers, body):
        fault = self.state.fault(self.path, {
            "break", "wrong", "more", "less", "endless", "drip"}) or {"kind": ""}
        kind, told = fault["kind"], len(body)
        if kind == "wrong":
            body = bytes([body[0] ^ 1]) + body[1:]
        if kind in ("more", "less"):
            other = body + b"more" if kind == "more" else body[:-1]
            told = len(other) if fault.get("told") else told
            body = other
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        if kind == "endless" or (kind == "more" and not fault.get("told")):
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(told))
        self.end_headers()
        if kind in ("break", "more", "less", "endless", "drip"):
            self.close_connection = True
        if self.command == "HEAD":
            return
        try:
            self.write_body(kind, fault, body)
        except OSError:
            self.close_connection = True

    def write_body(self, kind, fault, body):
        if kind == "break":
            self.wfile.write(body[:fault["bytes"]])
        elif kind == "drip":
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)
        else:
            self.wfile.write(body)
            while kind == "endless":
                self.wfile.write(bytes(PIECE))


def serve(handler, tls, host):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    scheme = "http"
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"{scheme}://{host}:{server.server_address[1]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--tls", nargs=2)
    arguments = parser.parse_args()
    state = State(arguments.root)
    hub = type("Hub", (Handler,), {"state": state})
    cdn = type("Cdn", (Handler,), {"state": state, "is_cdn": True})
    # Another host, as a CDN has: huggingface_hub looks at names, not at ports.
    state.cdn = serve(cdn, arguments.tls, "localhost")
    state.hub = serve(hub, arguments.tls, "127.0.0.1")
    print(json.dumps({"url": state.hub, "cdn": state.cdn}), flush=True)
    sys.stdin.read()  # ends with whoever started it


if __name__ == "__main__":
    main()
