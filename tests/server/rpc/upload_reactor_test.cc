// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/uploads.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;

class UploadTest : public Served {
 protected:
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

  // Whom the server takes this program for.
  std::string Caller() {
    v1::WhoAmIResponse me;
    EXPECT_TRUE(Ask(access_, &v1::AccessService::Stub::WhoAmI, {}, me).ok());
    return me.user();
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

TEST_F(UploadTest, GoesOnWhereAnEarlierOneBrokeOff) {
  const std::string sha256 = base::Sha256Hex("abcdef");
  const std::string me = Caller();
  blobs_.Keep(me, sha256, "abcd");
  ASSERT_TRUE(Upload({Header(sha256, 6, 4), Data("ef")}).ok());
  EXPECT_EQ(blobs_.Bytes(sha256), "abcdef");
  EXPECT_EQ(blobs_.caught_up(), 3) << "before the data is taken";
  EXPECT_TRUE(blobs_.AwaitNoWriters());
}

TEST_F(UploadTest, CatchingUpEndsWithItsClientAndHoldsNobodyUp) {
  const std::string sha256 = base::Sha256Hex("abcdef");
  blobs_.Keep(Caller(), sha256, "abcd");
  blobs_.CatchUpForever();
  // More of them than the uploads have threads.
  grpc::ClientContext contexts[8];
  v1::UploadResponse responses[8];
  std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> writers[8];
  for (int i = 0; i < 8; ++i) {
    writers[i] = artifacts_->Upload(&contexts[i], &responses[i]);
    ASSERT_TRUE(writers[i]->Write(Header(sha256, 6, 4)));
  }
  while (blobs_.caught_up() < 100) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(Upload({Header(base::Sha256Hex("x"), 1), Data("x")}).ok());
  for (auto& context : contexts) context.TryCancel();
  for (auto& writer : writers) EXPECT_FALSE(writer->Finish().ok());
  EXPECT_TRUE(blobs_.AwaitNoWriters());
}

TEST_F(UploadTest, TheServerEndsWhileOneCatchesUp) {
  const std::string sha256 = base::Sha256Hex("abcdef");
  blobs_.Keep(Caller(), sha256, "abcd");
  blobs_.CatchUpForever();
  grpc::ClientContext context;
  auto writer = artifacts_->Upload(&context, &response_);
  ASSERT_TRUE(writer->Write(Header(sha256, 6, 4)));
  while (blobs_.caught_up() == 0) absl::SleepFor(absl::Milliseconds(1));
  server_->Shutdown(absl::Seconds(1));
  EXPECT_FALSE(writer->Finish().ok());
  EXPECT_TRUE(blobs_.AwaitNoWriters());
}

TEST_F(UploadTest, GoesOnNowhereElse) {
  const std::string sha256 = base::Sha256Hex("abcdef");
  blobs_.Keep("somebody else", sha256, "abcd");
  const grpc::Status status = Upload({Header(sha256, 6, 4), Data("ef")});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_THAT(status.error_message(), HasSubstr("ask FindBlobs again"));
  ExpectInvalid(Upload({Header(sha256, 6, -1)}), "header.offset_bytes:");
  ExpectInvalid(Upload({Header(sha256, 6, 7)}), "header.offset_bytes: is 7");
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
    options.max_uploads_of_user = 3;
    return options;
  }
  SilentUploadTest() : Served(Impatient()) {}
};

TEST_F(SilentUploadTest, IsEnded) {
  // A client that is held up may be ended before its header has come: there is
  // another one then.
  for (int i = 0; i < 20 && blobs_.begun() == 0; ++i) {
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto writer = artifacts_->Upload(&context, &response);
    writer->Write(Header(std::string(64, 'a'), 2));
    EXPECT_EQ(writer->Finish().error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_GT(blobs_.begun(), 0);
  EXPECT_TRUE(blobs_.AwaitNoWriters());
}

TEST_F(SilentUploadTest, SoManyAtATime) {
  grpc::ClientContext contexts[50];
  v1::UploadResponse responses[50];
  std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> writers[50];
  for (int i = 0; i < 50; ++i) {
    writers[i] = artifacts_->Upload(&contexts[i], &responses[i]);
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

class ClaimTest : public UploadBatchTest {
 protected:
  std::unique_ptr<Sink<v1::UploadRequest>> Upload() {
    return MakeUploadSink(Blobs(), "ann", response_, Claim());
  }
  std::unique_ptr<jobs::UploadClaim> Claim() {
    return ledger_.Begin("ann", [this](int64_t, int64_t more) {
      if (more > most_) return absl::ResourceExhaustedError("too many bytes");
      claimed_.push_back(more);
      return absl::OkStatus();
    });
  }
  // The blobs as an admin sees them.
  std::unique_ptr<jobs::BlobUploads> Blobs() {
    return std::make_unique<SeenBlobs>(
        blobs_, nullptr, RightsOf("", false, access::Role::kAdmin));
  }
  bool Counts(const std::string& sha256) {
    return *ledger_.Holds("ann", sha256);
  }

  FakeLedger ledger_;
  int64_t most_ = 1 << 30;  // bytes of a blob
  std::vector<int64_t> claimed_;
};

TEST_F(ClaimTest, ABlobCountsOnceItIsStored) {
  const std::string sha256 = base::Sha256Hex("abc");
  ledger_.Store(sha256, 3);
  auto sink = Upload();
  ASSERT_TRUE(sink->Take(Header(sha256, 3)).ok());
  EXPECT_THAT(claimed_, testing::ElementsAre(3));
  ASSERT_TRUE(sink->Take(Data("abc")).ok());
  EXPECT_FALSE(Counts(sha256));
  ASSERT_TRUE(sink->End().ok());
  EXPECT_TRUE(Counts(sha256));
}

TEST_F(ClaimTest, WhatIsTooMuchIsRefusedBeforeItsBytes) {
  most_ = 2;
  EXPECT_TRUE(absl::IsResourceExhausted(
      Upload()->Take(Header(base::Sha256Hex("abc"), 3)).status()));
  EXPECT_TRUE(blobs_.AwaitNoWriters());
}

TEST_F(ClaimTest, WhatIsKeptIsNotCountedTwice) {
  const std::string sha256 = base::Sha256Hex("abcdef");
  blobs_.Keep("ann", sha256, "abcd");
  auto sink = Upload();
  EXPECT_EQ(*sink->Take(Header(sha256, 6, 4)), Push::kBusy);
  EXPECT_THAT(claimed_, testing::ElementsAre(2));
}

TEST_F(ClaimTest, WhatIsNotStoredDoesNotCount) {
  const std::string sha256 = base::Sha256Hex("abc");
  ledger_.Store(sha256, 3);
  auto sink = Upload();
  ASSERT_TRUE(sink->Take(Header(sha256, 3)).ok());
  ASSERT_TRUE(sink->Take(Data("xyz")).ok());
  EXPECT_FALSE(sink->End().ok());
  EXPECT_FALSE(Counts(sha256));
}

TEST_F(ClaimTest, WhatIsThereAlreadyCountsWithItsJob) {
  blobs_.Put("abc");
  auto sink = Upload();
  EXPECT_EQ(*sink->Take(Header(base::Sha256Hex("abc"), 3)), Push::kEnd);
  EXPECT_TRUE(claimed_.empty());
}

TEST_F(ClaimTest, ABatchIsRefusedAtTheBlobThatIsTooMuch) {
  blobs_.Put("old");
  most_ = 3;
  const std::string sha256 = base::Sha256Hex("abc");
  ledger_.Store(sha256, 3);
  v1::UploadBatchResponse response;
  auto sink = MakeBatchSink(Blobs(), response, Claim());
  v1::UploadBatchRequest request;
  for (const char* bytes : {"abc", "abc", "old"}) Add(bytes, request);
  ASSERT_TRUE(sink->Take(request).ok());
  EXPECT_EQ(claimed_.size(), 1u) << "each blob that is new counts once";
  request.clear_blobs();
  Add("long", request);
  EXPECT_TRUE(absl::IsResourceExhausted(sink->Take(request).status()));
  EXPECT_FALSE(Counts(sha256));
  ASSERT_TRUE(sink->End().ok());
  EXPECT_TRUE(Counts(sha256));
}

TEST(FindBlobs, TellsOfBlobsAndOfPartsThatTheCallerSent) {
  FakeBlobs blobs;
  const std::string a = base::Sha256Hex("a"), b = base::Sha256Hex("b"),
                    whole = base::Sha256Hex("whole"), c = base::Sha256Hex("c");
  blobs.Keep("ann", a, "12345");
  blobs.Keep("bob", b, "12345");
  blobs.Keep("ann", whole, "wh");
  blobs.Put("whole");
  blobs.Put("c");
  v1::FindBlobsRequest request;
  for (const std::string& sha256 : {b, a, whole, c}) request.add_sha256(sha256);
  v1::FindBlobsResponse response;
  ASSERT_TRUE(FindBlobs(blobs, "ann", request, response).ok());
  ASSERT_EQ(response.partial_size(), 1);
  EXPECT_EQ(response.partial(0).sha256(), a);
  EXPECT_EQ(response.partial(0).size_bytes(), 5);
  EXPECT_THAT(response.present(), testing::ElementsAre(whole, c));
}

TEST(FindBlobs, NamesTheBadHashAndTakesAThousand) {
  FakeBlobs blobs;
  v1::FindBlobsRequest request;
  for (int i = 0; i < 999; ++i) request.add_sha256(base::Sha256Hex("a"));
  request.add_sha256("../../etc/passwd");
  v1::FindBlobsResponse response;
  const absl::Status status = FindBlobs(blobs, "ann", request, response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith("sha256[999]:"));
  request.set_sha256(999, base::Sha256Hex("a"));
  EXPECT_TRUE(FindBlobs(blobs, "ann", request, response).ok());
  request.add_sha256(base::Sha256Hex("a"));
  EXPECT_TRUE(
      absl::IsInvalidArgument(FindBlobs(blobs, "ann", request, response)));
}

}  // namespace
}  // namespace mpsd::rpc
