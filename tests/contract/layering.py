# SPDX-License-Identifier: Apache-2.0
"""Holds every #include against the dependencies that CMake declares.

The diagram is core/CMakeLists.txt, server/CMakeLists.txt and
client/CMakeLists.txt themselves: the DEPS of mpsd_room() and
mpsd_torch_room(), and target_link_libraries() of the targets made by hand.
What a room may include is what its targets reach, directly or through others.
"""

import re

import source_tree

# Includes that belong to a library, and the targets one of which brings it.
LIBRARIES = [
    (r"torch/|ATen/|c10/|caffe2/", {"mpsd_torch"}),
    (r"grpc/|grpcpp/|grpc\+\+/", {"mpsd_proto", "gRPC::grpc++"}),
    (r"google/protobuf/|mpsd/v1/", {"mpsd_proto"}),
    (r"spdlog/", {"spdlog::spdlog"}),
    (r"SQLiteCpp/|sqlite3", {"SQLiteCpp"}),
    (r"prometheus/", {"prometheus-cpp::core"}),
    (r"zlib\.h", {"ZLIB::ZLIB"}),
    (r"nlohmann/", {"nlohmann_json::nlohmann_json"}),
    (r"CLI/", {"CLI11::CLI11"}),
    (r"openssl/", {"OpenSSL::Crypto"}),
    (r"png\.h", {"PNG::PNG"}),
    (r"jpeglib\.h|jerror\.h", {"JPEG::JPEG"}),
    (r"webp/", {"WebP::webp"}),
]

# Code that one place alone may hold: what, where to look, who may, the reason.
RESERVED = [
    (r"getMPSHooks|getCUDAHooks|getAccelerator|cudaMemGetInfo|cuda_runtime"
     r"|\b(?:torch|at|c10)::(?:mps|cuda)\b|ATen/(?:mps|cuda)|c10/cuda"
     r"|\bk(?:MPS|CUDA)\b|DeviceType::(?:MPS|CUDA)|\bis_(?:mps|cuda)\(",
     r"(core|server|client)/", r"core/device/",
     "only core/device names a backend"),
    (r"\bis_(?:cpu|cuda|mps)\(|\b\w*Choice::k(?:Cpu|Cuda|Mps)\b"
     r"|(?:[=!]=|\bcase)\s*(?:\w+::)*k(?:CPU|CUDA|MPS|Cpu|Cuda|Mps)\b"
     r"|\bk(?:CPU|CUDA|MPS|Cpu|Cuda|Mps)\s*[=!]="
     r"|[=!]=\s*\"(?:cpu|cuda|mps)\"|\"(?:cpu|cuda|mps)\"\s*[=!]=",
     r"(core|server|client)/", r"core/(?:host/traits|device/)",
     "a branch asks backend::Traits for the reason, not which device it is"),
    (r"catch\s*\(\s*(?:const\s+)?(?:c10|torch|at)::\w*Error",
     r"(core|server|client)/", r"core/worker/",
     "only core/worker catches c10::Error"),
    (r"#include\s*[<\"](?:SQLiteCpp/|sqlite3)", r"(core|server|client)/",
     r"server/store/", "only server/store knows the database"),
    (r"grpc::Status\s*[({]|grpc::StatusCode::", r"server/",
     r"server/rpc/convert\.(h|cc)$",
     "only server/rpc/convert.cc makes a grpc::Status"),
    (r"(?<![\w.>:])(?:::)?open\s*\(|\bstd::ifstream\b"
     r"|\bfopen\s*\([^;]*\"r",
     r"core/", r"core/base/|core/(?:host|device)/\w+_linux\.cc"
     r"|core/host/linux_files\.cc|core/ckpt/safetensors_writer\.cc",
     "what a job reads is opened by core/base, which holds it to its folders"),
    (r"\b(?:fork|vfork)\s*\(\s*\)", r"(core|server|client)/", r"(?!)",
     "a child is started with posix_spawn, never fork"),
    (r"\b\w*(?:Await|Wait|LockWhen|Notification)With(?:Timeout|Deadline)\b"
     r"|\bstd::condition_variable\b|\b(?:sleep|wait)_until\b"
     r"|\btry_(?:lock|acquire)(?:_shared)?_(?:for|until)\b|\bclock_nanosleep\b"
     r"|\b(?:sig|sem_|pthread_\w+_|mq_)timed\w+\b",
     r"(core|server|client)/", r"core/base/monitor\.h$",
     "a wait with a limit is base::Monitor's: a clock set back must not "
     "lengthen it"),
]

# Libraries that must not be reachable at all from targets of a kind.
FORBIDDEN = [
    (r"mpsd_core_|mpsd-worker$", {"mpsd_proto", "gRPC::grpc++", "spdlog::spdlog",
                     "SQLiteCpp", "prometheus-cpp::core"}),
    (r"mpsd_server_|mpsd_client$|mpsd$|mpsctl$", {"mpsd_torch"}),
    (r"mpsd_server_|mpsd$",
     {"mpsd_client", "mpsd_client_text", "mpsd_client_daemons"}),
    (r"mpsd_server_(?!rpc|http|daemon)", {"mpsd_proto", "gRPC::grpc++"}),
]


def uncommented(text):
    """C++ without its comments; strings stay."""
    pattern = (r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'|"
               r"//[^\n]*|/\*.*?\*/")
    return re.sub(pattern,
                  lambda m: m.group() if m.group()[0] in "\"'" else " ",
                  text, flags=re.S)


def parse_graph(root):
    """{target: names it is linked with} out of the CMake files."""
    graph = {}
    for path in source_tree.files(root):
        if not re.match(r"(core|server|client)/.*(CMakeLists\.txt|\.cmake)$",
                        path):
            continue
        text = re.sub(r"#[^\n]*", "", source_tree.read(root, path))
        for area, room, deps in re.findall(
                r"mpsd_room\(\s*(\w+)\s+(\w+)\s+(?:HEADERS\s+\w+\s+)?"
                r"DEPS([^)]*)\)", text):
            graph.setdefault(f"mpsd_{area}_{room}", set()).update(deps.split())
        for room, deps in re.findall(
                r"mpsd_torch_room\(\s*(\w+)\s+DEPS([^)]*)\)", text):
            graph.setdefault(f"mpsd_core_{room}", set()).update(deps.split())
        for target, deps in re.findall(
                r"target_link_libraries\(\s*([\w-]+)([^)]*)\)", text):
            graph.setdefault(target, set()).update(
                set(deps.split()) - {"PUBLIC", "PRIVATE", "INTERFACE"})
    return graph


def reach(graph, target):
    seen, todo = set(), [target]
    while todo:
        for name in graph.get(todo.pop(), ()):
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


PROGRAMS = {"core/worker/main.cc": "mpsd-worker", "server/main.cc": "mpsd",
            "client/main.cc": "mpsctl"}


def target_of(path):
    if path in PROGRAMS:
        return PROGRAMS[path]
    parts = path.split("/")
    if parts[0] == "client" and len(parts) == 2:
        return "mpsd_client"
    if parts[0] == "server" and len(parts) == 2:
        return "mpsd_server_daemon"
    return f"mpsd_{parts[0]}_{parts[1]}"


def include_problem(include, target, reached):
    if re.match(r"(core|server|client)/", include):
        if target_of(include) in reached | {target}:
            return None
        return f"{target} does not depend on {target_of(include)}"
    for pattern, bringers in LIBRARIES:
        if re.match(pattern, include) and not bringers & reached:
            return f"{target} does not depend on {' or '.join(sorted(bringers))}"
    return None


def check_graph(graph):
    problems = []
    for target in sorted(graph):
        reached = reach(graph, target)
        if target in reached:
            problems.append(f"CMake: {target} depends on itself")
        for kind, forbidden in FORBIDDEN:
            for name in sorted(forbidden & reached):
                if re.match(kind, target):
                    problems.append(f"CMake: {target} must not reach {name}")
        if "mpsd_core_worker" in reached and target != "mpsd-worker":
            problems.append(f"CMake: {target}: only the program depends on the worker")
    return problems


def check(root):
    graph = parse_graph(root)
    problems = check_graph(graph)
    for path in source_tree.files(root):
        if not re.match(r"(core|server|client)/.*\.(h|cc|mm)$", path):
            continue
        target = target_of(path)
        if target not in graph:
            problems.append(f"{path}: no CMake target {target}")
            continue
        text = uncommented(source_tree.read(root, path))
        reached = reach(graph, target)
        for include in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', text,
                                  re.M):
            problem = include_problem(include, target, reached)
            if problem:
                problems.append(f"{path}: includes {include}: {problem}")
        for pattern, where, allowed, reason in RESERVED:
            if not re.match(where, path) or re.match(allowed, path):
                continue
            for match in re.finditer(pattern, text):
                problems.append(f"{path}: '{match.group()}': {reason}")
    return problems


if __name__ == "__main__":
    source_tree.main(check)
