// SPDX-License-Identifier: Apache-2.0
#include "core/train/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/core/job_folder.h"

namespace mpsd::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Listener : public testing_support::RecordingObserver {
 public:
  void OnStage(const std::string& stage, double fraction) override {
    said.push_back(stage + " " + std::to_string(static_cast<int>(fraction)));
    threads_agree &= std::this_thread::get_id() == thread;
  }
  std::vector<std::string> said;
  const std::thread::id thread = std::this_thread::get_id();
  bool threads_agree = true;

 private:
  void TellWarning(const std::string& text) override {
    said.push_back("warning " + text);
    threads_agree &= std::this_thread::get_id() == thread;
  }
};

TEST(RelayTest, WhatTheRunsThreadSaysIsPassedOnAtOnce) {
  Listener listener;
  Relay relay(listener);
  relay.OnStage("reading", 1);
  EXPECT_THAT(listener.said, ElementsAre("reading 1"));
  relay.OnWarning("odd");
  relay.OnWarning("odd");
  EXPECT_THAT(listener.said, ElementsAre("reading 1", "warning odd"));
  EXPECT_THAT(listener.warnings(), ElementsAre("odd"));
  relay.OnStep({});
  relay.OnEval({});
  relay.OnCheckpoint({});
  EXPECT_EQ(listener.steps.size(), 1u);
  EXPECT_EQ(listener.evals.size(), 1u);
  EXPECT_EQ(listener.checkpoints.size(), 1u);
  listener.request = StopRequest::kCancel;
  EXPECT_EQ(relay.stop_request(), StopRequest::kCancel);
}

TEST(RelayTest, WhatAnotherThreadSaysWaitsAndKeepsItsOrder) {
  Listener listener;
  Relay relay(listener);
  std::thread([&relay] {
    relay.OnStage("reading", 0);
    relay.OnStage("reading", 1);
    relay.OnStage("reading", 2);
    relay.OnWarning("odd");
    relay.OnStage("reading", 3);
    relay.OnStage("tokenizing", 4);
  }).join();
  EXPECT_THAT(listener.said, IsEmpty());
  relay.Tell();
  EXPECT_THAT(listener.said, ElementsAre("reading 2", "warning odd",
                                         "reading 3", "tokenizing 4"));
  relay.Tell();
  EXPECT_EQ(listener.said.size(), 4u);
  EXPECT_TRUE(listener.threads_agree);
}

}  // namespace
}  // namespace mpsd::train
