# SPDX-License-Identifier: Apache-2.0
"""Negative controls of linkage.py: made-up output of the tools, and the real
programs held against each other's rule."""

import os
import pathlib
import unittest

import linkage

CLEAN = "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"


class LinkageTest(unittest.TestCase):
    def judge(self, libraries, symbols, rule):
        return "\n".join(linkage.judge("p", libraries, symbols, rule))

    def test_clean(self):
        self.assertEqual("", self.judge(
            CLEAN, "0 T mpsd::train::Run()\n", linkage.RPC))
        self.assertEqual("", self.judge(
            CLEAN, "0 T mpsd::format::that()\n", linkage.TORCH))

    def test_shared_libraries(self):
        for name in ("libtorch_cpu.so", "libc10.so", "@rpath/libtorch.dylib"):
            self.assertIn("p links libtorch", self.judge(
                CLEAN + f"\t{name} => /x/y (0x2)\n", "", linkage.TORCH))
        for name in ("libgrpc++.so.1.51", "libprotobuf.so.32",
                     "libspdlog.so.1.10", "/opt/lib/libgrpc.33.dylib"):
            self.assertIn("p links gRPC", self.judge(
                CLEAN + f"\t{name} => /x/y (0x2)\n", "", linkage.RPC))

    def test_the_place_of_a_library_does_not_count(self):
        self.assertEqual("", self.judge(
            "\tlibz.so.1 => /opt/libtorch.so/libz.so.1 (0x1)\n", "",
            linkage.TORCH))

    def test_code_linked_in(self):
        for symbol in ("U c10::Error::what() const", "T at::add(at::Tensor)",
                       "V vtable for torch::nn::Module"):
            self.assertIn("p holds 1 symbols of libtorch", self.judge(
                "", f"0 {symbol}\n", linkage.TORCH))
        for symbol in ("T grpc::Server::Wait()", "U spdlog::get(char)",
                       "T google::protobuf::Message::Clear()"):
            self.assertIn("p holds 1 symbols of gRPC", self.judge(
                "", f"0 {symbol}\n", linkage.RPC))

    def test_missing_programs(self):
        self.assertIn("is not built", "\n".join(linkage.check("/nowhere")))

    def test_each_program_breaks_the_others_rule(self):
        bin_dir = pathlib.Path(os.environ["MPSD_BIN_DIR"])
        for name, rule in (("mpsd", linkage.RPC), ("mpsctl", linkage.RPC),
                           ("mpsd-worker", linkage.TORCH)):
            program = bin_dir / name
            found = linkage.judge(name, linkage.libraries(program),
                                  linkage.symbols(program), rule)
            self.assertEqual(2, len(found[:2]), f"{name}: {found}")
            self.assertTrue(any(" links " in f for f in found), found)
            self.assertTrue(any(" holds " in f for f in found), found)


if __name__ == "__main__":
    unittest.main()
