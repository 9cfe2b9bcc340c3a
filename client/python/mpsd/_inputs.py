# SPDX-License-Identifier: Apache-2.0
"""The files of this machine that a job names, as mpsctl finds them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import posixpath
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Union

from mpsd._errors import Invalid, NotFound

# What `data` of Client.submit may hold for a path of the spec.
Data = Union[str, bytes, "os.PathLike[str]", Iterable[Mapping[str, Any]]]

_CHAT_FILES = ("chat_template.jinja", "tokenizer_config.json",
               "special_tokens_map.json", "added_tokens.json")
_PIECE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Input:
    """A file that the job reads: its path in the spec, and its bytes."""

    path: str
    sha256: str
    size: int
    source: Union[bytes, pathlib.Path]

    def pieces(self, offset: int = 0) -> Iterator[bytes]:
        if isinstance(self.source, bytes):
            for begin in range(offset, len(self.source), _PIECE):
                yield self.source[begin:begin + _PIECE]
            return
        with open(self.source, "rb") as file:
            file.seek(offset)
            while piece := file.read(_PIECE):
                yield piece

    def read(self) -> bytes:
        return b"".join(self.pieces())


def of_bytes(path: str, data: bytes) -> Input:
    return Input(path, hashlib.sha256(data).hexdigest(), len(data), data)


def of_file(path: str, local: pathlib.Path) -> Input:
    digest, size = hashlib.sha256(), 0
    with open(local, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return Input(path, digest.hexdigest(), size, local)


def _rows(path: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    lines: List[str] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise Invalid(f"data['{path}']: row {number} is no mapping: "
                          f"{type(row).__name__}")
        lines.append(json.dumps(row, ensure_ascii=False))
    if not path.endswith((".json", ".jsonl")):
        raise Invalid(f"data['{path}']: rows become JSON Lines: give the path "
                      "a name that ends in .jsonl")
    return ("\n".join(lines) + "\n").encode()


def _strings(value: Any) -> List[str]:
    if isinstance(value, str):
        return [value]
    return [v for v in value or [] if isinstance(v, str)]


class Collector:
    """Gathers the files that a spec names, each once."""

    def __init__(self, spec: Dict[str, Any], base: pathlib.Path,
                 data: Mapping[str, Data]):
        self._spec = spec
        self._base = base
        self._data = dict(data)
        self._inputs: Dict[str, Input] = {}
        self._used: Set[str] = set()

    def run(self) -> List[Input]:
        dataset = self._spec.get("dataset")
        dataset = dataset if isinstance(dataset, dict) else {}
        for field in ("train", "eval", "predict"):
            for path in _strings(dataset.get(field)):
                self._add_data(f"dataset.{field}", path)
        self._add_adapter()
        self._add_chat_template()
        left = sorted(set(self._data) - self._used)
        if left:
            raise Invalid(f"data['{left[0]}']: the spec does not name this "
                          "path; name it in dataset.train, dataset.eval or "
                          "dataset.predict")
        return list(self._inputs.values())

    @property
    def _images(self) -> bool:
        return self._spec.get("task") == "IMAGE_CLS"

    def _local(self, path: str) -> pathlib.Path:
        return self._base / path

    def _add_file(self, path: str, local: pathlib.Path) -> None:
        if path not in self._inputs:
            self._inputs[path] = of_file(path, local)

    def _add_folder(self, path: str, folder: pathlib.Path) -> None:
        for file in sorted(folder.rglob("*")):
            relative = file.relative_to(folder)
            hidden = any(part.startswith(".") for part in relative.parts)
            if not hidden and file.is_file():
                self._add_file(f"{path.rstrip('/')}/{relative.as_posix()}",
                               file)

    def _add_given(self, path: str) -> bool:
        if path not in self._data:
            return False
        self._used.add(path)
        value = self._data[path]
        if isinstance(value, bytes):
            self._inputs[path] = of_bytes(path, value)
        elif isinstance(value, (str, os.PathLike)):
            local = pathlib.Path(value)
            if local.is_dir():
                self._add_folder(path, local)
            elif local.is_file():
                self._add_file(path, local)
            else:
                raise NotFound(f"data['{path}']: there is no file {local}")
        else:
            self._inputs[path] = of_bytes(path, _rows(path, value))
        return True

    def _add_data(self, field: str, path: str) -> None:
        if self._add_given(path):
            return
        local = self._local(path)
        if local.is_file():
            self._add_file(path, local)
            if self._images and local.suffix != ".safetensors":
                self._add_images(path, local)
        elif self._images and local.is_dir():
            self._add_folder(path, local)
        elif not pathlib.PurePath(path).is_absolute() or local.exists():
            raise NotFound(
                f"{field} names '{path}', and there is no file {local}; "
                "relative paths count from the folder of job.json, or from "
                "`base`")

    def _add_images(self, path: str, local: pathlib.Path) -> None:
        column = (self._spec.get("dataset") or {}).get("image_column", "image")
        with open(local, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                image = self._image_of(line, column)
                if image is None or posixpath.isabs(image):
                    continue
                file = local.parent / image
                if not file.is_file():
                    raise NotFound(f"{local}:{number}: there is no image "
                                   f"{file}")
                self._add_file(posixpath.normpath(
                    posixpath.join(posixpath.dirname(path), image)), file)

    @staticmethod
    def _image_of(line: str, column: str) -> Optional[str]:
        try:
            row = json.loads(line)
        except ValueError:
            return None  # the worker names the line
        image = row.get(column) if isinstance(row, dict) else None
        return image if isinstance(image, str) else None

    def _add_adapter(self) -> None:
        path = self._spec.get("adapter")
        if not isinstance(path, str) or not path or path.startswith("job:"):
            return
        if self._add_given(path):
            return
        local = self._local(path)
        if local.is_dir():
            self._add_folder(path, local)
        elif not pathlib.PurePath(path).is_absolute():
            raise NotFound(f"adapter names '{path}', and there is no folder "
                           f"{local}")

    def _add_chat_template(self) -> None:
        training = self._spec.get("training")
        path = (training.get("chat_template_path")
                if isinstance(training, dict) else None)
        if not isinstance(path, str) or not path or self._add_given(path):
            return
        local = self._local(path)
        if local.is_file():
            self._add_file(path, local)
        elif local.is_dir():
            for name in _CHAT_FILES:
                if (local / name).is_file():
                    self._add_file(f"{path.rstrip('/')}/{name}", local / name)
        elif not pathlib.PurePath(path).is_absolute():
            raise NotFound(f"training.chat_template_path names '{path}', and "
                           f"there is no {local}")
