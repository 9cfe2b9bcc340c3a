// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_HUB_FAKE_HUB_H_
#define MPSD_TESTS_SERVER_HUB_FAKE_HUB_H_

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/fetch/client.h"

namespace mpsd::hub {

// tests/fakes/fake_hub.py as a process, over a folder of models of its own.
class FakeHub {
 public:
  using Json = nlohmann::json;

  explicit FakeHub(std::filesystem::path root) : root_(std::move(root)) {
    std::filesystem::create_directories(root_);
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) std::abort();
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    fcntl(out[0], F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::string program = "python3", bytes = "-B", folder = root_.string();
    std::string script = MPSD_TEST_SOURCE_DIR "/tests/fakes/fake_hub.py";
    char* argv[] = {program.data(), bytes.data(), script.data(), folder.data(),
                    nullptr};
    if (posix_spawnp(&process_, "python3", &actions, nullptr, argv, environ) !=
        0) {
      std::abort();
    }
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    std::string line;
    char byte = 0;
    while (read(out[0], &byte, 1) == 1 && byte != '\n') line += byte;
    close(out[0]);
    const Json places = Json::parse(line);
    url_ = places["url"];
    cdn_ = places["cdn"];
  }
  ~FakeHub() {
    close(input_);
    waitpid(process_, nullptr, 0);
  }
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

  const std::string& url() const { return url_; }
  const std::string& cdn() const { return cdn_; }

  void Write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << content;
  }
  void SetFaults(const Json& faults) {
    fetch::Client client(Patient());
    fetch::Request request;
    request.url = url_ + "/_faults";
    request.body = faults.dump();
    if (!client.Run(request).ok()) std::abort();
  }
  // The requests so far: {"server", "method", "path", "range",
  // "authorization"}.
  std::vector<Json> Log() {
    fetch::Client client(Patient());
    fetch::Request request;
    request.url = url_ + "/_log";
    request.max_body = 1 << 20;
    return Json::parse(client.Run(request).value().body)
        .get<std::vector<Json>>();
  }
  // The ranges that were asked for of paths with this in them, on the CDN.
  std::vector<std::string> Ranges() {
    std::vector<std::string> ranges;
    for (const Json& entry : Log()) {
      if (entry["server"] == "cdn") ranges.push_back(entry["range"]);
    }
    return ranges;
  }

 private:
  static fetch::Client::Options Patient() {
    fetch::Client::Options options;
    options.connect_timeout = absl::Minutes(1);
    return options;
  }

  const std::filesystem::path root_;
  pid_t process_ = -1;
  int input_ = -1;
  std::string url_, cdn_;
};

// The config.json of a model that mpsd can train.
inline constexpr char kLlamaConfig[] = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-05,
  "tie_word_embeddings": true, "torch_dtype": "float32"})";

// Bytes that differ from place to place.
inline std::string Weights(size_t size, unsigned seed = 1) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

}  // namespace mpsd::hub

#endif  // MPSD_TESTS_SERVER_HUB_FAKE_HUB_H_
