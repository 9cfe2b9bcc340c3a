// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/test_store.h"

namespace mpsd::planner {

// A state folder with a tiny model and one blob, and a queue without a
// scheduler.
class PlannerFixture : public testing::Test {
 protected:
  PlannerFixture() {
    std::filesystem::create_directories(state_ / "jobs");
    std::filesystem::create_directories(model());
    std::ofstream(model() / "config.json") << R"({"model_type": "llama",
        "vocab_size": 100, "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "max_position_embeddings": 128})";
    std::ofstream(blob()) << "{\"text\": \"a\"}\n";
  }

  std::filesystem::path model() const { return folder_ / "tiny"; }
  std::filesystem::path blob() const { return folder_ / "blob"; }

  // A job.json whose name chooses the fake worker's mode.
  std::string Spec(const std::string& name, const std::string& more = "") {
    return R"({"name": ")" + name + R"(", "model": ")" + model().string() +
           R"(", "dataset": {"train": "train.jsonl"})" + more + "}";
  }
  jobs::Job Job(const std::string& id, jobs::State state) {
    jobs::Job job;
    job.id = id;
    job.state = state;
    job.owner = "ada";
    job.model = model();
    job.spec_json = Spec("past");
    job.create_time =
        job.end_time.emplace(absl::FromUnixSeconds(1'700'000'000));
    return job;
  }
  void Put(const jobs::Job& job) {
    jobs::Event first;
    first.job_id = job.id;
    first.sequence = 1;
    ASSERT_TRUE(store_.Insert(job, first).ok());
  }

  const std::filesystem::path folder_ = testing_support::FreshFolder("planner");
  const std::filesystem::path state_ = folder_ / "state";
  fakes::TestStore db_;
  jobs::JobStore& store_ = db_.rows;
  jobs::JobFiles files_{state_};
  jobs::JobReader board_{store_, files_};
};

}  // namespace mpsd::planner
