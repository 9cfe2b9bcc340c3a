// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/artifact_service.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/sha256.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;

using ArtifactServiceTest = Served;

TEST_F(ArtifactServiceTest, FindBlobsOverTheWire) {
  blobs_.Put("a");
  v1::FindBlobsRequest request;
  request.add_sha256(base::Sha256Hex("a"));
  request.add_sha256(base::Sha256Hex("b"));
  v1::FindBlobsResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(artifacts_->FindBlobs(&context, request, &response).ok());
  ASSERT_EQ(response.present().size(), 1);
  EXPECT_EQ(response.present(0), base::Sha256Hex("a"));
}

TEST_F(ArtifactServiceTest, DownloadOverTheWire) {
  const fs::path folder = fs::path(manager_.JobFolder("a")) / "adapter";
  fs::create_directories(folder / "sub");
  const std::string big(20'000'000, 'w');
  std::ofstream(folder / "sub" / "model") << big;
  jobs::Job job = FakeManager::MakeJob("a", jobs::State::kSucceeded);
  job.output_path = folder.string();
  manager_.Put(job);
  v1::DownloadRequest request;
  request.set_job_id("a");
  request.set_adapter(true);
  grpc::ClientContext context;
  auto reader = artifacts_->Download(&context, request);
  v1::DownloadResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.file().path(), "sub/model");
  EXPECT_EQ(message.file().sha256(), base::Sha256Hex(big));
  std::string bytes;
  while (reader->Read(&message)) bytes += message.data();
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes, big);
}

// More of them than there are threads, of files that take minutes to hash.
TEST_F(ArtifactServiceTest, LargeDownloadsHoldUpNobody) {
  const fs::path folder = fs::path(manager_.JobFolder("large")) / "model";
  fs::create_directories(folder);
  std::ofstream(folder / "weights") << "";
  fs::resize_file(folder / "weights", int64_t{1} << 36);  // a hole
  jobs::Job large = FakeManager::MakeJob("large", jobs::State::kSucceeded);
  large.output_path = folder.string();
  manager_.Put(large);
  const fs::path small = fs::path(manager_.JobFolder("small")) / "adapter";
  fs::create_directories(small);
  std::ofstream(small / "weights") << "w";
  jobs::Job job = FakeManager::MakeJob("small", jobs::State::kSucceeded);
  job.output_path = small.string();
  manager_.Put(job);

  constexpr int kLarge = 6;
  grpc::ClientContext contexts[kLarge];
  std::unique_ptr<grpc::ClientReader<v1::DownloadResponse>> readers[kLarge];
  v1::DownloadRequest request;
  request.set_output(true);
  request.set_job_id("large");
  for (int i = 0; i < kLarge; ++i) {
    readers[i] = artifacts_->Download(&contexts[i], request);
  }
  request.set_job_id("small");
  v1::DownloadResponse message;
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    auto reader = artifacts_->Download(&context, request);
    ASSERT_TRUE(reader->Read(&message));
    EXPECT_EQ(message.file().sha256(), base::Sha256Hex("w"));
    while (reader->Read(&message)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
  }
  for (int i = 0; i < kLarge; ++i) {
    contexts[i].TryCancel();
    EXPECT_FALSE(readers[i]->Read(&message));
    EXPECT_EQ(readers[i]->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server_->Shutdown(absl::Hours(1));  // nobody hashes on
}

TEST_F(ArtifactServiceTest, DownloadErrorsOverTheWire) {
  manager_.Put("a", jobs::State::kQueued);
  const auto error = [this](const std::string& id, bool adapter) {
    v1::DownloadRequest request;
    request.set_job_id(id);
    if (adapter) {
      request.set_adapter(true);
    } else {
      request.set_checkpoint_step(5);
    }
    grpc::ClientContext context;
    v1::DownloadResponse message;
    auto reader = artifacts_->Download(&context, request);
    EXPECT_FALSE(reader->Read(&message));
    return reader->Finish().error_code();
  };
  EXPECT_EQ(error("x", true), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(error("a", false), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(error("a", true), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(error("", true), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace mpsd::rpc
