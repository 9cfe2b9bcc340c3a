// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class CheckpointsTest : public ClientTest {
 protected:
  CheckpointsTest() { AddJob(kId, v1::JOB_STATE_RUNNING); }

  void Add(int64_t step, const std::string& path) {
    v1::Checkpoint checkpoint;
    checkpoint.set_step(step);
    checkpoint.set_path(path);
    checkpoint.set_size_bytes(1'500'000);
    SetTime(checkpoint.mutable_create_time(), absl::ZeroDuration());
    data().checkpoints[kId].push_back(checkpoint);
  }
};

TEST_F(CheckpointsTest, None) {
  EXPECT_EQ(RunVerb({"checkpoints", kId}).out, "No checkpoints.\n");
}

TEST_F(CheckpointsTest, OldestFirst) {
  Add(5, "/state/step-5");
  Add(10, "/state/step-10");
  EXPECT_EQ(RunVerb({"checkpoints", kId}).out,
            "STEP  CREATED              SIZE    PATH\n"
            "5     2026-01-02 03:04:05  1.5 MB  /state/step-5\n"
            "10    2026-01-02 03:04:05  1.5 MB  /state/step-10\n");
}

TEST_F(CheckpointsTest, Json) {
  Add(5, "/p");
  EXPECT_EQ(RunVerb({"checkpoints", kId, "--json"}).out,
            R"({"step":5,"path":"/p","size_bytes":1500000,)"
            R"("create_time":"2026-01-02T03:04:05Z"})"
            "\n");
}

}  // namespace
}  // namespace mpsd::client
