# SPDX-License-Identifier: Apache-2.0
"""What a header demands of its callers is checked: a comment that says "must",
"at most once", "exactly once", "once" of a call, or nothing but "after X" or
"before the first X", has a base::Check in the header or in its .cc; as many
checks as demands.

Not demands are sentences about lifetimes ("must outlive", "must live as long")
and threads ("must not block", "must not throw", "must not be called with a
lock held"), which no expression can tell; sentences that name the status with
which a user's mistake is answered; and "must" behind "what", "whether", "who",
which describes. What else is none stands below, with its reason."""

import re

import source_tree

ROOMS = r"(core|server|client)/.*\.h$"
CHECK = re.compile(r"\bCheck(?:Equal|Less|AtMost|Index)?\(")

NAME = r"`?[A-Z][a-z]\w*(?:\(\))?`?"
DEMANDS = [
    re.compile(r"\bmust\b", re.I),
    re.compile(r"\b(?:at most|exactly) once\b", re.I),
    # A sentence, or the end of one, that is this word: "Waited for. Once."
    re.compile(r"(?:^|[;,] )once$", re.I),
    re.compile(r"^(?:[Oo]nly )?(?:[Aa]fter|[Bb]efore) "
               rf"(?:the (?:first|last) )?{NAME}$"),
    re.compile(rf"\b(?:before the first|after the last) {NAME}"),
]
# Words that demand nothing, and sentences.
IDLE_WORDS = re.compile(
    r"\bmust (?:not )?(?:outlive|live)\b"
    r"|\bmust not (?:block|throw|be called with a lock)\b"
    r"|\b(?:what|whether|who)\b[^,;:]*\bmust\b", re.I)
ANSWERED = re.compile(
    r"\b(?:InvalidArgument|NotFound|FailedPrecondition|Unimplemented"
    r"|Unavailable|PermissionDenied)\b")

# Interfaces: the files that implement what they demand, or call, and check it.
CHECKED_IN = {
    "core/wire/messages.h": ["server/supervisor/worker_session.cc"],
    "server/jobs/blob_store.h": ["server/store/blob_store.cc",
                                 "server/store/blob_batch.cc"],
    "server/jobs/worker_launcher.h": ["server/jobs/scheduler_device.cc"],
}

# (header, words of the sentence): why it demands nothing that can be checked.
EXEMPT = {
    ("client/connection.h", "Calls in progress must have ended"):
        "gRPC's calls hold their channel themselves and are not counted here",
    ("core/base/read_roots.h", "must contain the file too"):
        "a file of a job: a status answers it",
    ("core/base/small_file.h", "it must be a regular one"):
        "a file of a job: a status answers it",
    ("core/base/work_count.h", "A piece must end in itself"):
        "that a loop ends cannot be computed",
    ("core/host/device_error.h", "all must occur"):
        "what a row of the table means, not what a caller does",
    ("core/host/environment.h", "so they must be there when the process"):
        "torch reads them before any code of ours runs",
    ("core/data/prefetch.h", "the source must bear calls from another"):
        "whether a class is thread-safe cannot be computed",
    ("core/data/labelled_table.h", "pairs there must be pairs here"):
        "a user's file: a status answers it",
    ("core/lora/peft_folder.h", "must be off"):
        "a user's file: a status answers it",
    ("core/lora/peft_folder.h", "which must exist"):
        "the file system's matter: a status answers it",
    ("core/model/vit.h", "Images must be of the config's image_size"):
        "torch's exception, as the sentence says",
    ("core/model/weight_reader.h", "A weight that must be there"):
        "a user's file: a status answers it",
    ("core/spec/memory_estimate.h", "model.num_labels must be set"):
        "mpsd asks with the model's config.json, a user's file",
    ("core/spec/model_config.h", "which must be there"):
        "a user's file: a status answers it",
    ("core/spec/train_spec.h", "a gain must be more than this"):
        "what a field of job.json means",
    ("core/text/training_template.h", "stands there exactly once"):
        "a user's template: where it is not so nothing is edited",
    ("server/jobs/ballast.h", "its row must go first"):
        "why there is a ballast",
    ("server/jobs/list_filter.h", "all must match"):
        "what a filter means",
    ("server/log.h", "The state folder must exist"):
        "the file system's matter: a status answers it",
}


def comments(text):
    """(line, text) of each comment: lines of // that follow each other are
    one, a comment behind code stands alone."""
    block, start = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        whole = re.match(r"\s*//\s?(.*)", line)
        if whole:
            start = start if block else number
            block.append(whole.group(1).strip())
            continue
        if block:
            yield start, " ".join(block)
            block = []
        behind = re.search(r"\S.*?//\s?(.*)", line)
        if behind and '"' not in line:
            yield number, behind.group(1).strip()


def sentences(comment):
    for sentence in re.split(r"(?<=[\w)`\"])\.(?:\s+|$)", comment):
        if sentence.strip():
            yield sentence.strip()


def demands(text):
    """(line of the comment, sentence) of what a header demands."""
    for number, comment in comments(text):
        for sentence in sentences(comment):
            if ANSWERED.search(sentence):
                continue
            said = IDLE_WORDS.sub("", sentence)
            if any(pattern.search(said) for pattern in DEMANDS):
                yield number, sentence


def uncommented(text):
    return re.sub(r"//[^\n]*", "", text)


def checks_for(root, header):
    """The base::Checks of a header and of the source that keeps it."""
    count = 0
    for path in [header, re.sub(r"\.h$", ".cc", header),
                 *CHECKED_IN.get(header, [])]:
        if (root / path).is_file():
            code = uncommented(source_tree.read(root, path))
            count += len(CHECK.findall(code))
    return count


def exemption(header, sentence):
    for path, words in EXEMPT:
        if path == header and words in sentence:
            return path, words
    return None


def header_problems(root, path, used):
    found = []
    for number, sentence in demands(source_tree.read(root, path)):
        exempt = exemption(path, sentence)
        if exempt is None:
            found.append((number, sentence))
        else:
            used.add(exempt)
    if len(found) > checks_for(root, path):
        for number, sentence in found:
            yield (f"{path}:{number}: \"{sentence}\" has no base::Check, here "
                   f"or in its .cc")


def check(root):
    problems, used = [], set()
    headers = [path for path in source_tree.files(root)
               if re.match(ROOMS, path)]
    for path in headers:
        problems += header_problems(root, path, used)
    for path, words in sorted(set(EXEMPT) - used):
        if path in headers:
            problems.append(f"{path}: checks.py exempts \"{words}\", which is "
                            f"no demand there")
    return problems


if __name__ == "__main__":
    source_tree.main(check)
