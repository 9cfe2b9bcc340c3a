// SPDX-License-Identifier: Apache-2.0
#include "client/upload.h"

#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class UploadTest : public ClientTest {
 protected:
  LocalFile File(const std::string& name, const std::string& bytes) {
    return {name, Write(name, bytes), base::Sha256Hex(bytes),
            static_cast<int64_t>(bytes.size())};
  }
  static std::string Large() { return std::string(3'000'000, 'x'); }
  grpc::Status Send(const std::vector<LocalFile>& files) {
    Connection connection({"unix:" + socket_.string(), socket_.string()});
    return Upload({out_, out_, terminal_, connection, false}, files);
  }

  std::ostringstream out_;
};

TEST_F(UploadTest, WhatIsMissing) {
  const LocalFile there = File("a", "there");
  const LocalFile missing = File("b", "missing");
  data().blobs[there.sha256] = "there";
  ASSERT_TRUE(Send({there, missing}).ok());
  EXPECT_EQ(data().uploads, 1);
  EXPECT_EQ(data().blobs[missing.sha256], "missing");
  ASSERT_TRUE(Send({there, missing}).ok());
  EXPECT_EQ(data().uploads, 1) << "nothing is sent twice";
  ASSERT_TRUE(Send({File("a", "same"), File("b", "same")}).ok());
  EXPECT_EQ(data().uploads, 2);
}

TEST_F(UploadTest, MoreFilesThanOneQuestionMayHold) {
  std::vector<LocalFile> files;
  for (int i = 0; i < 1500; ++i) {
    const std::string bytes = std::to_string(i);
    files.push_back({bytes, socket_, base::Sha256Hex(bytes), 1});
    data().blobs[files.back().sha256] = bytes;
  }
  EXPECT_TRUE(Send(files).ok());
  EXPECT_EQ(data().uploads, 0);
}

TEST_F(UploadTest, GoesOnWithWhatTheDaemonKept) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().parts[file.sha256] = bytes.substr(0, 2'000'000);
  terminal_.is_tty = true;
  ASSERT_TRUE(Send({file}).ok());
  EXPECT_EQ(data().blobs[file.sha256], bytes);
  EXPECT_THAT(data().offsets, ElementsAre(2'000'000));
  // The bar counts what is there, and ends at the whole.
  EXPECT_NE(out_.str().find("2.5 MB/3.0 MB"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("3.0 MB/3.0 MB"), std::string::npos);
}

TEST_F(UploadTest, ABrokenConnectionIsMadeAgain) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().break_offs = {600'000, 600'000, 600'000};
  const grpc::Status sent = Send({file});
  ASSERT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(data().blobs[file.sha256], bytes);
  ASSERT_EQ(data().offsets.size(), 4u);
  EXPECT_EQ(data().offsets[0], 0);
  EXPECT_GE(data().offsets[1], 600'000);
  EXPECT_GT(data().offsets[3], data().offsets[2]);
  EXPECT_NE(out_.str().find("lost the connection"), std::string::npos);
}

TEST_F(UploadTest, OneThatBringsNothingEnds) {
  Fail("Upload", StatusCode::UNAVAILABLE, "Socket closed");
  EXPECT_EQ(Send({File("large", Large())}).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_GT(sleeps_, 100) << "ten minutes of two seconds";
  EXPECT_LT(sleeps_, 400);
}

TEST_F(UploadTest, AWrongPartIsSentAnew) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().parts[file.sha256] = std::string(1'000'000, '?');
  ASSERT_TRUE(Send({file}).ok());
  EXPECT_THAT(data().offsets, ElementsAre(1'000'000, 0));
  EXPECT_EQ(data().blobs[file.sha256], bytes);
}

TEST_F(UploadTest, APartThatIsLongerThanTheFileIsNotGoneOnWith) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().parts[file.sha256] = bytes + "more";
  ASSERT_TRUE(Send({file}).ok());
  EXPECT_THAT(data().offsets, ElementsAre(0));
}

TEST_F(UploadTest, AnotherOffsetIsAskedForAgain) {
  const LocalFile file = File("large", Large());
  Fail("Upload", StatusCode::OUT_OF_RANGE, "ask FindBlobs again");
  EXPECT_EQ(Send({file}).error_code(), StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(sleeps_, 0);
}

// The daemon finds out; mpsctl does not hash twice.
TEST_F(UploadTest, AWrongHashSaysWhatToDo) {
  LocalFile file = File("large", Large());
  Write("large", std::string(Large().size(), 'y'));
  const grpc::Status status = Send({file});
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("--rehash"));
  EXPECT_EQ(data().offsets.size(), 1u);
  file = File("small", "before");
  Write("small", "after!");
  EXPECT_EQ(Send({file}).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(UploadTest, AFileThatIsCutShortMeanwhile) {
  LocalFile large = File("large", Large()), small = File("small", "12345");
  Write("large", "short");
  Write("small", "1");
  EXPECT_THAT(Send({large}).error_message(),
              HasSubstr("large changed while it was sent"));
  EXPECT_THAT(Send({small}).error_message(),
              HasSubstr("small changed while it was sent"));
  Write("small", "123456");
  EXPECT_THAT(Send({small}).error_message(),
              HasSubstr("small changed while it was sent"));
  std::filesystem::remove(small.local);
  EXPECT_THAT(Send({small}).error_message(), HasSubstr("small"));
  EXPECT_TRUE(data().blobs.empty());
}

TEST_F(UploadTest, NoFilesNoCall) {
  daemon_->Stop();
  EXPECT_TRUE(Send({}).ok());
}

TEST_F(UploadTest, ShowsProgressOnATerminal) {
  terminal_.is_tty = true;
  ASSERT_TRUE(Send({File("a", "12345")}).ok());
  EXPECT_NE(out_.str().find("uploading a  5 B/5 B"), std::string::npos);
}

TEST_F(UploadTest, TheDaemonsErrorComesBack) {
  data().fail["Upload"] = data().fail["UploadBatch"] =
      grpc::Status(StatusCode::RESOURCE_EXHAUSTED, "disk full");
  EXPECT_EQ(Send({File("a", "x")}).error_message(), "disk full");
  EXPECT_EQ(Send({File("b", std::string(2 << 20, 'x'))}).error_message(),
            "disk full");
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(UploadTest, SmallFilesTogetherAndLargeOnesAlone) {
  std::vector<LocalFile> files;
  for (int i = 0; i < 2500; ++i) {
    files.push_back(File("small/" + std::to_string(i), std::to_string(i)));
  }
  files.push_back(File("empty", ""));
  files.push_back(File("limit", std::string(1 << 20, 'l')));
  files.push_back(File("large", std::string((1 << 20) + 1, 'l')));
  const grpc::Status sent = Send(files);
  ASSERT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(data().batches, 1);
  EXPECT_EQ(data().uploads, 2503);
  for (const LocalFile& file : files) {
    EXPECT_EQ(data().blobs[file.sha256], Read(file.local)) << file.path;
  }
}

TEST_F(UploadTest, ManyParcelsOverManyStreams) {
  std::vector<LocalFile> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(File(std::to_string(i),
                         std::string(1'000'000, 'a') + std::to_string(i)));
  }
  const grpc::Status sent = Send(files);
  ASSERT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(data().batches, 4);
  EXPECT_EQ(data().uploads, 100);
}

TEST_F(UploadTest, ABusyDaemonIsWaitedFor) {
  Fail("UploadBatch", StatusCode::UNAVAILABLE, "64 such transfers: try again");
  terminal_.sleep = [this](absl::Duration) {
    daemon_->Sync();
    if (++sleeps_ == 3) data().fail.clear();
  };
  EXPECT_TRUE(Send({File("a", "x")}).ok());
  EXPECT_EQ(sleeps_, 3);
  EXPECT_EQ(data().uploads, 1);
  Fail("UploadBatch", StatusCode::UNAVAILABLE, "64 such transfers: try again");
  EXPECT_EQ(Send({File("b", "y")}).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(sleeps_, 9) << "six more";
}

}  // namespace
}  // namespace mpsd::client
