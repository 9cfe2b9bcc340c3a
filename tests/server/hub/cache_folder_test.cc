// SPDX-License-Identifier: Apache-2.0
#include "server/hub/cache_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/sha256.h"
#include "core/spec/train_spec.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::hub {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ReadAll(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class CacheFolderTest : public testing::Test {
 protected:
  static HubFile File(const std::string& path, const std::string& content) {
    return {path, static_cast<int64_t>(content.size()),
            base::Sha256Hex(content)};
  }
  void Put(const CacheFolder& folder, const HubFile& file,
           const std::string& content) {
    auto part = folder.OpenPart(file).value();
    ASSERT_TRUE(part->Append(content).ok());
    ASSERT_TRUE(part->Finish().ok());
  }
  absl::StatusOr<std::string> Find(const std::string& id) {
    return spec::FindModelFolder(id, [this](const char* name) {
      return std::string_view(name) == "HF_HUB_CACHE" ? cache_.c_str()
                                                      : nullptr;
    });
  }

  const fs::path cache_ = testing_support::FreshFolder("cache");
  const std::string commit_ = std::string(40, 'c');
};

TEST_F(CacheFolderTest, IsTheLayoutThatTransformersReads) {
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  Listing listing{commit_,
                  {File("config.json", "{}"),
                   File("additional_chat_templates/rag.jinja", "x")}};
  Put(folder, listing.files[0], "{}");
  Put(folder, listing.files[1], "x");
  ASSERT_TRUE(folder.Publish(listing, "refs/pr/1").ok());
  ASSERT_TRUE(folder.Publish(listing, "main").ok());
  const fs::path model = cache_ / "models--org--m";
  EXPECT_EQ(ReadAll(model / "refs/main"), commit_);
  EXPECT_EQ(ReadAll(model / "refs/refs/pr/1"), commit_);
  const fs::path snapshot = model / "snapshots" / commit_;
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"),
            "../../blobs/" + listing.files[0].hash);
  EXPECT_EQ(fs::read_symlink(snapshot / listing.files[1].path),
            "../../../blobs/" + listing.files[1].hash);
  EXPECT_EQ(ReadAll(snapshot / "config.json"), "{}");
  EXPECT_EQ(Find("org/m").value(), snapshot.string());
  EXPECT_TRUE(fs::exists(cache_ / ".locks/models--org--m" /
                         (listing.files[0].hash + ".lock")));
}

TEST_F(CacheFolderTest, ACommitGetsNoRef) {
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  const Listing listing{commit_, {File("config.json", "{}")}};
  Put(folder, listing.files[0], "{}");
  ASSERT_TRUE(folder.Publish(listing, commit_).ok());
  EXPECT_TRUE(fs::is_empty(cache_ / "models--org--m/refs"));
  EXPECT_TRUE(Find("org/m").ok());
}

// Between two steps of Publish a kill leaves what nobody takes for a model: the
// links come before config.json, and the ref after it.
TEST_F(CacheFolderTest, AModelIsFoundWhenItIsWholeAlone) {
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  const Listing listing{
      commit_, {File("config.json", "{}"), File("model.safetensors", "w")}};
  Put(folder, listing.files[0], "{}");
  const fs::path snapshot = cache_ / "models--org--m/snapshots" / commit_;
  // A folder in the place of a link: the link fails, config.json does not come.
  fs::create_directories(snapshot / "model.safetensors" / "x");
  EXPECT_FALSE(folder.Publish(listing, "main").ok());
  EXPECT_FALSE(fs::exists(snapshot / "config.json"));
  EXPECT_FALSE(fs::exists(cache_ / "models--org--m/refs/main"));
  EXPECT_FALSE(Find("org/m").ok());
}

TEST_F(CacheFolderTest, ALinkThatWasOtherwiseIsReplaced) {
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  const Listing listing{commit_, {File("config.json", "{}")}};
  Put(folder, listing.files[0], "{}");
  const fs::path snapshot = cache_ / "models--org--m/snapshots" / commit_;
  fs::create_directories(snapshot);
  std::ofstream(snapshot / "config.json") << "old";
  ASSERT_TRUE(folder.Publish(listing, "main").ok());
  ASSERT_TRUE(folder.Publish(listing, "main").ok()) << "again changes nothing";
  EXPECT_EQ(ReadAll(snapshot / "config.json"), "{}");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(snapshot)) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, testing::ElementsAre("config.json"));
}

TEST_F(CacheFolderTest, KnowsWhatIsThere) {
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  const HubFile file = File("w", "0123456789");
  EXPECT_FALSE(folder.Has(file));
  EXPECT_EQ(folder.BytesOf(file), 0);
  ASSERT_TRUE(folder.OpenPart(file).value()->Append("0123").ok());
  EXPECT_EQ(folder.BytesOf(file), 4);
  ASSERT_TRUE(folder.OpenPart(file).value()->Append("456789").ok());
  ASSERT_TRUE(folder.OpenPart(file).value()->Finish().ok());
  EXPECT_TRUE(folder.Has(file));
  EXPECT_EQ(folder.BytesOf(file), 10);
  // Cut by a disk that failed: not the file.
  fs::resize_file(folder.BlobOf(file), 9);
  EXPECT_FALSE(folder.Has(file));
}

TEST_F(CacheFolderTest, NamesThatDifferByCaseAreNotMixed) {
  ASSERT_TRUE(CacheFolder::Open(cache_, "Org/Model").ok());
  ASSERT_TRUE(CacheFolder::Open(cache_, "Org/Model").ok());
  const auto other = CacheFolder::Open(cache_, "org/model");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("models--Org--Model"));
}

TEST_F(CacheFolderTest, PartsThatNobodyWritesGo) {
  const fs::path blobs = cache_ / "models--org--m/blobs";
  fs::create_directories(blobs);
  const std::string hash(64, 'a');
  for (const char* name : {".incomplete", "", ".1a2b3c4d.incomplete"}) {
    std::ofstream(blobs / (hash + name)) << "x";
  }
  fs::create_symlink(blobs / hash,
                     blobs / absl::StrCat(std::string(40, 'b'), ".incomplete"));
  EXPECT_EQ(CacheFolder::RemoveOldParts(cache_, absl::Now() - absl::Hours(1)),
            0);
  EXPECT_EQ(CacheFolder::RemoveOldParts(cache_, absl::Now() + absl::Hours(1)),
            1);
  EXPECT_FALSE(fs::exists(blobs / (hash + ".incomplete")));
  EXPECT_TRUE(fs::exists(blobs / hash));
  EXPECT_TRUE(fs::exists(blobs / (hash + ".1a2b3c4d.incomplete")));
  EXPECT_EQ(CacheFolder::RemoveOldParts(cache_ / "none", absl::Now()), 0);
}

TEST_F(CacheFolderTest, NothingButRefsLiesInRefs) {
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  const Listing listing{commit_, {File("config.json", "{}")}};
  Put(folder, listing.files[0], "{}");
  fs::create_directories(cache_ / "models--org--m/refs/main/x");
  EXPECT_FALSE(folder.Publish(listing, "main").ok());
  int files = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(cache_ / "models--org--m")) {
    const bool file = entry.is_regular_file() && !entry.is_symlink();
    files += file ? 1 : 0;
  }
  EXPECT_EQ(files, 1) << "the blob";
}

TEST_F(CacheFolderTest, ARefThatIsAFolderIsAnError) {
  const CacheFolder folder = CacheFolder::Open(cache_, "org/m").value();
  const Listing listing{commit_, {File("config.json", "{}")}};
  Put(folder, listing.files[0], "{}");
  ASSERT_TRUE(folder.Publish(listing, "a/b").ok());
  EXPECT_FALSE(folder.Publish(listing, "a").ok());
  EXPECT_FALSE(folder.Publish(listing, "a/b/c").ok());
}

}  // namespace
}  // namespace mpsd::hub
