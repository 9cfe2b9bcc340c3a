// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_book.h"

#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/models/disk_blobs.h"
#include "tests/server/models/fake_uses.h"
#include "tests/server/models/hub_cache.h"
#include "tests/server/rpc/fake_puller.h"

namespace mpsd::models {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// In memory.
class FakePulls final : public PullLedger {
 public:
  absl::Status Add(const std::string& model, const std::string& user,
                   int64_t bytes) override {
    all[model][user] += bytes;
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& model) override {
    all.erase(model);
    return absl::OkStatus();
  }
  absl::StatusOr<std::map<std::string, Bytes>> All() override { return all; }

  std::map<std::string, Bytes> all;
};

class ModelBookTest : public testing::Test {
 protected:
  ModelBookTest()
      : state_(fs::path(testing::TempDir()) /
               testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(state_);
    blobs_ = std::make_unique<DiskBlobs>(state_ / "blobs");
    pushed_ = *PushedModels::Open(state_ / "models", [](const std::string&) {});
    book_ = std::make_unique<ModelBook>(*pushed_, uses_, &puller_, &pulls_);
  }
  ~ModelBookTest() override { fs::remove_all(state_); }

  ModelBook::Pushed Push(const std::string& name, const std::string& salt) {
    PushedModels::Request request;
    request.name = name;
    request.files = blobs_->PutModel(salt);
    request.user = "ada";
    auto pushed = book_->Push(request, *blobs_, {});
    EXPECT_TRUE(pushed.ok()) << pushed.status();
    return pushed.ok() ? *std::move(pushed) : ModelBook::Pushed();
  }
  std::string FolderOf(const std::string& name) {
    return pushed_->Find(name)->folder;
  }

  const fs::path state_;
  HubCache cache_;
  FakeUses uses_;
  rpc::FakePuller puller_;
  FakePulls pulls_;
  std::unique_ptr<DiskBlobs> blobs_;
  std::unique_ptr<PushedModels> pushed_;
  std::unique_ptr<ModelBook> book_;
};

TEST_F(ModelBookTest, ListsPushedAndPulledByName) {
  Push("m", "1");
  cache_.Put("a/pulled", "c0ffee", "2");
  uses_.all["m"] = {absl::FromUnixSeconds(5), 3};
  uses_.all["a/pulled"] = {std::nullopt, 1};
  auto listed = book_->List("", {});
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
  EXPECT_EQ(pushed.facts.family, "llama");
  EXPECT_EQ(pushed.use.unfinished, 3);
  EXPECT_EQ(pushed.use.last_start, absl::FromUnixSeconds(5));
  listed = book_->List("a/pulled", {});
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_THAT(*book_->List("none", {}), IsEmpty());
}

TEST_F(ModelBookTest, ANameThatBothHaveMeansThePushedOne) {
  cache_.Put("m", "c0ffee", "2");
  Push("m", "1");
  uses_.all["m"] = {std::nullopt, 3};
  const auto listed = *book_->List("m", {});
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_FALSE(listed[0].pulled);
  EXPECT_EQ(listed[0].use.unfinished, 3);
  EXPECT_TRUE(listed[1].pulled);
  EXPECT_EQ(listed[1].use.unfinished, 0);
  EXPECT_THAT(listed[1].facts.problem, HasSubstr("pushed model"));
  ASSERT_TRUE(book_->Remove("m", "ada", true).ok());
  EXPECT_TRUE((*book_->List("m", {}))[0].pulled);
  ASSERT_TRUE(book_->Remove("m", "ada", true).ok());
  EXPECT_TRUE(absl::IsNotFound(book_->Remove("m", "ada", true).status()));
}

TEST_F(ModelBookTest, AReplacedRevisionGoesWithItsLastJob) {
  Push("m", "1");
  const std::string old = FolderOf("m");
  uses_.folders["m"] = {old};
  Push("m", "2");
  EXPECT_TRUE(fs::exists(old));
  EXPECT_EQ(*book_->Sweep(), 0);
  uses_.folders["m"] = {FolderOf("m")};
  EXPECT_EQ(*book_->Sweep(), 1);
  EXPECT_FALSE(fs::exists(old));
  // At once where no job has it.
  const std::string second = FolderOf("m");
  uses_.folders.clear();
  Push("m", "3");
  EXPECT_FALSE(fs::exists(second));
}

TEST_F(ModelBookTest, APulledModelIsRemovedByAdminsAndWhenNobodyNeedsIt) {
  const fs::path snapshot = cache_.Put("org/m", "c0ffee", "2");
  const auto refused = book_->Remove("org/m", "ada", false);
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("admin"));
  puller_.SetPulling("org/m");
  EXPECT_THAT(
      std::string(book_->Remove("org/m", "root", true).status().message()),
      HasSubstr("is being pulled"));
  ModelBook without_hub(*pushed_, uses_, nullptr);
  // By whatever way the path leads there.
  const fs::path link = cache_.path().string() + "-link";
  fs::create_directory_symlink(cache_.path(), link);
  uses_.unfinished = {link / "models--org--m" / "snapshots" / "c0ffee"};
  EXPECT_TRUE(absl::IsFailedPrecondition(
      without_hub.Remove("org/m", "root", true).status()));
  fs::remove(link);
  uses_.unfinished.clear();
  EXPECT_TRUE(without_hub.Remove("org/m", "root", true).ok());
  EXPECT_FALSE(fs::exists(snapshot));
}

TEST_F(ModelBookTest, APulledModelIsRemovedByWhoAlonePulledIt) {
  const fs::path snapshot = cache_.Put("org/m", "c0ffee", "2");
  const int64_t size = (*book_->List("org/m", {}))[0].size_bytes;
  pulls_.all["org/m"] = {{"ada", size - 1}, {"bob", 1}};
  EXPECT_EQ((*book_->List("org/m", {}))[0].owner, "ada");
  for (const char* user : {"ada", "bob", "eve"}) {
    EXPECT_TRUE(
        absl::IsPermissionDenied(book_->Remove("org/m", user, false).status()));
  }
  pulls_.all["org/m"] = {{"ada", size}};
  EXPECT_TRUE(
      absl::IsPermissionDenied(book_->Remove("org/m", "eve", false).status()));
  EXPECT_EQ(*book_->Remove("org/m", "ada", false), size);
  EXPECT_FALSE(fs::exists(snapshot));
  EXPECT_THAT(pulls_.all, IsEmpty());
}

TEST_F(ModelBookTest, AModelWithoutTheRefMainIsNamedByItsRevision) {
  cache_.Put("org/m", "c0ffee", "2");
  fs::remove(cache_.path() / "models--org--m/refs/main");
  const auto listed = book_->List("org/m", {});
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ((*listed)[0].facts.problem, "no ref main: name it org/m@c0ffee");
}

TEST_F(ModelBookTest, APushedModelThatAJobNeedsStays) {
  Push("m", "1");
  uses_.unfinished = {FolderOf("m")};
  const auto refused = book_->Remove("m", "ada", false);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("mpsctl list --model m"));
  uses_.unfinished.clear();
  EXPECT_TRUE(book_->Remove("m", "ada", false).ok());
}

}  // namespace
}  // namespace mpsd::models
