// SPDX-License-Identifier: Apache-2.0
#include "server/models/puller.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/user_ledger.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/test_store.h"

namespace mpsd::hub {
namespace {

using models::PullNews;
using models::PullWatch;

// Pulls with tests/fakes/fake_hf.py.
class PullerTest : public testing::Test {
 protected:
  PullerTest() {
    const fs::path source = folder_ / "hub" / "org" / "tiny";
    fs::create_directories(source);
    fs::create_directories(folder_ / "cache");
    fs::copy_file(fs::path(MPSD_TEST_SOURCE_DIR) / "tests/fakes/fake_hf.py",
                  hf_);
    std::ofstream(source / "config.json") << "{}";
    std::ofstream(source / "model.safetensors") << std::string(1000, 'w');
    std::ofstream(source / "pytorch_model.bin") << std::string(5000, 'b');
    setenv("HF_HUB_CACHE", (folder_ / "cache").c_str(), 1);
    options_.command = hf_;
    options_.environment = {{"HOME", folder_.string()},
                            {"PATH", "/usr/bin:/bin"},
                            {"HF_TOKEN", "hf_t0ken"},
                            {"MPSD_SECRET", "s3cret"},
                            {"LD_PRELOAD", "/evil.so"}};
    options_.cache = folder_ / "cache";
    options_.interval = absl::Milliseconds(50);
    options_.stop_grace = absl::Milliseconds(300);
    options_.count = [this](PullEnd end) {
      absl::MutexLock lock(&mutex_);
      ends_.push_back(end);
    };
  }
  ~PullerTest() override {
    puller_.reset();
    unsetenv("HF_HUB_CACHE");
  }

  void Open() { puller_ = std::make_unique<Puller>(options_, pulls_, &users_); }
  void SetMode(const std::string& mode) {
    std::ofstream(folder_ / "mode") << mode;
  }
  static models::PullRequest Ask(const std::string& id,
                                 const std::string& user = "ada") {
    models::PullRequest request;
    request.id = id;
    request.revision = "main";
    request.user = user;
    return request;
  }
  absl::StatusOr<std::unique_ptr<PullWatch>> Begin(const std::string& id) {
    return puller_->Pull(Ask(id), [] {});
  }
  // How the pull ended; the last news in news_.
  absl::Status Finish(PullWatch& watch) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (absl::Now() < deadline) {
      const auto news = watch.Next();
      if (!news.ok()) return news.status();
      if (*news) news_ = **news;
      if (*news && news_.done) return absl::OkStatus();
      absl::SleepFor(absl::Milliseconds(5));
    }
    return absl::DeadlineExceededError("no end");
  }
  absl::Status PullAll(const std::string& id) {
    auto watch = Begin(id);
    return watch.ok() ? Finish(**watch) : watch.status();
  }
  static bool Await(const std::function<bool()>& holds) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (!holds() && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return holds();
  }
  int64_t BlobBytes() const {
    int64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(model_ / "blobs", error)) {
      bytes += static_cast<int64_t>(entry.file_size(error));
    }
    return bytes;
  }
  // Begins a pull that hangs in the middle of its weights.
  std::unique_ptr<PullWatch> BeginHanging(const std::string& mode = "hang") {
    SetMode(mode);
    auto watch = Begin("org/tiny");
    EXPECT_TRUE(watch.ok()) << watch.status();
    EXPECT_TRUE(Await([this] { return BlobBytes() == 502; }));
    return watch.ok() ? *std::move(watch) : nullptr;
  }
  std::string Calls() const {
    return base::ReadFile(folder_ / "calls").value_or("");
  }
  // The pid of the last call, which is that of its group; 0 before any.
  pid_t LastPid() const {
    const std::string calls = Calls();
    const size_t at = calls.rfind("\"pid\": ");
    return at == calls.npos ? 0 : std::atoi(calls.c_str() + at + 7);
  }
  static bool GroupGoes(pid_t group) {
    return Await([group] { return kill(-group, 0) != 0; });
  }

  const fs::path folder_ = FreshFolder("puller");
  const fs::path hf_ = folder_ / "hf";
  const fs::path model_ = folder_ / "cache" / "models--org--tiny";
  Puller::Options options_;
  fakes::TestStore db_;
  models::PullLedger pulls_{db_.database()};
  std::atomic<int64_t> uploads_ = 0;  // of each user, but for what was pulled
  jobs::UserLedger users_{
      db_.database(), jobs::UserLedger::None,
      [this](const std::string&) -> int64_t { return uploads_; }};
  absl::Mutex mutex_;
  std::vector<PullEnd> ends_;
  PullNews news_;
  std::unique_ptr<Puller> puller_;
};

TEST_F(PullerTest, TheModelIsInTheCacheAndCountsToWhoAsked) {
  Open();
  ASSERT_EQ(PullAll("org/tiny"), absl::OkStatus());
  std::string commit;
  std::ifstream(model_ / "refs" / "main") >> commit;
  const fs::path snapshot = model_ / "snapshots" / commit;
  EXPECT_TRUE(fs::exists(snapshot / "config.json"));
  EXPECT_EQ(fs::file_size(snapshot / "model.safetensors"), 1000u);
  EXPECT_FALSE(fs::exists(snapshot / "pytorch_model.bin"));
  EXPECT_FALSE(puller_->IsPulling("org/tiny"));
  EXPECT_TRUE(GroupGoes(LastPid())) << "nothing of hf stays";
  const auto counted =
      ElementsAre(Pair("org/tiny", ElementsAre(Pair("ada", 2 + 1000 + 40))));
  EXPECT_THAT(*pulls_.All(), counted);
  EXPECT_EQ(news_.received_bytes, 2 + 1000 + 40);
  // What is there is not counted again.
  ASSERT_EQ(PullAll("org/tiny"), absl::OkStatus());
  EXPECT_THAT(*pulls_.All(), counted);
  EXPECT_THAT(ends_, ElementsAre(PullEnd::kSucceeded, PullEnd::kSucceeded));
}

TEST_F(PullerTest, HfGetsTheTokenAndLittleElse) {
  Open();
  ASSERT_EQ(PullAll("org/tiny"), absl::OkStatus());
  const std::string calls = Calls();
  EXPECT_THAT(calls, HasSubstr("\"HF_TOKEN\": \"hf_t0ken\""));
  EXPECT_THAT(calls, HasSubstr("\"HF_HUB_CACHE\": \"" +
                               (folder_ / "cache").string() + "\""));
  EXPECT_THAT(calls, Not(HasSubstr("s3cret")));
  EXPECT_THAT(calls, Not(HasSubstr("evil.so")));
  EXPECT_THAT(calls, HasSubstr("\"argv\": [\"download\", \"org/tiny\", "
                               "\"--revision=main\", \"--include="));
}

TEST_F(PullerTest, AFailureComesWithTheWordsOfHf) {
  SetMode("fail");
  Open();
  const absl::Status failed = PullAll("org/tiny");
  EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(failed.message()),
            "hf download failed (exit status 1): Error: Repository Not Found "
            "for org/tiny; Please check the id.");
  SetMode("empty");
  EXPECT_THAT(std::string(PullAll("org/tiny").message()),
              HasSubstr("hf download ended, but model: neither"));
  EXPECT_THAT(ends_, ElementsAre(PullEnd::kFailed, PullEnd::kFailed));
}

TEST_F(PullerTest, WithoutHfTheErrorNamesWhatInstallsIt) {
  options_.command.clear();
  options_.environment["PATH"] = "relative:" + (folder_ / "none").string();
  if (!FindHf("", options_.environment).ok()) {
    Open();
    EXPECT_THAT(std::string(PullAll("org/tiny").message()),
                HasSubstr("install it there with `brew install hf` (without "
                          "Homebrew `pipx install huggingface_hub`"));
  }
  // The installer's own folder, and PATH before it.
  fs::create_directories(folder_ / ".local" / "bin");
  fs::copy_file(hf_, folder_ / ".local" / "bin" / "hf");
  EXPECT_TRUE(FindHf("", options_.environment).ok());
  options_.environment["PATH"] = folder_.string();
  EXPECT_EQ(*FindHf("", options_.environment), hf_.string());
  EXPECT_THAT(
      std::string(
          FindHf("/etc/passwd", options_.environment).status().message()),
      HasSubstr("--hf-command, /etc/passwd, is not a program"));
}

TEST_F(PullerTest, WhatIsNoIdReachesNoProgram) {
  Open();
  for (const char* id : {"org/x..y", "org/x.git"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PullAll(id))) << id;
  }
  EXPECT_EQ(Calls(), "");
}

TEST_F(PullerTest, WhoAsksForTheSameJoinsAndAnotherRevisionWaits) {
  Open();
  auto first = BeginHanging();
  auto second = puller_->Pull(Ask("org/tiny", "bob"), [] {});
  ASSERT_TRUE(second.ok()) << second.status();
  models::PullRequest other = Ask("org/tiny");
  other.revision = "v2";
  EXPECT_TRUE(absl::IsFailedPrecondition(puller_->Pull(other, [] {}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      puller_->Pull(Ask("ORG/Tiny"), [] {}).status()));
  EXPECT_TRUE(puller_->IsPulling("ORG/tiny"));
  EXPECT_TRUE(
      absl::IsPermissionDenied(puller_->Cancel(Ask("org/tiny", "bob"))));
  ASSERT_TRUE(puller_->Cancel(Ask("org/tiny")).ok());
  EXPECT_TRUE(absl::IsCancelled(Finish(*first)));
  EXPECT_TRUE(absl::IsCancelled(Finish(**second)));
  EXPECT_TRUE(absl::IsNotFound(puller_->Cancel(Ask("org/tiny"))));
  // What came counts, and stays for the next pull.
  EXPECT_THAT(*pulls_.All(),
              ElementsAre(Pair("org/tiny", ElementsAre(Pair("ada", 502)))));
  SetMode("ok");
  EXPECT_EQ(PullAll("org/tiny"), absl::OkStatus());
  EXPECT_EQ(ends_.front(), PullEnd::kCancelled);
}

TEST_F(PullerTest, AClientThatIgnoresSigtermIsKilled) {
  Open();
  auto watch = BeginHanging("deaf");
  const pid_t group = LastPid();
  ASSERT_GT(group, 1);
  const absl::Time start = absl::Now();
  ASSERT_TRUE(puller_->Cancel(Ask("org/tiny")).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_TRUE(absl::IsCancelled(Finish(*watch)));
  EXPECT_TRUE(GroupGoes(group));
}

TEST_F(PullerTest, ThePullEndsWithThePuller) {
  Open();
  auto watch = BeginHanging("deaf");
  const pid_t group = LastPid();
  puller_.reset();
  EXPECT_TRUE(absl::IsUnavailable(Finish(*watch)));
  EXPECT_TRUE(GroupGoes(group));
}

// After a kill of mpsd only the end of a pipe is left to end hf.
TEST_F(PullerTest, HfDiesWithThisProcess) {
  SetMode("deaf");
  const pid_t child = fork();
  if (child == 0) {
    auto download = HfDownload::Start(
        hf_, HfEnvironment(options_.environment, hf_, options_.cache),
        "org/tiny", "main");
    if (download.ok()) (*download)->Await(absl::Minutes(1)).has_value();
    _exit(0);
  }
  ASSERT_TRUE(Await([this] { return BlobBytes() == 502; }));
  const pid_t group = LastPid();
  ASSERT_GT(group, 1);
  EXPECT_EQ(kill(-group, 0), 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(GroupGoes(group));
}

TEST_F(PullerTest, ThePullEndsWithItsTimeAndOutputWithoutEndFillsNoMemory) {
  options_.longest = absl::Seconds(1);
  Open();
  for (const char* mode : {"hang", "flood"}) {
    SetMode(mode);
    EXPECT_TRUE(absl::IsResourceExhausted(PullAll("org/tiny"))) << mode;
  }
  EXPECT_LE(news_.note.size(), 300u);
}

TEST_F(PullerTest, AFullDiskBeginsNoPull) {
  options_.min_free_bytes = int64_t{1} << 60;
  Open();
  const absl::Status full = PullAll("org/tiny");
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("--min-free-bytes"));
  EXPECT_EQ(Calls(), "");
}

TEST_F(PullerTest, ALimitOfTheUserEndsThePull) {
  Open();
  models::PullRequest request = Ask("org/tiny");
  request.limits.upload_bytes = 100;
  uploads_ = 101;
  EXPECT_TRUE(
      absl::IsResourceExhausted(puller_->Pull(request, [] {}).status()));
  EXPECT_EQ(Calls(), "");
  uploads_ = 0;
  SetMode("hang");
  auto watch = puller_->Pull(request, [] {});
  ASSERT_TRUE(watch.ok()) << watch.status();
  ASSERT_TRUE(Await([this] { return BlobBytes() == 502; }));
  uploads_ = 101;
  EXPECT_TRUE(absl::IsResourceExhausted(Finish(**watch)));
  EXPECT_FALSE(fs::exists(model_ / "refs" / "main"));
}

TEST_F(PullerTest, FourPullsRunAtATime) {
  SetMode("hang");
  Open();
  std::vector<std::unique_ptr<PullWatch>> watches;
  for (int i = 0; i < limits::kPulls; ++i) {
    const std::string id = absl::StrCat("org/m", i);
    fs::create_directories(folder_ / "hub" / id);
    std::ofstream(folder_ / "hub" / id / "model.safetensors") << "w";
    auto watch = Begin(id);
    ASSERT_TRUE(watch.ok()) << watch.status();
    watches.push_back(*std::move(watch));
  }
  EXPECT_THAT(std::string(Begin("org/tiny").status().message()),
              HasSubstr("org/m1@main"));
}

}  // namespace
}  // namespace mpsd::hub
