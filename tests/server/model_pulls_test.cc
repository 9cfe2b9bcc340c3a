// SPDX-License-Identifier: Apache-2.0
#include "server/model_pulls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "server/store/pull_store.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/hub/fake_hub.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A pull as the daemon makes it: into the cache of the environment, counted and
// logged.
TEST(MakePuller, PullsIntoTheCacheOfTheEnvironment) {
  const fs::path folder = testing_support::FreshFolder("model_pulls");
  setenv("HF_HUB_CACHE", (folder / "cache").c_str(), 1);
  hub::FakeHub hub(folder / "hub");
  hub.Write("org/m/config.json", hub::kLlamaConfig);
  hub.Write("org/m/model.safetensors", hub::Weights(50'000));
  auto database = store::Database::Open(folder / "mpsd.db");
  ASSERT_TRUE(database.ok()) << database.status();
  store::PullStore pulls(**database);
  Config config;
  config.hub.url = hub.url();
  config.hub.allow_private = true;
  auto metrics =
      std::make_shared<prometheus::DaemonMetrics>(base::Clock::Real());
  std::ostringstream lines;
  auto log = std::make_shared<spdlog::logger>(
      "", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
  auto puller = MakePuller(config, pulls, metrics, log);
  ASSERT_TRUE(puller->Recover().ok());
  models::PullRequest request;
  request.id = "org/m";
  request.revision = "main";
  request.user = "ann";
  auto watch = puller->Pull(request, [] {});
  ASSERT_TRUE(watch.ok()) << watch.status();
  while (puller->running() > 0) absl::SleepFor(absl::Milliseconds(10));
  puller.reset();
  EXPECT_TRUE(fs::exists(folder / "cache/models--org--m/refs/main"));
  const std::string text =
      ::prometheus::TextSerializer().Serialize(metrics->Collect());
  EXPECT_THAT(text,
              HasSubstr("mpsd_model_pulls_total{result=\"succeeded\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("mpsd_model_pulls_running 0\n"));
  EXPECT_THAT(lines.str(), HasSubstr("pulls org/m@main for ann"));
  EXPECT_THAT(lines.str(), HasSubstr("the pull of org/m@main is done"));
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace mpsd
