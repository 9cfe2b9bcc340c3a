// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/spec/model_config.h"
#include "server/jobs/job_files.h"
#include "server/store/blob_store.h"

namespace mpsd::fakes {

// A Llama of two layers.
inline spec::ModelConfig TinyModel() {
  spec::ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 100;
  config.hidden_size = 16;
  config.intermediate_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 128;
  return config;
}

// jobs::JobFiles without a disk, below "/state". One thread at a time.
class FakeJobFiles final : public jobs::JobFiles {
 public:
  FakeJobFiles() : JobFiles("/state") {}

  absl::Status Create(const std::string& job_id, const std::string& spec_json,
                      const std::string& request_json,
                      const std::vector<Link>& links,
                      const jobs::Wanted& wanted) override {
    if (on_create) on_create();
    if (!failure.ok()) return failure;
    if (absl::Status s = jobs::StillWanted(wanted); !s.ok()) return s;
    specs[job_id] = spec_json;
    requests[job_id] = request_json;
    this->links[job_id] = links;
    return absl::OkStatus();
  }
  absl::Status ReplaceSpec(const std::string& job_id,
                           const std::string& spec_json) override {
    if (!failure.ok()) return failure;
    specs[job_id] = spec_json;
    return absl::OkStatus();
  }
  void Remove(const std::string& job_id) override { specs.erase(job_id); }
  absl::Status BeginDelete(const std::string& job_id) override {
    marked.insert(job_id);
    return failure;
  }
  int64_t FinishDelete(const std::string& job_id) override {
    marked.erase(job_id);
    specs.erase(job_id);
    return 42;
  }
  void AbandonDelete(const std::string& job_id) override {
    marked.erase(job_id);
  }
  absl::Status RemoveRun(const std::string& job_id) override {
    if (on_remove_run) on_remove_run();
    if (!failure.ok()) return failure;
    removed_runs.push_back(job_id);
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> RemoveCheckpoints(
      const std::string& job_id) override {
    if (on_remove_checkpoints) on_remove_checkpoints();
    without_checkpoints.insert(job_id);
    return 17;
  }
  bool MakeRoom() override { return make_room(); }
  void AppendLog(const std::string& job_id, const std::string& line) override {
    logs[job_id].push_back(line);
  }
  bool Exists(const std::string& path) override {
    for (const auto& [id, spec] : specs) {
      if (path == SpecPath(id)) return true;
      for (const Link& link : links[id]) {
        if (path == InputPath(id, link.relative)) return true;
      }
    }
    for (const auto& [name, model] : models) {
      if (model.ok() && model->folder == path) return true;
    }
    return paths.contains(path);
  }
  std::optional<int64_t> FreeBytes() override { return free_bytes; }
  absl::Status MayRead(const std::string& path, Use use) override {
    uses[path] = use;
    return closed.contains(path)
               ? absl::FailedPreconditionError("'" + path + "' is closed")
               : absl::OkStatus();
  }
  std::string PlaceInState(const std::string& path) override {
    const auto found = links_to.find(path);
    const std::string real =
        std::filesystem::path(found == links_to.end() ? path : found->second)
            .lexically_normal();
    return real.starts_with("/state/") ? real.substr(7) : "";
  }
  std::string StampOf(const std::string& path) override {
    const auto found = stamps.find(path);
    return found == stamps.end() ? "" : found->second;
  }
  absl::StatusOr<Model> FindModel(const std::string& model) override {
    auto found = models.find(model);
    if (found == models.end()) {
      return absl::NotFoundError("no model " + model);
    }
    return found->second;
  }
  absl::StatusOr<Model> ReadResult(const std::string& folder) override {
    return FindModel(folder);
  }

  absl::Status failure;  // of Create, ReplaceSpec, BeginDelete and RemoveRun
  std::vector<std::string> removed_runs;
  std::function<void()> on_remove_run;
  std::set<std::string> marked;
  std::set<std::string> without_checkpoints;
  std::function<void()> on_remove_checkpoints;
  std::function<bool()> make_room = [] { return false; };
  std::function<void()> on_create;
  std::map<std::string, std::string> specs, requests;
  std::map<std::string, std::vector<Link>> links;
  std::map<std::string, std::vector<std::string>> logs;
  std::set<std::string> paths;
  std::map<std::string, std::string> links_to, stamps;
  std::set<std::string> closed;     // to MayRead
  std::map<std::string, Use> uses;  // that it was asked for
  std::optional<int64_t> free_bytes = int64_t{1} << 40;
  std::map<std::string, absl::StatusOr<Model>> models;
};

class FakeBlobs final : public jobs::Blobs {
 public:
  bool Has(const std::string& sha256) override {
    return present.contains(sha256);
  }
  std::string PathOf(const std::string& sha256) const override {
    return "/state/blobs/" + sha256;
  }
  std::set<std::string> present;
};

}  // namespace mpsd::fakes
