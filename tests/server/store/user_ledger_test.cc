// SPDX-License-Identifier: Apache-2.0
#include "server/store/user_ledger.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "server/store/blob_store.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::jobs {
namespace {

using store::BlobStore;

namespace fs = std::filesystem;

class UserLedgerTest : public testing::Test {
 protected:
  UserLedgerTest() {
    fs::create_directories(scratch_.path() / "jobs");
    Open();
  }
  // As a daemon that starts again.
  void Open() {
    ledger_.reset();
    blobs_.reset();
    database_.reset();
    database_ = OpenOrDie(scratch_.file());
    auto blobs = BlobStore::Open(*database_, scratch_.path() / "blobs");
    ASSERT_TRUE(blobs.ok()) << blobs.status();
    blobs_ = *std::move(blobs);
    ledger_ = std::make_unique<UserLedger>(*database_, FolderBytes());
  }
  std::string Put(const std::string& bytes) {
    const std::string name = base::Sha256Hex(bytes);
    auto writer = blobs_->Begin(name, bytes.size());
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->Append(bytes).ok());
    EXPECT_TRUE((*writer)->Commit().ok());
    return name;
  }
  // An upload as the API makes it.
  absl::Status Send(const std::string& user, const std::string& bytes,
                    const UploadCheck& check = {}) {
    auto claim = ledger_->Begin(user, check);
    absl::Status added = claim->Add(base::Sha256Hex(bytes), bytes.size());
    if (!added.ok()) return added;
    Put(bytes);
    return claim->Commit();
  }
  int64_t Uploads(const std::string& user) {
    auto bytes = ledger_->BytesOf(user);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes->uploads;
  }
  static UploadCheck Most(int64_t most) {
    return [most](int64_t bytes, int64_t more) {
      return bytes + more <= most
                 ? absl::OkStatus()
                 : absl::ResourceExhaustedError(
                       absl::StrCat(bytes, " and ", more, ", at most ", most));
    };
  }
  UserLedger::BytesBy FolderBytes() {
    return [this](const std::string& id) { return folder_bytes_[id]; };
  }

  Scratch scratch_;
  std::map<std::string, int64_t> folder_bytes_;  // by job
  std::unique_ptr<Database> database_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<UserLedger> ledger_;
};

TEST_F(UserLedgerTest, ABlobCountsOnceForEachUserWhoSendsIt) {
  ASSERT_TRUE(Send("ada", "1234567").ok());
  ASSERT_TRUE(Send("ada", "1234567").ok());
  ASSERT_TRUE(Send("bob", "1234567").ok());
  ASSERT_TRUE(Send("bob", "123").ok());
  EXPECT_EQ(Uploads("ada"), 7);
  EXPECT_EQ(Uploads("bob"), 10);
  EXPECT_EQ(Uploads("eve"), 0);
  EXPECT_TRUE(*ledger_->Holds("bob", base::Sha256Hex("123")));
  EXPECT_FALSE(*ledger_->Holds("ada", base::Sha256Hex("123")));
  EXPECT_FALSE(*ledger_->Holds("bob", "nothing"));
  Open();
  EXPECT_EQ(Uploads("ada"), 7);
  EXPECT_EQ(Uploads("bob"), 10);
}

TEST_F(UserLedgerTest, AnUploadThatBreaksOffCountsForNoUser) {
  {
    auto claim = ledger_->Begin("ada", Most(10));
    ASSERT_TRUE(claim->Add(base::Sha256Hex("x"), 10).ok());
    EXPECT_FALSE(ledger_->Begin("ada", Most(10))->Add("y", 1).ok());
  }
  EXPECT_EQ(Uploads("ada"), 0);
  EXPECT_TRUE(ledger_->Begin("ada", Most(10))->Add("y", 10).ok());
}

TEST_F(UserLedgerTest, WhatIsKeptOfAnUploadCounts) {
  ledger_ = std::make_unique<UserLedger>(
      *database_, FolderBytes(),
      [this](const std::string& user) { return blobs_->KeptBytesOf(user); });
  const std::string sha256 = base::Sha256Hex("1234567");
  {
    auto writer = Ok(blobs_->Resume("ada", sha256, 7, 0));
    ASSERT_TRUE(writer->Append("1234").ok());
  }
  EXPECT_EQ(Uploads("ada"), 4);
  EXPECT_EQ(Uploads("bob"), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(Send("ada", "abcdefg", Most(10))));
  // The upload resumes, and its bytes count once.
  auto writer = blobs_->Resume("ada", sha256, 7, 4);
  auto claim = ledger_->Begin("ada", Most(7));
  EXPECT_TRUE(claim->Add(sha256, 3).ok());
  ASSERT_FALSE(*(*writer)->CatchUp());
  ASSERT_TRUE((*writer)->Append("567").ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  ASSERT_TRUE(claim->Commit().ok());
  EXPECT_EQ(Uploads("ada"), 7);
}

TEST_F(UserLedgerTest, TheLimitHoldsAtItsFigureAndOnePastIt) {
  ASSERT_TRUE(Send("ada", "1234567", Most(10)).ok());
  EXPECT_THAT(
      Send("ada", "abcd", Most(10)),
      Fails(absl::StatusCode::kResourceExhausted, "7 and 4, at most 10"));
  EXPECT_TRUE(Send("ada", "abc", Most(10)).ok());
  EXPECT_EQ(Uploads("ada"), 10);
  // The limit is the user's, not the machine's.
  EXPECT_TRUE(Send("bob", "abcd", Most(10)).ok());
}

// What each announces fits alone.
TEST_F(UserLedgerTest, UploadsAtOnceDoNotPassTogether) {
  std::atomic<int> passed = 0;
  std::vector<std::thread> threads;
  threads.reserve(50);
  for (int i = 0; i < 50; ++i) {
    threads.emplace_back([&, i] {
      const std::string bytes = std::to_string(100 + i);
      passed += Send("ada", bytes, Most(30)).ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 10);
  EXPECT_EQ(Uploads("ada"), 30);
}

TEST_F(UserLedgerTest, AJobCountsTheBlobsOfOthersForItsUserToo) {
  const std::string a = Put("1234567"), b = Put("abc");
  ASSERT_TRUE(ledger_->Use("ada", Most(10), {a, b}).ok());
  EXPECT_EQ(Uploads("ada"), 10);
  ASSERT_TRUE(ledger_->Use("ada", Most(10), {a, b}).ok());
  EXPECT_EQ(Uploads("ada"), 10);
  const std::string c = Put("x");
  EXPECT_TRUE(absl::IsResourceExhausted(ledger_->Use("ada", Most(10), {a, c})));
  EXPECT_EQ(Uploads("ada"), 10) << "what was refused does not count";
  EXPECT_TRUE(ledger_->Use("ada", {}, {c}).ok());
  EXPECT_EQ(Uploads("ada"), 11);
  // A blob that the store does not have: Submit says so.
  EXPECT_TRUE(ledger_->Use("ada", {}, {base::Sha256Hex("nothing")}).ok());
  EXPECT_EQ(Uploads("ada"), 11);
}

TEST_F(UserLedgerTest, WhatIsAnnouncedCountsForJobsToo) {
  const std::string blob = Put("1234567");
  auto claim = ledger_->Begin("ada", Most(10));
  ASSERT_TRUE(claim->Add(base::Sha256Hex("x"), 4).ok());
  EXPECT_FALSE(ledger_->Use("ada", Most(10), {blob}).ok());
  claim.reset();
  EXPECT_TRUE(ledger_->Use("ada", Most(10), {blob}).ok());
}

TEST_F(UserLedgerTest, ABlobThatGoesCountsNoMore) {
  ASSERT_TRUE(Send("ada", "1234567").ok());
  ASSERT_TRUE(Send("bob", "1234567").ok());
  ASSERT_TRUE(blobs_->Collect(scratch_.path() / "jobs", absl::Hours(1)).ok());
  EXPECT_EQ(Uploads("ada"), 7);
  auto freed = Ok(blobs_->Collect(scratch_.path() / "jobs", -absl::Hours(1)));
  EXPECT_EQ(freed.bytes, 7);
  EXPECT_EQ(Uploads("ada"), 0);
  EXPECT_EQ(Uploads("bob"), 0);
  EXPECT_TRUE(Send("ada", "1234567", Most(7)).ok());
  EXPECT_EQ(Uploads("ada"), 7);
}

TEST_F(UserLedgerTest, ARemovedFileCountsNoMore) {
  ASSERT_TRUE(Send("ada", "1234567").ok());
  fs::remove(blobs_->PathOf(base::Sha256Hex("1234567")));
  Open();
  EXPECT_EQ(Uploads("ada"), 0);
}

TEST_F(UserLedgerTest, ManyBlobsOfOneJob) {
  std::set<std::string> names;
  Connection& c = database_->writer();
  {
    absl::MutexLock lock(&c.mutex());
    Transaction transaction(c);
    for (int i = 0; i < 1201; ++i) {
      names.insert(base::Sha256Hex(std::to_string(i)));
      Query(c,
            "INSERT INTO blobs (sha256, size_bytes, create_time_us) "
            "VALUES (?, 2, 0)",
            base::Sha256Hex(std::to_string(i)))
          .Run();
    }
    transaction.Commit();
  }
  EXPECT_FALSE(ledger_->Use("ada", Most(2401), names).ok());
  EXPECT_TRUE(ledger_->Use("ada", Most(2402), names).ok());
  EXPECT_EQ(Uploads("ada"), 2402);
}

TEST_F(UserLedgerTest, ResultsAreTheFoldersOfAUsersJobs) {
  JobStore store(*database_);
  std::vector<Job> made;
  for (int i = 1; i <= 3; ++i) {
    Job job = QueuedJob(i);
    job.owner = i == 3 ? "bob" : "ada";
    ASSERT_TRUE(store.Insert(job, StateEvent(job, 1)).ok());
    made.push_back(job);
  }
  ASSERT_TRUE(store.AddCheckpoint(made[0].id, {{5, "/step-5", 100}, {}}).ok());
  EXPECT_EQ(ledger_->BytesOf("ada")->results, 100);
  // What was measured counts where it is more: results, and logs.
  folder_bytes_ = {{made[0].id, 130}, {made[1].id, 7}, {made[2].id, 9}};
  EXPECT_EQ(ledger_->BytesOf("ada")->results, 137);
  EXPECT_EQ(ledger_->BytesOf("bob")->results, 9);
  // A checkpoint since the measurement.
  ASSERT_TRUE(
      store.AddCheckpoint(made[0].id, {{10, "/step-10", 100}, {}}).ok());
  EXPECT_EQ(ledger_->BytesOf("ada")->results, 207);
  // A job that was deleted counts no more, though its folder was measured.
  made[0].state = State::kCancelled;
  ASSERT_TRUE(store.Update(made[0], {}).ok());
  ASSERT_TRUE(store.Delete(made[0].id).ok());
  EXPECT_EQ(ledger_->BytesOf("ada")->results, 7);
}

TEST(PullLedger, CountsWhatEachUserPulledUntilTheModelGoes) {
  Scratch scratch;
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  models::PullLedger pulls(*database);
  ASSERT_TRUE(pulls.Add("org/a", "ann", 5).ok());
  ASSERT_TRUE(pulls.Add("org/a", "ann", 2).ok());
  ASSERT_TRUE(pulls.Add("org/a", "bob", 1).ok());
  ASSERT_TRUE(pulls.Add("org/b", "ann", 4).ok());
  EXPECT_THAT(
      *pulls.All(),
      ElementsAre(Pair("org/a", ElementsAre(Pair("ann", 7), Pair("bob", 1))),
                  Pair("org/b", ElementsAre(Pair("ann", 4)))));
  UserLedger users(*database);
  EXPECT_EQ(users.BytesOf("ann")->uploads, 11);
  EXPECT_EQ(users.BytesOf("eve")->uploads, 0);
  ASSERT_TRUE(pulls.Remove("org/a").ok());
  EXPECT_EQ(users.BytesOf("ann")->uploads, 4);
  EXPECT_EQ(users.BytesOf("bob")->uploads, 0);
  ASSERT_TRUE(pulls.Remove("org/b").ok());
  EXPECT_THAT(*pulls.All(), IsEmpty());
}

class ModelUsesTest : public MemoryFixture {
 protected:
  Job Insert(int number, const std::string& model, const std::string& folder) {
    Job job = QueuedJob(number);
    job.model = model;
    job.spec_json = absl::StrCat(R"({"model":")", folder, "\"}");
    return StoreFixture::Insert(job);
  }
  void Move(Job& job, State state, int64_t start_us = 0) {
    job.state = state;
    if (start_us != 0) job.start_time = absl::FromUnixMicros(start_us);
    Update(job);
  }

  models::ModelUses uses_{*database_};
};

TEST_F(ModelUsesTest, CountsJobsThatHaveNotEnded) {
  EXPECT_THAT(*uses_.All(), IsEmpty());
  Job first = Insert(1, "m", "/s/1");
  Job second = Insert(2, "m", "/s/2");
  Job other = Insert(3, "org/n", "/s/3");
  EXPECT_EQ((*uses_.All())["m"].unfinished, 2);
  EXPECT_EQ((*uses_.All())["m"].last_start, std::nullopt);
  EXPECT_THAT(*uses_.UnfinishedFolders(), ElementsAre("/s/1", "/s/2", "/s/3"));
  EXPECT_THAT(*uses_.FoldersOf("m"), ElementsAre("/s/1", "/s/2"));
  Move(first, State::kRunning, 5);
  EXPECT_EQ((*uses_.All())["m"].unfinished, 2);
  Move(first, State::kSucceeded);
  Move(other, State::kCancelled);
  EXPECT_EQ((*uses_.All())["m"].unfinished, 1);
  EXPECT_THAT(*uses_.UnfinishedFolders(), ElementsAre("/s/2"));
  EXPECT_THAT(*uses_.FoldersOf("m"), ElementsAre("/s/1", "/s/2"))
      << "of jobs that have ended, too";
  ASSERT_TRUE(jobs_.Delete(first.id).ok());
  EXPECT_THAT(*uses_.FoldersOf("m"), ElementsAre("/s/2"));
}

TEST_F(ModelUsesTest, TheLastStartOutlivesItsJob) {
  Job first = Insert(1, "m", "/s/1");
  Job second = Insert(2, "m", "/s/1");
  Move(first, State::kRunning, 70);
  Move(second, State::kRunning, 60);
  EXPECT_EQ((*uses_.All())["m"].last_start, absl::FromUnixMicros(70));
  Move(second, State::kQueued);
  Move(second, State::kRunning, 80);
  for (Job* job : {&first, &second}) {
    Move(*job, State::kFailed);
    ASSERT_TRUE(jobs_.Delete(job->id).ok());
  }
  const auto uses = *uses_.All();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses.at("m").last_start, absl::FromUnixMicros(80));
  EXPECT_EQ(uses.at("m").unfinished, 0);
}

// Each would be a row for ever.
TEST_F(ModelUsesTest, FoldersAndResultsOfJobsAreNotKept) {
  int number = 0;
  for (const std::string& model :
       {std::string("/models/m"), std::string("job:ID"), std::string(),
        std::string(200, 'm')}) {
    Job job = Insert(++number, model, "/s");
    Move(job, State::kRunning, 5);
    Move(job, State::kFailed);
  }
  EXPECT_THAT(*uses_.All(), IsEmpty());
}

TEST_F(ModelUsesTest, ARowThatIsNoJsonNamesNoFolder) {
  Job job = QueuedJob(1);
  job.model = "m";
  job.spec_json = "{";
  StoreFixture::Insert(job);
  EXPECT_THAT(*uses_.FoldersOf("m"), IsEmpty());
  EXPECT_THAT(*uses_.UnfinishedFolders(), IsEmpty());
  EXPECT_EQ((*uses_.All())["m"].unfinished, 1);
}

}  // namespace
}  // namespace mpsd::jobs
