# SPDX-License-Identifier: Apache-2.0
"""Negative controls of layering.py."""

import unittest

import layering
import source_tree

TREE = {
    "core/CMakeLists.txt": """
        mpsd_room(core base DEPS absl::status OpenSSL::Crypto)
        mpsd_room(core spec DEPS mpsd_core_base nlohmann_json::nlohmann_json)
        mpsd_torch_room(device DEPS mpsd_core_base mpsd_torch)
        mpsd_torch_room(model DEPS mpsd_core_device mpsd_core_spec mpsd_torch)
        mpsd_torch_room(worker DEPS mpsd_core_model)
        target_link_libraries(mpsd-worker PRIVATE mpsd_core_worker CLI11::CLI11)
    """,
    "server/CMakeLists.txt": """
        mpsd_room(server jobs DEPS mpsd_core_spec)
        mpsd_room(server store DEPS mpsd_server_jobs SQLiteCpp)
        mpsd_room(server rpc DEPS mpsd_server_jobs mpsd_proto)
        target_link_libraries(mpsd_server_daemon PUBLIC mpsd_server_store
                              mpsd_server_rpc spdlog::spdlog)
    """,
    "client/CMakeLists.txt": """
        target_link_libraries(mpsd_client PUBLIC mpsd_proto mpsd_core_spec)
    """,
    "core/base/file.h": "",
    "core/spec/spec.cc": '#include "core/base/file.h"\n',
    "core/model/net.cc": '#include <ATen/ATen.h>\n'
                         '#include "core/base/file.h"\n',
    "core/device/mps.cc": "at::detail::getMPSHooks();\n",
    "core/worker/main.cc": "#include <CLI/CLI.hpp>\n",
    "core/worker/session.cc": "catch (const c10::Error& e) {}\n",
    "server/store/db.cc": "#include <SQLiteCpp/SQLiteCpp.h>\n",
    "server/rpc/status.cc": "return grpc::Status(code, message);\n",
    "server/daemon.cc": '#include "server/rpc/s.h"\n'
                        '#include <spdlog/spdlog.h>\n',
    "client/app.cc": '#include "mpsd/v1/jobs.pb.h"\n',
}


class LayeringTest(source_tree.TreeTest):
    check = staticmethod(layering.check)

    def with_file(self, path, text):
        return {**TREE, path: text}

    def with_cmake(self, path, text):
        return {**TREE, path: TREE[path] + text}

    def test_clean(self):
        self.assert_clean(TREE)

    def test_upward_include(self):
        self.assert_finds(
            "core/base/a.cc: includes core/spec/s.h: mpsd_core_base does not "
            "depend on mpsd_core_spec",
            self.with_file("core/base/a.cc", '#include "core/spec/s.h"\n'))

    def test_sibling_include(self):
        self.assert_finds(
            "mpsd_server_rpc does not depend on mpsd_server_store",
            self.with_file("server/rpc/a.h", '#include "server/store/db.h"\n'))

    def test_jobs_and_proto(self):
        self.assert_finds(
            "mpsd_server_jobs does not depend on mpsd_proto",
            self.with_file("server/jobs/a.h",
                           '#include "mpsd/v1/jobs.pb.h"\n'))

    def test_torch_in_the_daemon(self):
        self.assert_finds(
            "does not depend on mpsd_torch",
            self.with_file("server/a.cc", "#include <torch/torch.h>\n"))

    def test_library_of_another_room(self):
        for library, target in (("nlohmann/json.hpp", "nlohmann_json"),
                                ("spdlog/spdlog.h", "spdlog::spdlog"),
                                ("prometheus/gauge.h", "prometheus-cpp"),
                                ("zlib.h", "ZLIB::ZLIB"),
                                ("google/protobuf/message.h", "mpsd_proto"),
                                ("grpcpp/grpcpp.h", "gRPC::grpc++")):
            self.assert_finds(target, self.with_file(
                "core/base/a.cc", f"#include <{library}>\n"))

    def test_a_program_and_its_room(self):
        self.assert_finds(
            "mpsd_core_worker does not depend on CLI11::CLI11",
            self.with_file("core/worker/a.cc", "#include <CLI/CLI.hpp>\n"))
        self.assert_finds(
            "mpsd-worker must not reach spdlog::spdlog",
            self.with_cmake("core/CMakeLists.txt", "target_link_libraries("
                            "mpsd-worker PRIVATE spdlog::spdlog)"))

    def test_server_in_client(self):
        self.assert_finds(
            "mpsd_client does not depend on mpsd_server_jobs",
            self.with_file("client/a.cc", '#include "server/jobs/job.h"\n'))

    def test_unknown_room(self):
        self.assert_finds("no CMake target mpsd_core_attic",
                          self.with_file("core/attic/a.cc", ""))

    def test_comment_is_no_include(self):
        self.assert_clean(self.with_file(
            "core/base/a.cc", '// #include "core/spec/s.h"\n/* at::mps */\n'))

    def test_backend_outside_device(self):
        for code in ("getMPSHooks()", "torch::mps::synchronize()",
                     "cudaMemGetInfo(&a, &b)", "at::kMPS", "t.is_cuda()"):
            self.assert_finds("only core/device names a backend",
                              self.with_file("core/model/a.cc", code + ";\n"))

    def test_branch_on_a_device(self):
        for code in ("if (x.is_cpu()) return", "case Kind::kMps:",
                     "if (device.kind() == device::Kind::kCuda) {",
                     "spec.device != DeviceChoice::kCpu",
                     "x.device() == at::kCPU", "at::kCPU != x.device()",
                     "TraitsOf(backend::Choice::kMps)",
                     'if (name == "mps") return', '"cuda" == device.name()'):
            for room in ("core/model", "server/jobs"):
                self.assert_finds("asks backend::Traits for the reason",
                                  self.with_file(f"{room}/a.cc", code + ";\n"))
            self.assert_clean(self.with_file("core/device/a.cc", code + ";\n"))
        for code in ("weights.to(at::kCPU)", 'job["device"] = "mps"',
                     "choice == Choice::kAuto", "traits.encodes_lazily",
                     "// where x.is_cpu()"):
            self.assert_clean(self.with_file("core/model/a.cc", code + ";\n"))

    def test_catch_outside_worker(self):
        self.assert_finds(
            "only core/worker catches c10::Error",
            self.with_file("core/model/a.cc",
                           "try {} catch (const c10::Error& e) {}\n"))

    def test_status_outside_its_converter(self):
        for code in ("grpc::Status(code, text)", "grpc::Status{code, text}",
                     "grpc::StatusCode::NOT_FOUND"):
            self.assert_finds("only server/rpc/status.cc makes",
                              self.with_file("server/rpc/a.cc", code + ";\n"))

    def test_file_opened_elsewhere(self):
        for code in ("const int fd = open(path, O_RDONLY)",
                     "fd = ::open(path, 0)", "std::ifstream file(path)",
                     'fopen(path, "rb")'):
            self.assert_finds("opened by core/base", self.with_file(
                "core/spec/a.cc", code + ";\n"))
        for code in ("auto file = SafetensorsFile::Open(path)",
                     "is_open(path)", 'fopen(path, "ae")', "file.open(path)"):
            self.assert_clean(self.with_file("core/spec/a.cc", code + ";\n"))

    def test_fork(self):
        self.assert_finds("never fork", self.with_file(
            "server/jobs/a.cc", "pid = fork();\n"))

    def test_database_outside_store(self):
        self.assert_finds(
            "only server/store knows the database",
            self.with_file("server/daemon.cc", "#include <sqlite3.h>\n"))

    def test_edge_core_to_grpc(self):
        self.assert_finds(
            "mpsd_core_model must not reach mpsd_proto",
            self.with_cmake("core/CMakeLists.txt",
                            "mpsd_room(core spec DEPS mpsd_proto)"))

    def test_edge_server_to_torch(self):
        self.assert_finds(
            "mpsd_server_rpc must not reach mpsd_torch",
            self.with_cmake("server/CMakeLists.txt",
                            "mpsd_room(server rpc DEPS mpsd_core_model)"))

    def test_edge_between_siblings(self):
        self.assert_finds(
            "mpsd_server_rpc knows its sibling mpsd_server_store",
            self.with_cmake("server/CMakeLists.txt",
                            "mpsd_room(server rpc DEPS mpsd_server_store)"))

    def test_edge_to_worker(self):
        self.assert_finds(
            "nobody depends on the worker",
            self.with_cmake("core/CMakeLists.txt",
                            "mpsd_room(core lora DEPS mpsd_core_worker)"))

    def test_cycle(self):
        self.assert_finds(
            "mpsd_core_base depends on itself",
            self.with_cmake("core/CMakeLists.txt",
                            "mpsd_room(core base DEPS mpsd_core_spec)"))


if __name__ == "__main__":
    unittest.main()
