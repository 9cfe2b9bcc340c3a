// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_book.h"

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/test_store.h"
#include "tests/server/fake_parts.h"
#include "tests/server/models/disk_blobs.h"
#include "tests/server/models/hub_cache.h"

namespace mpsd::models {
namespace {

class ModelFactsTest : public testing::Test {
 protected:
  ModelFactsTest() { Configure(kTinyConfig); }
  void Configure(const std::string& config) const {
    std::ofstream(folder_ / "config.json") << config;
  }
  ModelFacts Facts() const { return FactsOf(spec::ReadModelFolder(folder_)); }
  const fs::path folder_ = FreshFolder("facts");
};

TEST_F(ModelFactsTest, WhatMpsdCannotTrainSaysWhy) {
  Configure(R"({"architectures": ["T5Model"], "model_type": "t5\u001b[2J"})");
  ModelFacts facts = Facts();
  EXPECT_THAT(facts.tasks, IsEmpty());
  EXPECT_THAT(facts.problem, HasSubstr("t5"));
  EXPECT_EQ(facts.problem.find('\x1b'), std::string::npos);
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(Facts().problem, HasSubstr("no config.json"));
  Configure(kTinyConfig);
  std::ofstream(folder_ / "model.safetensors") << "broken";
  facts = Facts();
  EXPECT_THAT(facts.tasks, IsEmpty());
  EXPECT_THAT(facts.problem, HasSubstr("model.safetensors"));
}

class HubModelsTest : public testing::Test {
 protected:
  HubCache cache_;
};

TEST_F(HubModelsTest, ListsWhatJobsFind) {
  cache_.Put("org/b", "c0ffee", "12345");
  cache_.Put("a", "f00d", "123");
  fs::create_directories(cache_.path() / "models--org--empty" / "snapshots");
  fs::create_directories(cache_.path() / "datasets--org--data");
  const auto models = ListHubModels("", 10);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_EQ(models[1].name, "org/b");
  EXPECT_EQ(models[1].revision, "c0ffee");
  EXPECT_EQ(models[1].size_bytes,
            static_cast<int64_t>(sizeof(kTinyConfig) - 1 + 5 + 6))
      << "each blob once, and the ref";
  EXPECT_GT(models[1].create_time, absl::UnixEpoch());
  EXPECT_EQ(ListHubModels("", 1).size(), 1u);
  ASSERT_EQ(ListHubModels("org/b", 1).size(), 1u);
  EXPECT_TRUE(ListHubModels("org/none", 1).empty());
  // Without a cache there are no models.
  fs::remove_all(cache_.path());
  EXPECT_TRUE(ListHubModels("", 10).empty());
  SweepHubModels();
}

TEST_F(HubModelsTest, ARemovalThatWasCutOffEndsAtTheNextStart) {
  const fs::path cut = cache_.path() / ".models--org--b.17.1.tmp";
  const fs::path others = cache_.path() / ".other.17.1.tmp";
  fs::create_directories(cut / "blobs");
  fs::create_directories(others);
  cache_.Put("org/b", "c0ffee", "12345");
  SweepHubModels();
  EXPECT_FALSE(fs::exists(cut));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_EQ(ListHubModels("", 10).size(), 1u);
}

class ModelBookTest : public testing::Test {
 protected:
  ModelBook::Pushed Push(const std::string& name, const std::string& salt) {
    PushedModels::Request request;
    request.name = name;
    request.files = blobs_.PutModel(salt);
    request.user = "ada";
    auto pushed = book_.Push(request, blobs_, {});
    EXPECT_TRUE(pushed.ok()) << pushed.status();
    return pushed.ok() ? *std::move(pushed) : ModelBook::Pushed();
  }
  std::string FolderOf(const std::string& name) {
    return pushed_->Find(name)->folder;
  }
  void RemoveJobs() { db_.Execute("DELETE FROM jobs"); }

  const fs::path state_ = FreshFolder("book");
  HubCache cache_;
  fakes::TestStore db_;
  ModelUses uses_{db_.database()};
  fakes::FakePuller puller_;
  PullLedger pulls_{db_.database()};
  DiskBlobs blobs_{state_ / "blobs"};
  std::unique_ptr<PushedModels> pushed_ =
      *PushedModels::Open(state_ / "models", [](const std::string&) {});
  ModelBook book_{*pushed_, uses_, &puller_, &pulls_};
};

TEST_F(ModelBookTest, ListsPushedAndPulledByName) {
  Push("m", "1");
  cache_.Put("a/pulled", "c0ffee", "2");
  for (int i = 0; i < 3; ++i) db_.PutJobOf("m", FolderOf("m"));
  db_.Execute("INSERT INTO model_starts VALUES ('m', 5000000)");
  db_.PutJobOf("a/pulled", "");
  auto listed = book_.List("", {});
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 2u);
  const ListedModel& pulled = (*listed)[0];
  EXPECT_EQ(pulled.name, "a/pulled");
  EXPECT_TRUE(pulled.pulled);
  EXPECT_EQ(pulled.owner, "");
  EXPECT_EQ(pulled.revision, "c0ffee");
  EXPECT_EQ(pulled.use.unfinished, 1);
  const ListedModel& pushed = (*listed)[1];
  EXPECT_EQ(pushed.owner, "ada");
  EXPECT_EQ(pushed.facts->family, "llama");
  EXPECT_EQ(pushed.use.unfinished, 3);
  EXPECT_EQ(pushed.use.last_start, absl::FromUnixSeconds(5));
  listed = book_.List("a/pulled", {});
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_THAT(*book_.List("none", {}), IsEmpty());
}

TEST_F(ModelBookTest, AModelFitsIntoAMachineThatHasItsMemory) {
  const ListedModel model = Push("m", "1").model;
  EXPECT_FALSE(model.fits.has_value()) << "the machine's memory is not known";
  const int64_t least = model.facts->least_memory_bytes;
  EXPECT_EQ((*book_.List("m", {least, "", 0}))[0].fits, true);
  EXPECT_EQ((*book_.List("m", {least - 1, "", 0}))[0].fits, false);
  EXPECT_EQ((*book_.List("m", {least, "mps", 1}))[0].fits, false);
}

// An index may have 16 MiB: a list that read it would be an attack.
TEST_F(ModelBookTest, TheFactsOfAModelAreReadOnce) {
  const fs::path snapshot = cache_.Put("org/m", "c0ffee", "2");
  const auto spoil = [](const fs::path& config) {  // in place
    std::ofstream(config) << R"({"model_type": "other"})";
  };
  const auto family = [&](const std::string& name) {
    return (*book_.List(name, {}))[0].facts->family;
  };
  // The folder that a pull changes is read again.
  fs::last_write_time(snapshot,
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(family("org/m"), "llama");
  spoil(snapshot / "config.json");
  EXPECT_EQ(family("org/m"), "llama");
  fs::last_write_time(snapshot,
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(family("org/m"), "");
  // Those of a pushed model are in its manifest.
  Push("pushed", "1");
  spoil(fs::path(FolderOf("pushed")) / "config.json");
  pushed_ = *PushedModels::Open(state_ / "models", [](const auto&) {});
  ModelBook restarted(*pushed_, uses_, &puller_, &pulls_);
  const ListedModel listed = (*restarted.List("pushed", {}))[0];
  EXPECT_EQ(listed.facts->family, "llama");
  EXPECT_THAT(listed.facts->tasks, ElementsAre("CAUSAL_LM", "SEQ_CLS"));
  EXPECT_THAT(listed.facts->problem, HasSubstr("from_scratch"));
  EXPECT_GT(listed.facts->parameters, 1000);
  EXPECT_GT(listed.facts->least_memory_bytes, 0);
}

TEST_F(ModelBookTest, ANameThatBothHaveMeansThePushedOne) {
  Push("m", "1");
  cache_.Put("m", "c0ffee", "2");
  for (int i = 0; i < 3; ++i) db_.PutJobOf("m", "");
  const auto listed = *book_.List("m", {});
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_FALSE(listed[0].pulled);
  EXPECT_EQ(listed[0].use.unfinished, 3);
  EXPECT_TRUE(listed[1].pulled);
  EXPECT_EQ(listed[1].use.unfinished, 0);
  EXPECT_THAT(listed[1].facts->problem, HasSubstr("pushed model"));
  RemoveJobs();
  ASSERT_TRUE(book_.Remove("m", "ada", true).ok());
  EXPECT_TRUE((*book_.List("m", {}))[0].pulled);
  ASSERT_TRUE(book_.Remove("m", "ada", true).ok());
  EXPECT_TRUE(absl::IsNotFound(book_.Remove("m", "ada", true).status()));
}

TEST_F(ModelBookTest, AReplacedRevisionGoesWithItsLastJob) {
  Push("m", "1");
  const std::string old = FolderOf("m");
  db_.PutJobOf("m", old, jobs::State::kFailed);
  Push("m", "2");
  EXPECT_TRUE(fs::exists(old));
  EXPECT_EQ(*book_.Sweep(), 0);
  RemoveJobs();
  db_.PutJobOf("m", FolderOf("m"), jobs::State::kFailed);
  EXPECT_EQ(*book_.Sweep(), 1);
  EXPECT_FALSE(fs::exists(old));
  // At once where no job has it.
  const std::string second = FolderOf("m");
  RemoveJobs();
  Push("m", "3");
  EXPECT_FALSE(fs::exists(second));
}

TEST_F(ModelBookTest, APulledModelIsRemovedByAdminsAndOnlyIfNoJobNeedsIt) {
  const fs::path snapshot = cache_.Put("org/m", "c0ffee", "2");
  const auto refused = book_.Remove("org/m", "ada", false);
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("admin"));
  puller_.SetPulling("org/m");
  EXPECT_THAT(
      std::string(book_.Remove("org/m", "root", true).status().message()),
      HasSubstr("is being pulled"));
  ModelBook without_hub(*pushed_, uses_, nullptr);
  // By any path that leads there.
  const fs::path link = cache_.path().string() + "-link";
  fs::create_directory_symlink(cache_.path(), link);
  db_.PutJobOf("org/m", link / "models--org--m" / "snapshots" / "c0ffee");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      without_hub.Remove("org/m", "root", true).status()));
  fs::remove(link);
  RemoveJobs();
  EXPECT_TRUE(without_hub.Remove("org/m", "root", true).ok());
  EXPECT_FALSE(fs::exists(snapshot));
}

TEST_F(ModelBookTest, APulledModelIsRemovedByWhoAlonePulledIt) {
  const fs::path snapshot = cache_.Put("org/m", "c0ffee", "2");
  const fs::path locks = cache_.path() / ".locks" / "models--org--m";
  fs::create_directories(locks);
  const int64_t size = (*book_.List("org/m", {}))[0].size_bytes;
  ASSERT_TRUE(pulls_.Add("org/m", "ada", size - 1).ok());
  ASSERT_TRUE(pulls_.Add("org/m", "bob", 1).ok());
  EXPECT_EQ((*book_.List("org/m", {}))[0].owner, "ada");
  for (const char* user : {"ada", "bob", "eve"}) {
    EXPECT_TRUE(
        absl::IsPermissionDenied(book_.Remove("org/m", user, false).status()));
  }
  ASSERT_TRUE(pulls_.Remove("org/m").ok());
  ASSERT_TRUE(pulls_.Add("org/m", "ada", size).ok());
  EXPECT_TRUE(
      absl::IsPermissionDenied(book_.Remove("org/m", "eve", false).status()));
  EXPECT_EQ(*book_.Remove("org/m", "ada", false), size);
  EXPECT_FALSE(fs::exists(snapshot));
  EXPECT_FALSE(fs::exists(locks));
  EXPECT_THAT(*pulls_.All(), IsEmpty());
}

TEST_F(ModelBookTest, WhoPulledRemovesWhatHasNoConfigYet) {
  const fs::path blobs = cache_.path() / "models--org--m" / "blobs";
  fs::create_directories(blobs);
  std::ofstream(blobs / "1.incomplete") << "12345";
  ASSERT_TRUE(pulls_.Add("org/m", "ada", 5).ok());
  EXPECT_TRUE(
      absl::IsPermissionDenied(book_.Remove("org/m", "eve", false).status()));
  EXPECT_EQ(*book_.Remove("org/m", "ada", false), 5);
  EXPECT_THAT(*pulls_.All(), IsEmpty());
}

TEST_F(ModelBookTest, AModelWithoutTheRefMainIsNamedByItsRevision) {
  cache_.Put("org/m", "c0ffee", "2");
  fs::remove(cache_.path() / "models--org--m/refs/main");
  const auto listed = book_.List("org/m", {});
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ((*listed)[0].facts->problem, "no ref main: name it org/m@c0ffee");
}

TEST_F(ModelBookTest, APushedModelThatAJobNeedsStays) {
  Push("m", "1");
  db_.PutJobOf("m", FolderOf("m"));
  const auto refused = book_.Remove("m", "ada", false);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("mpsctl list --model m"));
  RemoveJobs();
  EXPECT_TRUE(book_.Remove("m", "ada", false).ok());
}

}  // namespace
}  // namespace mpsd::models
