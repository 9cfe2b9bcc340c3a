// SPDX-License-Identifier: Apache-2.0
#include "server/worker_surroundings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace mpsd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WorkerSurroundingsTest : public testing::Test {
 protected:
  WorkerSurroundingsTest() {
    setenv("HF_HUB_CACHE", "/cache", 1);
    config_.state_dir = "/state";
  }
  ~WorkerSurroundingsTest() override {
    unsetenv("HF_HUB_CACHE");
    unsetenv("MY_SECRET_TOKEN");
  }
  Config config_;
};

TEST_F(WorkerSurroundingsTest, JobsReadTheCacheBesideTheRoots) {
  config_.model_roots = {"/models"};
  config_.data_roots = {"/data"};
  const auto folders = FoldersJobsRead(config_);
  EXPECT_THAT(folders.models, ElementsAre("/models", "/cache"));
  EXPECT_THAT(folders.data, ElementsAre("/data"));
  EXPECT_THAT(FoldersWorkersRead(config_),
              ElementsAre("/state/blobs", "/state/models", "/models", "/cache",
                          "/data"));
}

TEST_F(WorkerSurroundingsTest, ARootOfEverythingIsAnyFolder) {
  config_.model_roots = {"/models"};
  config_.data_roots = {"/"};
  EXPECT_THAT(FoldersWorkersRead(config_), IsEmpty());
}

TEST_F(WorkerSurroundingsTest, WorkersHaveWhatTheTableNames) {
  setenv("MY_SECRET_TOKEN", "x", 1);
  EXPECT_FALSE(WorkersEnvironment(config_).contains("MY_SECRET_TOKEN"));
  config_.environment["MY_SECRET_TOKEN"] = "y";
  config_.environment["HF_HUB_CACHE"] = "/other";
  const host::Environment environment = WorkersEnvironment(config_);
  EXPECT_EQ(environment.at("MY_SECRET_TOKEN"), "y");
  EXPECT_EQ(environment.at("HF_HUB_CACHE"), "/other");
}

}  // namespace
}  // namespace mpsd
