// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/upload_reactor.h"

#include <memory>
#include <string>

#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;

class UploadTest : public Served {
 protected:
  static v1::UploadRequest Header(const std::string& sha256, int64_t size) {
    v1::UploadRequest request;
    request.mutable_header()->set_sha256(sha256);
    request.mutable_header()->set_size_bytes(size);
    return request;
  }
  static v1::UploadRequest Data(const std::string& bytes) {
    v1::UploadRequest request;
    request.set_data(bytes);
    return request;
  }
  // Sends the messages as long as the server takes them.
  grpc::Status Upload(const std::vector<v1::UploadRequest>& messages) {
    grpc::ClientContext context;
    response_.Clear();
    auto writer = artifacts_->Upload(&context, &response_);
    for (const v1::UploadRequest& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  void ExpectInvalid(const grpc::Status& status, const std::string& what) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(what));
    EXPECT_TRUE(blobs_.AwaitNoWriters());
  }

  v1::UploadResponse response_;
};

TEST_F(UploadTest, PiecesBecomeABlob) {
  const std::string piece(1 << 20, 'a');
  const std::string sha256 = base::Sha256Hex(piece + piece + "b");
  ASSERT_TRUE(Upload({Header(sha256, 2 * (1 << 20) + 1), Data(piece),
                      Data(piece), Data("b")})
                  .ok());
  EXPECT_EQ(response_.sha256(), sha256);
  EXPECT_FALSE(response_.existed());
  EXPECT_EQ(blobs_.Bytes(sha256), piece + piece + "b");
  EXPECT_TRUE(blobs_.AwaitNoWriters());
}

TEST_F(UploadTest, AnEmptyBlob) {
  ASSERT_TRUE(Upload({Header(base::Sha256Hex(""), 0)}).ok());
  EXPECT_TRUE(blobs_.Has(base::Sha256Hex("")));
}

TEST_F(UploadTest, WhatIsThereIsAnsweredBeforeTheDataCame) {
  blobs_.Put("a");
  grpc::ClientContext context;
  v1::UploadResponse response;
  auto writer = artifacts_->Upload(&context, &response);
  ASSERT_TRUE(writer->Write(Header(base::Sha256Hex("a"), 1)));
  // Neither data nor WritesDone: the answer comes all the same.
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(response.existed());
  EXPECT_EQ(response.sha256(), base::Sha256Hex("a"));
}

TEST_F(UploadTest, AnotherHashOrSizeIsRefused) {
  ExpectInvalid(Upload({Header(base::Sha256Hex("a"), 1), Data("b")}), "hash");
  ExpectInvalid(Upload({Header(base::Sha256Hex("a"), 2), Data("a")}), "size");
  ExpectInvalid(Upload({Header(base::Sha256Hex("a"), 1), Data("ab")}),
                "more bytes");
  EXPECT_FALSE(blobs_.Has(base::Sha256Hex("a")));
}

TEST_F(UploadTest, TheOrderOfMessagesIsKept) {
  const v1::UploadRequest header = Header(base::Sha256Hex("a"), 1);
  ExpectInvalid(Upload({}), "header: is missing");
  ExpectInvalid(Upload({Data("a")}), "before the header");
  ExpectInvalid(Upload({header, header}), "only once");
  ExpectInvalid(Upload({header, v1::UploadRequest()}), "part:");
}

TEST_F(UploadTest, FieldsAreChecked) {
  ExpectInvalid(Upload({Header("../../etc/passwd", 1)}), "header.sha256:");
  ExpectInvalid(Upload({Header(base::Sha256Hex("a"), -1)}),
                "header.size_bytes:");
  const std::string big((1 << 20) + 1, 'x');
  ExpectInvalid(Upload({Header(base::Sha256Hex(big), big.size()), Data(big)}),
                "data:");
}

TEST_F(UploadTest, AFullDiskIsResourceExhausted) {
  blobs_.FailBegin(absl::ResourceExhaustedError("no room"));
  const grpc::Status status = Upload({Header(base::Sha256Hex("a"), 1)});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "no room");
}

TEST_F(UploadTest, NothingStaysOfAnUploadThatBreaksOff) {
  const std::string sha256 = base::Sha256Hex("ab");
  {
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto writer = artifacts_->Upload(&context, &response);
    ASSERT_TRUE(writer->Write(Header(sha256, 2)));
    ASSERT_TRUE(writer->Write(Data("a")));
    ASSERT_TRUE(blobs_.AwaitWriter());
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(blobs_.AwaitNoWriters());
  EXPECT_FALSE(blobs_.Has(sha256));
}

}  // namespace
}  // namespace mpsd::rpc
