// SPDX-License-Identifier: Apache-2.0
#include "server/hub/puller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/hub/fake_hub.h"

namespace mpsd::hub {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using absl::StatusCode;
using models::KeptPull;
using models::PullRequest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FakePullStore final : public models::PullStore {
 public:
  absl::Status Add(const KeptPull& pull) override {
    absl::MutexLock lock(&mutex_);
    if (!add_error.ok()) return add_error;
    pulls_.push_back(pull);
    return absl::OkStatus();
  }
  absl::Status SetCommit(const std::string& id, const std::string& revision,
                         const std::string& commit) override {
    absl::MutexLock lock(&mutex_);
    for (KeptPull& pull : pulls_) {
      if (pull.id == id && pull.revision == revision) pull.commit = commit;
    }
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& id,
                      const std::string& revision) override {
    absl::MutexLock lock(&mutex_);
    std::erase_if(pulls_, [&](const KeptPull& pull) {
      return pull.id == id && pull.revision == revision;
    });
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<KeptPull>> List() override {
    absl::MutexLock lock(&mutex_);
    return pulls_;
  }

  absl::Status add_error;

 private:
  absl::Mutex mutex_;
  std::vector<KeptPull> pulls_ ABSL_GUARDED_BY(mutex_);
};

class PullerTest : public testing::Test {
 protected:
  PullerTest() {
    for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) {
      unsetenv(name);
    }
    for (const char* name : {"org/a", "org/b", "org/c", "org/d", "org/e"}) {
      hub_.Write(absl::StrCat(name, "/config.json"), kLlamaConfig);
      hub_.Write(absl::StrCat(name, "/model.safetensors"), weights_);
    }
    options_.settings.url = hub_.url();
    options_.settings.allow_private = true;
    options_.cache = cache_;
    options_.first_pause = absl::Milliseconds(5);
    options_.count = [this](PullEnd end) { ends_.push_back(end); };
    options_.received = [this](int64_t bytes) { received_ += bytes; };
  }
  void Open() {
    puller_.reset();
    puller_ = std::make_unique<Puller>(options_, store_, base::Clock::Real());
    ASSERT_TRUE(puller_->Recover().ok());
  }
  void SetUp() override { Open(); }

  static PullRequest Request(const std::string& id,
                             const std::string& user = "ann") {
    PullRequest request;
    request.id = id;
    request.revision = "main";
    request.user = user;
    return request;
  }
  absl::StatusOr<std::unique_ptr<models::PullWatch>> Begin(
      const PullRequest& request) {
    return puller_->Pull(request, [] {});
  }
  absl::Status ErrorOf(const PullRequest& request) {
    return Begin(request).status();
  }
  // How the pull ends.
  static absl::Status Await(models::PullWatch& watch) {
    for (int i = 0; i < 6000; ++i) {
      const auto news = watch.Next();
      if (!news.ok()) return news.status();
      if (*news && (*news)->done) return absl::OkStatus();
      if (!*news) absl::SleepFor(absl::Milliseconds(10));
    }
    return absl::DeadlineExceededError("the pull does not end");
  }
  // The weights of each model drip, so that no pull ends by itself.
  void Stall() { hub_.SetFaults({{{"path", "/repos/"}, {"kind", "drip"}}}); }
  void Flow() { hub_.SetFaults(Json::array()); }
  bool Waits(const std::string& id) const {
    return fs::exists(cache_ / ("models--org--" + id) / "blobs");
  }
  fs::path Main(const std::string& id) const {
    return cache_ / ("models--org--" + id) / "refs/main";
  }
  void AwaitCommit() {
    for (int i = 0; i < 6000; ++i) {
      const auto all = store_.List().value();
      if (!all.empty() && !all[0].commit.empty()) return;
      absl::SleepFor(absl::Milliseconds(10));
    }
    ADD_FAILURE() << "no commit";
  }

  const std::string weights_ = Weights(20'000);
  const fs::path cache_ = testing_support::FreshFolder("puller_cache");
  FakeHub hub_{testing_support::FreshFolder("puller_hub")};
  Puller::Options options_;
  FakePullStore store_;
  std::vector<PullEnd> ends_;
  std::atomic<int64_t> received_ = 0;
  std::unique_ptr<Puller> puller_;
};

TEST_F(PullerTest, PullsAndForgets) {
  auto watch = Begin(Request("org/a"));
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_EQ(Await(**watch), absl::OkStatus());
  EXPECT_TRUE(fs::exists(Main("a")));
  EXPECT_THAT(store_.List().value(), IsEmpty());
  EXPECT_FALSE(puller_->IsPulling("org/a"));
  EXPECT_EQ(puller_->running(), 0);
  EXPECT_THAT(ends_, ElementsAre(PullEnd::kSucceeded));
  EXPECT_GE(received_, 20'000);
}

TEST_F(PullerTest, WithoutAHubPullsAreOff) {
  options_.settings = {};
  Open();
  EXPECT_EQ(ErrorOf(Request("org/a")).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ErrorOf(Request("org/a")).message()),
              HasSubstr("--hub"));
}

TEST_F(PullerTest, AFailureIsTheWatchersToo) {
  auto watch = Begin(Request("org/none")).value();
  EXPECT_EQ(Await(*watch).code(), StatusCode::kNotFound);
  EXPECT_THAT(ends_, ElementsAre(PullEnd::kFailed));
  EXPECT_THAT(store_.List().value(), IsEmpty());
}

TEST_F(PullerTest, WhoAsksForTheSameJoins) {
  Stall();
  auto first = Begin(Request("org/a", "ann")).value();
  auto second = Begin(Request("org/a", "bob")).value();
  EXPECT_EQ(puller_->running(), 1);
  EXPECT_TRUE(puller_->IsPulling("org/a"));
  EXPECT_TRUE(puller_->IsPulling("ORG/A"));
  EXPECT_FALSE(puller_->IsPulling("org/b"));
  EXPECT_EQ(store_.List().value().size(), 1u);
  first.reset();  // the client leaves; the pull goes on
  EXPECT_EQ(puller_->running(), 1);
  ASSERT_TRUE(puller_->Cancel(Request("org/a", "ann")).ok());
  EXPECT_EQ(Await(*second).code(), StatusCode::kCancelled);
}

TEST_F(PullerTest, FourAtATime) {
  Stall();
  for (const char* id : {"org/a", "org/b", "org/c", "org/d"}) {
    EXPECT_TRUE(ErrorOf(Request(id)).ok()) << id;
  }
  const absl::Status fifth = ErrorOf(Request("org/e"));
  EXPECT_EQ(fifth.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(fifth.message()), HasSubstr("org/c@main"));
  EXPECT_TRUE(ErrorOf(Request("org/d")).ok()) << "joins";
  ASSERT_TRUE(puller_->Cancel(Request("org/b")).ok());
  // Cancel waits for the end, though not for ever.
  for (int i = 0; i < 6000 && puller_->IsPulling("org/b"); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(ErrorOf(Request("org/e")).ok());
}

TEST_F(PullerTest, CancelIsTheOwnersAndTheAdmins) {
  Stall();
  auto watch = Begin(Request("org/a", "ann")).value();
  const absl::Status other = puller_->Cancel(Request("org/a", "bob"));
  EXPECT_EQ(other.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(other.message()), HasSubstr("ann"));
  PullRequest admin = Request("org/a", "root");
  admin.is_admin = true;
  const absl::Time start = absl::Now();
  EXPECT_TRUE(puller_->Cancel(admin).ok());
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  EXPECT_THAT(store_.List().value(), IsEmpty());
  const absl::Status end = Await(*watch);
  EXPECT_EQ(end.code(), StatusCode::kCancelled);
  EXPECT_THAT(std::string(end.message()), HasSubstr("root cancelled"));
  EXPECT_EQ(puller_->Cancel(admin).code(), StatusCode::kNotFound);
  EXPECT_THAT(ends_, ElementsAre(PullEnd::kCancelled));
}

TEST_F(PullerTest, ARestartGoesOnAtTheSameCommit) {
  Stall();
  auto watch = Begin(Request("org/a")).value();
  AwaitCommit();
  puller_.reset();
  EXPECT_EQ(Await(*watch).code(), StatusCode::kUnavailable);
  ASSERT_EQ(store_.List().value().size(), 1u);
  EXPECT_EQ(store_.List().value()[0].commit.size(), 40u);
  EXPECT_THAT(ends_, IsEmpty()) << "it has not ended";
  Flow();
  Open();
  for (int i = 0; i < 6000 && puller_->running() > 0; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(fs::exists(Main("a")));
  EXPECT_THAT(store_.List().value(), IsEmpty());
}

TEST_F(PullerTest, WhatCannotBeStoredDoesNotBegin) {
  store_.add_error = absl::ResourceExhaustedError("the disk is full");
  EXPECT_EQ(ErrorOf(Request("org/a")), store_.add_error);
  EXPECT_EQ(puller_->running(), 0);
  EXPECT_THAT(hub_.Log(), IsEmpty());
}

TEST_F(PullerTest, RefusesNamesThatShareAFolder) {
  EXPECT_EQ(ErrorOf(Request("or--g/a")).code(), StatusCode::kInvalidArgument);
  Stall();
  ASSERT_TRUE(ErrorOf(Request("org/a")).ok());
  EXPECT_EQ(ErrorOf(Request("Org/a")).code(), StatusCode::kInvalidArgument);
}

TEST_F(PullerTest, AFullDiskIsToldBeforeTheWeights) {
  options_.min_free_bytes = int64_t{1} << 60;
  Open();
  auto watch = Begin(Request("org/a")).value();
  const absl::Status full = Await(*watch);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("--min-free-bytes"));
  EXPECT_THAT(hub_.Ranges(), IsEmpty());
}

TEST_F(PullerTest, TheTokenIsReadAtEachPull) {
  hub_.Write("gated/g/config.json", kLlamaConfig);
  hub_.Write("gated/g/model.safetensors", weights_);
  const fs::path token = testing_support::FreshFolder("puller_token") / "token";
  options_.settings.token_file = token;
  Open();
  const absl::Status missing = ErrorOf(Request("gated/g"));
  EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("--hub-token-file"));
  std::ofstream(token) << "hf_other\n";
  chmod(token.c_str(), 0600);
  auto refused = Begin(Request("gated/g")).value();
  EXPECT_EQ(Await(*refused).code(), StatusCode::kPermissionDenied);
  std::ofstream(token) << "hf_member\n";
  auto watch = Begin(Request("gated/g")).value();
  EXPECT_EQ(Await(*watch), absl::OkStatus());
}

TEST_F(PullerTest, FiftyClientsOfFourModels) {
  std::vector<std::thread> clients;
  std::atomic<int> done = 0;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back([&, i] {
      const std::string id(1, static_cast<char>('a' + i % 4));
      auto watch = Begin(Request("org/" + id));
      if (watch.ok() && Await(**watch).ok()) ++done;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(done, 50);
  for (const char* id : {"a", "b", "c", "d"}) EXPECT_TRUE(fs::exists(Main(id)));
}

}  // namespace
}  // namespace mpsd::hub
