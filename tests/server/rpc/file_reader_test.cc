// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/file_reader.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;

class FileReaderTest : public testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& bytes) {
    const fs::path path = scratch_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Scratch scratch_;
};

TEST_F(FileReaderTest, ReadsWhatIsThere) {
  std::string bytes(3'000'000, 'a');
  bytes[2'999'999] = 'b';
  auto reader = FileReader::Open(Write("f", bytes));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->size_bytes(), 3'000'000);
  EXPECT_FALSE(*(*reader)->HashNext(1'500'000));
  EXPECT_TRUE(*(*reader)->HashNext(1'500'000));
  EXPECT_TRUE(*(*reader)->HashNext(1));
  EXPECT_EQ((*reader)->sha256(), base::Sha256Hex(bytes));
  std::string read;
  while ((*reader)->left_bytes() > 0) {
    auto piece = (*reader)->Read(1'000'000);
    ASSERT_TRUE(piece.ok()) << piece.status();
    EXPECT_EQ(piece->size(), 1'000'000u);
    read += *piece;
  }
  EXPECT_EQ(read, bytes);
}

TEST_F(FileReaderTest, AnEmptyFileIsEmpty) {
  auto reader = FileReader::Open(Write("f", ""));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->left_bytes(), 0);
  EXPECT_TRUE(*(*reader)->HashNext(1));
  EXPECT_EQ((*reader)->sha256(), base::Sha256Hex(""));
}

TEST_F(FileReaderTest, AFileThatShrinksIsAborted) {
  const fs::path path = Write("f", "0123456789");
  auto reader = FileReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  fs::resize_file(path, 4);
  EXPECT_EQ((*reader)->Read(10).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ((*reader)->HashNext(10).status().code(),
            absl::StatusCode::kAborted);
}

TEST_F(FileReaderTest, OnlyRegularFilesAreOpened) {
  const auto code = [&](const fs::path& path) {
    return FileReader::Open(path).status().code();
  };
  EXPECT_EQ(code(scratch_.path() / "absent"), absl::StatusCode::kAborted);
  EXPECT_EQ(code(scratch_.path()), absl::StatusCode::kAborted);
  fs::create_symlink(Write("f", "x"), scratch_.path() / "link");
  EXPECT_EQ(code(scratch_.path() / "link"), absl::StatusCode::kAborted);
}

TEST_F(FileReaderTest, FilesBelowAreSortedAndWithoutLinks) {
  Write("d/b", "1");
  Write("d/a/z", "2");
  Write("d/a/y/x", "3");
  Write("outside/secret", "4");
  fs::create_directories(scratch_.path() / "d" / "empty");
  fs::create_symlink(scratch_.path() / "outside", scratch_.path() / "d/link");
  fs::create_symlink(scratch_.path() / "outside/secret",
                     scratch_.path() / "d/file_link");
  auto files = FilesBelow(scratch_.path() / "d");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, testing::ElementsAre("a/y/x", "a/z", "b"));
  EXPECT_EQ(FilesBelow(scratch_.path() / "absent").status().code(),
            absl::StatusCode::kAborted);
}

TEST_F(FileReaderTest, IsInsideResolvesLinksAndDots) {
  const fs::path top = scratch_.path();
  fs::create_directories(top / "in/deep");
  fs::create_directories(top / "in-not");
  EXPECT_TRUE(IsInside(top / "in", top / "in"));
  EXPECT_TRUE(IsInside(top / "in/deep", top / "in"));
  EXPECT_FALSE(IsInside(top / "in-not", top / "in"));
  EXPECT_FALSE(IsInside(top / "in/../in-not", top / "in"));
  EXPECT_FALSE(IsInside(top, top / "in"));
  EXPECT_FALSE(IsInside("/etc", top / "in"));
  fs::create_symlink("/etc", top / "in/link");
  EXPECT_FALSE(IsInside(top / "in/link", top / "in"));
}

}  // namespace
}  // namespace mpsd::rpc
