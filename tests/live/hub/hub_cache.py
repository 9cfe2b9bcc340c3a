# SPDX-License-Identifier: Apache-2.0
"""hub_cache.py BIN: what `mpsctl model pull` leaves in a cache is what
huggingface_hub leaves there, and Transformers loads it. Both ask the hub of
tests/fakes/fake_hub.py, which thereby is held to the real client, too."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/e2e"))


def tree(folder):
    """{path: the link's target, or the bytes}, without what is on its way."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        elif path.is_file() and not name.startswith(".locks/"):
            found[name] = path.read_bytes()
    # The client's own marker.
    found.pop("CACHEDIR.TAG", None)
    return found


def check(condition, what):
    print(("ok    " if condition else "WRONG ") + what, flush=True)
    if not condition:
        sys.exit(1)


def raises(kind, call):
    try:
        call()
    except kind:
        return True
    return False


def main():
    os.environ["MPSD_BIN_DIR"] = sys.argv[1]
    import harness

    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsdhub"))
    models = folder / "models"
    for name in ("org/tiny", "gated/tiny", "private/tiny"):
        harness.write_model(models / name)
        (models / name / "README.md").write_text("words\n")
    hub = subprocess.Popen(
        [sys.executable, "-B", str(ROOT / "tests/fakes/fake_hub.py"),
         str(models)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = json.loads(hub.stdout.readline())["url"]
    os.environ["HF_ENDPOINT"] = url
    os.environ["HF_HUB_CACHE"] = str(folder / "theirs")
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    import huggingface_hub
    from huggingface_hub import errors

    files = [p.name for p in (models / "org/tiny").iterdir()
             if p.name != "README.md"]
    for file in files:
        huggingface_hub.hf_hub_download("org/tiny", file)
    for name, kind, more in (
            ("gated/tiny", errors.GatedRepoError, {}),
            ("private/tiny", errors.RepositoryNotFoundError, {}),
            ("org/none", errors.RepositoryNotFoundError, {}),
            ("org/tiny", errors.RevisionNotFoundError, {"revision": "v9"})):
        check(raises(kind, lambda: huggingface_hub.hf_hub_download(
            name, "config.json", **more)), f"{name} is {kind.__name__}")
    check(bool(huggingface_hub.hf_hub_download(
        "gated/tiny", "config.json", token="hf_member")), "a member has it")

    ours = folder / "ours"
    daemon = harness.Daemon(folder / "state", "--hub", url,
                            "--hub-allow-private",
                            env={"HF_HUB_CACHE": str(ours)}).start()
    try:
        pulled = daemon.ctl("model", "pull", "org/tiny")
        check(pulled.returncode == 0, "mpsd pulls: " + pulled.stderr)
    finally:
        daemon.close()
    theirs = {name: content for name, content in
              tree(folder / "theirs").items()
              if name.startswith("models--org--tiny/")}
    check(tree(ours) == theirs, f"the caches are one, {len(theirs)} entries")
    for lock in (ours / ".locks/models--org--tiny").iterdir():
        check((folder / "theirs/.locks/models--org--tiny" /
               lock.name).exists(), f"the lock {lock.name[:12]}… is theirs")
    scan = huggingface_hub.scan_cache_dir(ours)
    check(not scan.warnings and len(scan.repos) == 1,
          f"huggingface_hub reads the cache: {scan.warnings}")
    hub.stdin.close()
    hub.wait()
    # Without a network, in a process that reads its variables anew.
    loaded = subprocess.run(
        [sys.executable, "-c",
         "import transformers as t; "
         "t.AutoModelForCausalLM.from_pretrained('org/tiny'); "
         "t.AutoTokenizer.from_pretrained('org/tiny')"],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(ours)},
        capture_output=True, text=True, check=False)
    check(loaded.returncode == 0,
          "Transformers loads model and tokenizer: " + loaded.stderr[-300:])
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
