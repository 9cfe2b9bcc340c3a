// SPDX-License-Identifier: Apache-2.0
#include "client/upload.h"

#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class UploadTest : public ClientTest {
 protected:
  LocalFile File(const std::string& name, const std::string& bytes) {
    const std::string path = Write(name, bytes);
    return {name, path, base::Sha256Hex(bytes),
            static_cast<int64_t>(bytes.size())};
  }
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
}

TEST_F(UploadTest, TheSameContentOnce) {
  ASSERT_TRUE(Send({File("a", "same"), File("b", "same")}).ok());
  EXPECT_EQ(data().uploads, 1);
}

TEST_F(UploadTest, LargeFilesInPieces) {
  const std::string bytes(3'000'000, 'x');
  const LocalFile file = File("large", bytes);
  ASSERT_TRUE(Send({file}).ok());
  EXPECT_EQ(data().blobs[file.sha256], bytes);
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

TEST_F(UploadTest, AFileThatChangedMeanwhile) {
  const LocalFile file = File("a", "before");
  Write("a", "after!");
  EXPECT_EQ(Send({file}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
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
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "disk full");
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

TEST_F(UploadTest, OneByOneToAnOlderDaemon) {
  data().fail["UploadBatch"] =
      grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method");
  const std::vector<LocalFile> files = {File("a", "1"), File("b", "2")};
  ASSERT_TRUE(Send(files).ok());
  EXPECT_EQ(data().uploads, 2);
  EXPECT_EQ(data().blobs[files[1].sha256], "2");
}

TEST_F(UploadTest, ABusyDaemonIsWaitedFor) {
  data().fail["UploadBatch"] = grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                            "64 such transfers: try again");
  terminal_.sleep = [this](absl::Duration) {
    daemon_->Sync();
    if (++sleeps_ == 3) data().fail.clear();
  };
  EXPECT_TRUE(Send({File("a", "x")}).ok());
  EXPECT_EQ(sleeps_, 3);
  EXPECT_EQ(data().uploads, 1);
}

TEST_F(UploadTest, ADaemonThatStaysBusyIsNot) {
  data().fail["UploadBatch"] = grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                            "64 such transfers: try again");
  EXPECT_EQ(Send({File("a", "x")}).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(sleeps_, 6);
}

}  // namespace
}  // namespace mpsd::client
