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

class UploadBatchTest : public UploadTest {
 protected:
  static void Add(const std::string& bytes, v1::UploadBatchRequest& request) {
    v1::UploadBatchRequest::Blob& blob = *request.add_blobs();
    blob.set_sha256(base::Sha256Hex(bytes));
    blob.set_data(bytes);
  }
  grpc::Status UploadAll(const std::vector<v1::UploadBatchRequest>& messages) {
    grpc::ClientContext context;
    stored_.Clear();
    auto writer = artifacts_->UploadBatch(&context, &stored_);
    for (const v1::UploadBatchRequest& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  v1::UploadBatchResponse stored_;
};

TEST_F(UploadBatchTest, BlobsOfManyMessages) {
  blobs_.Put("there");
  std::vector<v1::UploadBatchRequest> messages(3);
  Add("a", messages[0]);
  Add("there", messages[0]);
  Add("", messages[2]);
  ASSERT_TRUE(UploadAll(messages).ok());
  EXPECT_EQ(stored_.stored(), 2);
  EXPECT_EQ(blobs_.Bytes(base::Sha256Hex("a")), "a");
  EXPECT_TRUE(blobs_.Has(base::Sha256Hex("")));
  EXPECT_TRUE(UploadAll({}).ok());
  EXPECT_EQ(stored_.stored(), 0);
}

TEST_F(UploadBatchTest, NothingIsKeptOfOneWithAnError) {
  v1::UploadBatchRequest good, bad;
  Add("a", good);
  Add("b", bad);
  bad.mutable_blobs(0)->set_data("c");
  ExpectInvalid(UploadAll({good, bad}), "hash");
  EXPECT_FALSE(blobs_.Has(base::Sha256Hex("a")));
  bad.mutable_blobs(0)->set_sha256("../b");
  ExpectInvalid(UploadAll({good, bad}), "blobs[0].sha256:");
  const std::string big((1 << 20) + 1, 'x');
  v1::UploadBatchRequest large;
  Add(big, large);
  ExpectInvalid(UploadAll({large}), "blobs[0].data:");
  v1::UploadBatchRequest many;
  for (int i = 0; i < 20'001; ++i) Add("x", many);
  ExpectInvalid(UploadAll({many}), "20000");
}

TEST_F(UploadBatchTest, NothingIsKeptOfOneThatBreaksOff) {
  v1::UploadBatchRequest good;
  Add("a", good);
  {
    grpc::ClientContext context;
    v1::UploadBatchResponse response;
    auto writer = artifacts_->UploadBatch(&context, &response);
    ASSERT_TRUE(writer->Write(good));
    ASSERT_TRUE(blobs_.AwaitWriter());
    context.TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  EXPECT_TRUE(blobs_.AwaitNoWriters());
  EXPECT_FALSE(blobs_.Has(base::Sha256Hex("a")));
}

// One that keeps silent is ended; one of many that find no room is told so.
class SilentUploadTest : public Served {
 protected:
  static Options Impatient() {
    Options options;
    options.upload_idle = absl::Milliseconds(300);
    options.max_uploads = 4;
    options.max_uploads_of_peer = 3;
    return options;
  }
  SilentUploadTest() : Served(Impatient()) {}
};

TEST_F(SilentUploadTest, IsEnded) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  auto writer = artifacts_->Upload(&context, &response);
  v1::UploadRequest header;
  header.mutable_header()->set_sha256(std::string(64, 'a'));
  header.mutable_header()->set_size_bytes(2);
  ASSERT_TRUE(writer->Write(header));
  ASSERT_TRUE(blobs_.AwaitWriter());
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(blobs_.AwaitNoWriters());
}

TEST_F(SilentUploadTest, SoManyAtATime) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<v1::UploadResponse>> responses;
  std::vector<std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>>> writers;
  for (int i = 0; i < 50; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    responses.push_back(std::make_unique<v1::UploadResponse>());
    writers.push_back(
        artifacts_->Upload(contexts.back().get(), responses.back().get()));
  }
  int idle = 0, refused = 0;
  for (auto& writer : writers) {
    const grpc::Status status = writer->Finish();
    idle += status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) continue;
    EXPECT_THAT(status.error_message(), HasSubstr("try again"));
    ++refused;
  }
  EXPECT_EQ(idle + refused, 50);
  EXPECT_GE(idle, 3);
  EXPECT_GE(refused, 1);
  // And there is room again, soon after the last has heard of its end.
  grpc::Status last;
  do {
    grpc::ClientContext context;
    v1::UploadBatchResponse response;
    auto batch = artifacts_->UploadBatch(&context, &response);
    batch->WritesDone();
    last = batch->Finish();
  } while (last.error_code() == grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(last.ok()) << last.error_message();
}

}  // namespace
}  // namespace mpsd::rpc
