# SPDX-License-Identifier: Apache-2.0
"""What no committed file holds: hosts that serve packages and addresses of
downloads (a mirror or an offline machine must be able to take their place),
folders of one machine, secrets, leavings of an editor or a merge."""

import re

import source_tree

LARGEST_BYTES = 1 << 20

HOSTS = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|registry\.npmjs\.org|npmjs\.com|"
    r"crates\.io|static\.rust-lang\.org|rustup\.rs|deb\.debian\.org|"
    r"archive\.ubuntu\.com|download\.pytorch\.org|anaconda\.org|"
    r"proxy\.golang\.org|formulae\.brew\.sh|ghcr\.io|docker\.io|"
    r"cdn-lfs\.|hf\.co)\b", re.I)
DOWNLOAD = re.compile(
    r"https?://[^\s\"'<>)`]+\.(?:tar\.\w+|tgz|whl|zip|deb|dmg|pkg|sh|gguf|"
    r"safetensors|bin|crate)\b|raw\.githubusercontent\.com|"
    r"github\.com/[^\s\"']+/(?:releases/download|archive|raw)/", re.I)
HOME = re.compile(r"(?<![\w.$}])/(?:home|Users)/(?!u\b|user\b)[a-z]\w*|"
                  r"(?<![\w.$}/])/(?:root|work)/\w")
SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_\w{36}|"
    r"\bhf_[A-Za-z]{34}\b")
MERGE = re.compile(r"^(?:<{7} |>{7} |={7}$)", re.M)

RULES = [(HOSTS, "names a package host"), (DOWNLOAD, "addresses a download"),
         (HOME, "names a folder of one machine"), (SECRET, "holds a secret"),
         (MERGE, "holds a merge conflict")]


def text_problems(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in RULES:
            match = pattern.search(line)
            if match:
                yield f"{path}:{number}: {what}: {match.group()}"
        if line != line.rstrip() and not path.endswith((".md", ".json")):
            yield f"{path}:{number}: space at the end of the line"
    if "\r\n" in text:
        yield f"{path}: lines end in CR LF"
    if text and not text.endswith("\n") and not path.endswith(".json"):
        yield f"{path}: no line break at the end"


def check(root):
    problems = []
    for path in source_tree.files(root):
        size = (root / path).stat().st_size
        if size > LARGEST_BYTES:
            problems.append(f"{path}: {size} bytes, at most {LARGEST_BYTES}")
            continue
        if re.search(r"\.(orig|rej|swp|pyc|o|a|so|dylib|DS_Store)$", path):
            problems.append(f"{path}: is no source")
        text = source_tree.read(root, path)
        if text is not None:
            problems += text_problems(path, text)
    return problems


if __name__ == "__main__":
    source_tree.main(check)
