// SPDX-License-Identifier: Apache-2.0
#include "client/run/file_picker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class FilePickerTest : public testing::Test {
 protected:
  bool Head(const std::string& path, int64_t size_bytes) {
    v1::DownloadResponse part;
    part.mutable_file()->set_path(path);
    part.mutable_file()->set_size_bytes(size_bytes);
    return picker_.Accept(part);
  }
  bool Data(const std::string& bytes) {
    v1::DownloadResponse part;
    part.set_data(bytes);
    return picker_.Accept(part);
  }

  std::map<std::string, std::string> files_;
  FilePicker picker_{files_};
};

TEST_F(FilePickerTest, KeepsTheFilesOfAPage) {
  EXPECT_TRUE(Head("confusion_matrix.json", 4));
  EXPECT_TRUE(Data("[1"));
  EXPECT_TRUE(Data("]\n"));
  EXPECT_TRUE(Head("run.json", 2));
  EXPECT_TRUE(Data("{}"));
  EXPECT_FALSE(Head("secret.json", 2));
  EXPECT_FALSE(Data("xx"));
  EXPECT_THAT(files_, ElementsAre(Pair("confusion_matrix.json", "[1]\n"),
                                  Pair("run.json", "{}")));
}

TEST_F(FilePickerTest, LargeFilesAreLeftOut) {
  EXPECT_FALSE(Head("run.json", (1 << 20) + 1));
  EXPECT_THAT(files_, IsEmpty());
}

TEST_F(FilePickerTest, PredictionsEndAfterAWholeLine) {
  const std::string line(1023, 'x');
  EXPECT_TRUE(Head("predictions.jsonl", int64_t{1} << 40));
  int lines = 0;
  while (Data(line + "\nrest of a")) ++lines;
  picker_.Cut();
  const std::string& kept = files_["predictions.jsonl"];
  EXPECT_LE(kept.size(), size_t{64} << 10);
  EXPECT_GT(kept.size(), size_t{60} << 10);
  EXPECT_EQ(kept.back(), '\n');
}

TEST_F(FilePickerTest, AFileThatBrokeOffIsForgotten) {
  EXPECT_TRUE(Head("run.json", 9));
  EXPECT_TRUE(Data("{"));
  picker_.Drop();
  EXPECT_THAT(files_, IsEmpty());
}

}  // namespace
}  // namespace mpsd::client
