// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_JOB_FILES_H_
#define MPSD_TESTS_FAKES_FAKE_JOB_FILES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/spec/model_config.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_files.h"

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
                      const std::vector<Link>& links) override {
    if (!failure.ok()) return failure;
    specs[job_id] = spec_json;
    this->links[job_id] = links;
    return absl::OkStatus();
  }
  void Remove(const std::string& job_id) override { specs.erase(job_id); }
  void AppendLog(const std::string& job_id, const std::string& line) override {
    logs[job_id].push_back(line);
  }
  bool Exists(const std::string& path) override { return paths.contains(path); }
  absl::StatusOr<Model> FindModel(const std::string& model) override {
    auto found = models.find(model);
    if (found == models.end()) {
      return absl::NotFoundError("no model " + model);
    }
    return found->second;
  }

  absl::Status failure;  // of Create
  std::map<std::string, std::string> specs;
  std::map<std::string, std::vector<Link>> links;
  std::map<std::string, std::vector<std::string>> logs;
  std::set<std::string> paths;
  std::map<std::string, absl::StatusOr<Model>> models;
};

class FakeBlobs final : public jobs::BlobStore {
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

#endif  // MPSD_TESTS_FAKES_FAKE_JOB_FILES_H_
