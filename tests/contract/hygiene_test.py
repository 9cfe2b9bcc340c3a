# SPDX-License-Identifier: Apache-2.0
"""Negative controls of hygiene.py. What must be found is spelled in two
halves, so that this file itself is clean."""

import unittest

import hygiene
import source_tree


class HygieneTest(source_tree.TreeTest):
    check = staticmethod(hygiene.check)

    def assert_line(self, expected, *halves):
        self.assert_finds("a.txt:1: " + expected, {"a.txt": "".join(halves)
                                                   + "\n"})

    def test_clean(self):
        self.assert_clean({
            "a.txt": "See https://github.com/huggingface/peft for more.\n"
                     "http://127.0.0.1:9464/metrics\n"
                     "~/.local/state/mpsd, $HOME/Library, /var/lib/mpsd\n"
                     "core/work/x\n",
            "b.json": "{}"})

    def test_hosts(self):
        for halves in (("index-url https://py", "pi.org/simple"),
                       ("files.python", "hosted.org"),
                       ("https://registry.npm", "js.org/x"),
                       ("index.crates", ".io"), ("sh.rust", "up.rs"),
                       ("download.py", "torch.org/whl/cpu")):
            self.assert_line("names a package host", *halves)

    def test_downloads(self):
        for halves in (("https://example.org/", "a.tar.gz"),
                       ("https://example.org/install", ".sh"),
                       ("https://raw.github", "usercontent.com/a/b"),
                       ("https://github.com/a/b/rel", "eases/download/v1/c")):
            self.assert_line("addresses a download", *halves)

    def test_homes(self):
        for halves in (("/ho", "me/ann/x"), ("/Use", "rs/ann"),
                       ("/ro", "ot/x"), ("/wo", "rk/main")):
            self.assert_line("names a folder of one machine", *halves)

    def test_secrets(self):
        self.assert_line("holds a secret", "-----BEGIN RSA PRI", "VATE KEY-----")
        self.assert_line("holds a secret", "AKIA", "ABCDEFGHIJKLMNOP")

    def test_merge(self):
        self.assert_line("holds a merge conflict", "<<<<", "<<< HEAD")

    def test_line_ends(self):
        self.assertIn("lines end in CR LF", "\n".join(
            hygiene.text_problems("a.txt", "x\r\n")))
        self.assert_line("space at the end", "x ")
        self.assert_finds("no line break at the end", {"a.txt": "x"})

    def test_comments(self):
        for word in ("Of", "There", "And", "Likewise"):
            for code in (f"// {word} the thread.", f"  /// {word}.",
                         f"int a;  // {word} the owner"):
                for path in ("core/a/b.h", "server/a.cc", "client/a.cc",
                             "core/text/crate/src/a.rs", "core/a/b.mm"):
                    self.assert_finds(
                        f"{path}:2: a comment begins with \"{word}\"",
                        {path: f"int b;\n{code}\n"})

    def test_comments_that_are_sentences(self):
        self.assert_clean({
            "core/a.h": "// Offsets of the parts, one a row.\n"
                        "// There and Of begin lines of a block only.\n"
                        "int a;  // of a row, therefore an int\n"
                        "auto b = \"x // Of a text\";\n",
            "tests/core/a.cc": "// Of a test.\n",
            "core/a.py": "// Of another language.\n"})

    def test_size(self):
        self.assert_finds("a.bin: 1048577 bytes",
                          {"a.bin": "x" * ((1 << 20) + 1)})

    def test_leavings(self):
        self.assert_finds("a.orig: is no source", {"a.orig": ""})


if __name__ == "__main__":
    unittest.main()
