// SPDX-License-Identifier: Apache-2.0
#include "server/hub/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/sha256.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/hub/fake_hub.h"

namespace mpsd::hub {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using absl::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kSize = 3 << 20;

class PullTest : public testing::Test {
 protected:
  PullTest() {
    for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) {
      unsetenv(name);
    }
    hub_.Write("org/m/config.json", kLlamaConfig);
    hub_.Write("org/m/tokenizer.json", "{}");
    hub_.Write("org/m/README.md", "words");
    hub_.Write("org/m/model.safetensors", weights_);
    options_.settings.url = hub_.url();
    options_.settings.allow_private = true;
    options_.cache = cache_;
    options_.first_pause = absl::Milliseconds(5);
    // A hub that is held up for a while, as the machine is busy, counts no try.
    options_.client.connect_timeout = options_.client.stall = absl::Minutes(1);
    options_.check_room = [this](int64_t bytes) {
      asked_room_.push_back(bytes);
      return room_;
    };
    options_.on_commit = [this](const std::string& commit) {
      commit_ = commit;
    };
    options_.on_news = [this](const models::PullNews& news) {
      news_ = news;
      if (!news.note.empty()) notes_.push_back(news.note);
      if (at_news_) at_news_(news);
    };
  }
  absl::Status Run(const std::string& id = "org/m",
                   const std::string& revision = "main") {
    pull_ = std::make_unique<Pull>(options_, id, revision, pinned_, "");
    return pull_->Run();
  }
  void Fault(Json fault) {
    if (!fault.contains("path")) fault["path"] = "/repos/";
    hub_.SetFaults(Json::array({fault}));
  }
  static std::string ReadAll(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  fs::path Folder(const std::string& id = "org--m") const {
    return cache_ / ("models--" + id);
  }
  fs::path Snapshot() const { return Folder() / "snapshots" / commit_; }
  fs::path Part() const {
    return Folder() / "blobs" / (base::Sha256Hex(weights_) + ".incomplete");
  }
  std::string Notes() const { return absl::StrJoin(notes_, "\n"); }

  const std::string weights_ = Weights(kSize);
  const fs::path cache_ = testing_support::FreshFolder("pull_cache");
  FakeHub hub_{testing_support::FreshFolder("pull_hub")};
  Pull::Options options_;
  absl::Status room_;
  std::vector<int64_t> asked_room_;
  std::string commit_, pinned_;
  models::PullNews news_;
  std::vector<std::string> notes_;
  std::function<void(const models::PullNews&)> at_news_;
  std::unique_ptr<Pull> pull_;
};

TEST_F(PullTest, BringsTheModelIntoTheCache) {
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ReadAll(Snapshot() / "model.safetensors"), weights_);
  EXPECT_EQ(ReadAll(Snapshot() / "config.json"), kLlamaConfig);
  EXPECT_EQ(ReadAll(Snapshot() / "tokenizer.json"), "{}");
  EXPECT_FALSE(fs::exists(Snapshot() / "README.md"));
  EXPECT_EQ(ReadAll(Folder() / "refs/main"), commit_);
  EXPECT_EQ(news_.commit, commit_);
  EXPECT_EQ(news_.total_bytes, news_.received_bytes);
  EXPECT_EQ(news_.total_bytes,
            static_cast<int64_t>(kSize + 2 + sizeof(kLlamaConfig) - 1));
  EXPECT_THAT(Notes(), HasSubstr("model.safetensors, 3 MB"));
}

TEST_F(PullTest, WhatIsThereDoesNotComeAgain) {
  ASSERT_TRUE(Run().ok());
  const size_t before = hub_.Log().size();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(hub_.Log().size(), before + 1) << "the list of files alone";
}

TEST_F(PullTest, AnotherRevisionSharesItsBlobs) {
  ASSERT_TRUE(Run().ok());
  const std::string main = commit_;
  hub_.Write("org/m@v2/config.json", std::string(kLlamaConfig) + "\n");
  hub_.Write("org/m@v2/model.safetensors", weights_);
  const size_t before = hub_.Ranges().size();
  ASSERT_TRUE(Run("org/m", "v2").ok());
  EXPECT_NE(commit_, main);
  EXPECT_EQ(hub_.Ranges().size(), before) << "the weights are the same";
  EXPECT_EQ(ReadAll(Folder() / "refs/v2"), commit_);
  EXPECT_EQ(ReadAll(Folder() / "refs/main"), main);
}

TEST_F(PullTest, GoesOnWhereATransferBroke) {
  Fault({{"kind", "break"}, {"bytes", 1'500'000}, {"times", 2}});
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ReadAll(Snapshot() / "model.safetensors"), weights_);
  EXPECT_THAT(hub_.Ranges(),
              ElementsAre("", "bytes=1500000-", "bytes=3000000-"));
  EXPECT_THAT(Notes(), HasSubstr("next try in"));
}

TEST_F(PullTest, GoesOnWhereAnEarlierPullEnded) {
  Fault({{"kind", "break"}, {"bytes", 1000}});
  EXPECT_EQ(Run().code(), StatusCode::kUnavailable);
  hub_.SetFaults(Json::array());
  const int64_t there = static_cast<int64_t>(fs::file_size(Part()));
  EXPECT_EQ(there, 6000) << "six tries";
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(hub_.Ranges().back(), absl::StrCat("bytes=", there, "-"));
  EXPECT_EQ(ReadAll(Snapshot() / "model.safetensors"), weights_);
  EXPECT_THAT(Notes(), HasSubstr("goes on at 0%"));
}

TEST_F(PullTest, SaysWhatToDoWhenTheHubStaysAway) {
  Fault({{"path", "/api/models"}, {"kind", "status"}, {"code", 503}});
  const absl::Status failed = Run();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.message()),
              HasSubstr("(HTTP 503), 6 times: pull again later"));
}

TEST_F(PullTest, WaitsAsTheHubAsks) {
  Fault({{"path", "/api/models"},
         {"kind", "status"},
         {"code", 429},
         {"headers", {{"Retry-After", "1"}}},
         {"times", 1}});
  const absl::Time start = absl::Now();
  ASSERT_TRUE(Run().ok());
  EXPECT_GE(absl::Now() - start, absl::Seconds(1));
  EXPECT_THAT(Notes(), HasSubstr("asked too often (HTTP 429); next try in 1s"));
  Fault({{"path", "/api/models"},
         {"kind", "status"},
         {"code", 429},
         {"headers", {{"Retry-After", "7200"}}}});
  const absl::Status failed = Run();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("to wait for 2h"));
}

// Another commit may be main's between the two pulls.
TEST_F(PullTest, StaysAtTheCommitThatItBeganWith) {
  Fault({{"kind", "break"}, {"bytes", 1000}});
  EXPECT_FALSE(Run().ok());
  hub_.SetFaults(Json::array());
  pinned_ = commit_;
  hub_.Write("org/m@old/config.json", kLlamaConfig);
  hub_.Write("org/m@old/tokenizer.json", "{}");
  hub_.Write("org/m@old/README.md", "words");
  hub_.Write("org/m@old/model.safetensors", weights_);
  hub_.Write("org/m/tokenizer.json", "{\"new\": 1}");
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(commit_, pinned_);
  EXPECT_EQ(ReadAll(Snapshot() / "tokenizer.json"), "{}");
  EXPECT_EQ(ReadAll(Folder() / "refs/main"), pinned_);
}

TEST_F(PullTest, AWrongHashIsDataLossAndLeavesNothing) {
  Fault({{"kind", "wrong"}});
  const absl::Status failed = Run();
  EXPECT_EQ(failed.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("another hash"));
  EXPECT_FALSE(fs::exists(Part()));
  EXPECT_FALSE(fs::exists(Folder() / "refs/main"));
  EXPECT_FALSE(fs::exists(Snapshot()));
}

TEST_F(PullTest, ASmallFilesWrongHashToo) {
  Fault({{"path", "/api/resolve-cache/.*tokenizer"}, {"kind", "wrong"}});
  EXPECT_EQ(Run().code(), StatusCode::kDataLoss);
}

// What an earlier pull left is broken: the file begins anew, once.
TEST_F(PullTest, ABrokenPartIsNotTheEnd) {
  fs::create_directories(Part().parent_path());
  std::ofstream(Part(), std::ios::binary) << std::string(1000, 'x');
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ReadAll(Snapshot() / "model.safetensors"), weights_);
  EXPECT_THAT(hub_.Ranges(), ElementsAre("bytes=1000-", ""));
  EXPECT_THAT(Notes(), HasSubstr("begins anew"));
}

TEST_F(PullTest, MoreBytesThanSaidAreDataLoss) {
  for (const char* kind : {"more", "endless"}) {
    Fault({{"kind", kind}});
    const absl::Time start = absl::Now();
    EXPECT_EQ(Run().code(), StatusCode::kDataLoss) << kind;
    EXPECT_LT(absl::Now() - start, absl::Minutes(1));
    EXPECT_LE(fs::exists(Part()) ? fs::file_size(Part()) : 0, kSize);
  }
}

TEST_F(PullTest, FewerBytesThanSaidAreTriedAgain) {
  Fault({{"kind", "less"}, {"times", 1}});
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ReadAll(Snapshot() / "model.safetensors"), weights_);
}

TEST_F(PullTest, AModelThatCannotBeTrainedIsRefusedBeforeItsWeights) {
  hub_.Write("org/m/config.json", R"({"model_type": "mamba"})");
  const absl::Status refused = Run();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(refused.message()),
      testing::AllOf(HasSubstr("mpsd cannot train org/m"), HasSubstr("mamba")));
  EXPECT_THAT(hub_.Ranges(), IsEmpty());
}

TEST_F(PullTest, ShardsComeByTheirIndex) {
  const std::string first = Weights(5000, 2), second = Weights(6000, 3);
  hub_.Write("org/s/config.json", kLlamaConfig);
  hub_.Write("org/s/model-00001-of-00002.safetensors", first);
  hub_.Write("org/s/model-00002-of-00002.safetensors", second);
  hub_.Write("org/s/model.fp16.safetensors", Weights(7000, 4));
  hub_.Write("org/s/model.safetensors.index.json",
             Json{{"weight_map",
                   {{"a", "model-00001-of-00002.safetensors"},
                    {"b", "model-00002-of-00002.safetensors"}}}}
                 .dump());
  ASSERT_TRUE(Run("org/s").ok());
  const fs::path snapshot = Folder("org--s") / "snapshots" / commit_;
  EXPECT_EQ(ReadAll(snapshot / "model-00002-of-00002.safetensors"), second);
  EXPECT_FALSE(fs::exists(snapshot / "model.fp16.safetensors"));
  EXPECT_EQ(hub_.Ranges().size(), 2u);
}

TEST_F(PullTest, AsksForRoomBeforeTheWeights) {
  room_ = absl::ResourceExhaustedError("full");
  EXPECT_EQ(Run().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(asked_room_, ElementsAre(static_cast<int64_t>(kSize) + 2));
  EXPECT_THAT(hub_.Ranges(), IsEmpty());
}

TEST_F(PullTest, StopEndsItAtOnceAndKeepsWhatCame) {
  Fault({{"kind", "drip"}});
  at_news_ = [this](const models::PullNews& news) {
    const int64_t left = news.total_bytes - news.received_bytes;
    if (left > 0 && left < static_cast<int64_t>(kSize)) pull_->Stop();
  };
  const absl::Time start = absl::Now();
  EXPECT_EQ(Run().code(), StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  EXPECT_TRUE(fs::exists(Part()));
}

TEST_F(PullTest, StopEndsAPauseToo) {
  options_.first_pause = absl::Minutes(5);
  Fault({{"path", "/api/models"}, {"kind", "status"}, {"code", 500}});
  at_news_ = [this](const models::PullNews&) { pull_->Stop(); };
  const absl::Time start = absl::Now();
  EXPECT_EQ(Run().code(), StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST_F(PullTest, WaitsForAnotherProgramThatFetchesTheSame) {
  HubFile file{"model.safetensors", static_cast<int64_t>(kSize),
               base::Sha256Hex(weights_)};
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  auto other = folder.OpenPart(file).value();
  at_news_ = [&](const models::PullNews& news) {
    if (!absl::StrContains(news.note, "another program fetches")) return;
    ASSERT_TRUE(other->Append(weights_).ok());
    ASSERT_TRUE(other->Finish().ok());
    other.reset();
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(hub_.Ranges(), IsEmpty()) << "the other one brought it";
}

}  // namespace
}  // namespace mpsd::hub
