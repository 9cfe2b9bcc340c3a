// SPDX-License-Identifier: Apache-2.0
#include "server/store/named_file_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/blob_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An id that sorts as `number`.
std::string IdOf(int number) {
  return absl::StrFormat("file-01J%023d", number);
}

class NamedFileStoreTest : public testing::Test {
 protected:
  NamedFileStoreTest() {
    fs::create_directories(scratch_.path() / "jobs");
    Open();
  }
  // As a daemon that starts again.
  void Open() {
    files_.reset();
    blobs_.reset();
    database_.reset();
    database_ = OpenOrDie(scratch_.file());
    blobs_ = *BlobStore::Open(*database_, scratch_.path() / "blobs");
    auto files = NamedFileStore::Open(*database_, *blobs_, folder_);
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
  }
  std::string Blob(const std::string& bytes) {
    auto blob = *blobs_->BeginUnnamed(0);
    EXPECT_TRUE(blob->Append(bytes).ok());
    return *blob->Commit();
  }
  absl::Status Put(int number, const std::string& owner = "ada") {
    return files_->Insert({IdOf(number), owner, "train.jsonl",
                           Blob("of " + owner), 6,
                           absl::FromUnixSeconds(number)});
  }
  std::vector<std::string> List(const jobs::NamedFiles::Page& page) {
    std::vector<std::string> ids;
    const auto files = files_->List("ada", page);
    EXPECT_TRUE(files.ok()) << files.status();
    for (const jobs::NamedFile& file : *files) ids.push_back(file.id);
    return ids;
  }
  std::vector<std::string> Links() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  Scratch scratch_;
  const fs::path folder_ = scratch_.path() / "files";
  std::unique_ptr<Database> database_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<NamedFileStore> files_;
};

TEST_F(NamedFileStoreTest, AFileOutlivesTheDaemon) {
  ASSERT_TRUE(Put(1).ok());
  Open();
  const auto file = files_->Get("ada", IdOf(1));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->id, IdOf(1));
  EXPECT_EQ(file->owner, "ada");
  EXPECT_EQ(file->name, "train.jsonl");
  EXPECT_EQ(file->sha256, Blob("of ada"));
  EXPECT_EQ(file->size_bytes, 6);
  EXPECT_EQ(file->create_time, absl::FromUnixSeconds(1));
}

TEST_F(NamedFileStoreTest, AFileOfAnotherIsNotThere) {
  ASSERT_TRUE(Put(1).ok());
  EXPECT_TRUE(absl::IsNotFound(files_->Get("bob", IdOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(files_->Remove("bob", IdOf(1))));
  EXPECT_TRUE(files_->Get("ada", IdOf(1)).ok());
  EXPECT_THAT(*files_->List("bob", {}), IsEmpty());
  // What is no id is not quoted.
  const std::string hostile = "../../\x1b[2J";
  const absl::Status none = files_->Get("ada", hostile).status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_THAT(std::string(none.message()), Not(HasSubstr("[2J")));
}

TEST_F(NamedFileStoreTest, ListsPageByPage) {
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(Put(i).ok());
  ASSERT_TRUE(Put(6, "bob").ok());
  EXPECT_THAT(List({.limit = 2}), ElementsAre(IdOf(5), IdOf(4)));
  EXPECT_THAT(List({.after = IdOf(4), .limit = 2}),
              ElementsAre(IdOf(3), IdOf(2)));
  EXPECT_THAT(List({.limit = 2, .oldest_first = true}),
              ElementsAre(IdOf(1), IdOf(2)));
  // A page goes on behind a file that is gone.
  ASSERT_TRUE(files_->Remove("ada", IdOf(2)).ok());
  EXPECT_THAT(List({.after = IdOf(2), .limit = 9, .oldest_first = true}),
              ElementsAre(IdOf(3), IdOf(4), IdOf(5)));
}

TEST_F(NamedFileStoreTest, ItsBlobStaysAsLongAsTheFile) {
  ASSERT_TRUE(Put(1).ok());
  ASSERT_TRUE(Put(2).ok());
  const std::string sha256 = Blob("of ada");
  const auto collect = [this] {
    return blobs_->Collect(scratch_.path() / "jobs", -absl::Hours(1))->bytes;
  };
  EXPECT_EQ(collect(), 0);
  ASSERT_TRUE(files_->Remove("ada", IdOf(1)).ok());
  EXPECT_EQ(collect(), 0);
  EXPECT_TRUE(fs::exists(blobs_->PathOf(sha256)));
  ASSERT_TRUE(files_->Remove("ada", IdOf(2)).ok());
  EXPECT_EQ(collect(), 6);
  EXPECT_FALSE(fs::exists(blobs_->PathOf(sha256)));
  EXPECT_THAT(Links(), IsEmpty());
}

TEST_F(NamedFileStoreTest, ABlobThatIsGoneMakesNoFile) {
  const absl::Status gone = files_->Insert(
      {IdOf(1), "ada", "a", std::string(64, 'a'), 1, absl::UnixEpoch()});
  EXPECT_TRUE(absl::IsAborted(gone)) << gone;
  EXPECT_TRUE(absl::IsNotFound(files_->Get("ada", IdOf(1)).status()));
}

// Killed between the link and its row, and between the row's end and the
// link's.
TEST_F(NamedFileStoreTest, LinksWithoutARowGoWithTheNextStart) {
  ASSERT_TRUE(Put(1).ok());
  fs::create_hard_link(blobs_->PathOf(Blob("of ada")), folder_ / IdOf(2));
  std::ofstream(folder_ / "a person's note") << "stays";
  Open();
  EXPECT_THAT(Links(),
              testing::UnorderedElementsAre(IdOf(1), "a person's note"));
}

TEST_F(NamedFileStoreTest, AUserHasSoManyFilesAndNoMore) {
  Connection& c = database_->writer();
  {
    absl::MutexLock lock(&c.mutex());
    Transaction transaction(c);
    for (int i = 0; i < limits::kNamedFiles - 1; ++i) {
      Query(c, "INSERT INTO named_files VALUES (?, 'ada', 'a', ?, 1, 1)",
            IdOf(i), std::string(64, 'a'))
          .Run();
    }
    transaction.Commit();
  }
  EXPECT_TRUE(Put(limits::kNamedFiles).ok());
  const absl::Status full = Put(limits::kNamedFiles + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("delete some"));
  EXPECT_THAT(Links(), ElementsAre(IdOf(limits::kNamedFiles)));
  EXPECT_TRUE(Put(limits::kNamedFiles + 2, "bob").ok());
  ASSERT_TRUE(files_->Remove("ada", IdOf(0)).ok());
  EXPECT_TRUE(Put(limits::kNamedFiles + 3).ok());
}

}  // namespace
}  // namespace mpsd::store
