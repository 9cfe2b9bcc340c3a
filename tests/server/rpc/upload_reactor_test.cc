// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/base/sha256.h"
#include "server/rpc/uploads.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

const std::string kOfA = base::Sha256Hex("a");

class UploadTest : public testing::Test {
 protected:
  explicit UploadTest(InProcessDaemon::Options options = {})
      : daemon_(std::move(options)) {}

  absl::StatusOr<v1::FindBlobsResponse> Find(
      const Api& api, const std::vector<std::string>& names) {
    v1::FindBlobsRequest request;
    for (const std::string& sha256 : names) request.add_sha256(sha256);
    return api.Call(&Artifacts::FindBlobs, request);
  }
  std::string BytesOf(const std::string& sha256) const {
    std::ifstream file(daemon_.blobs->PathOf(sha256), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  InProcessDaemon daemon_;
  const Api ann_ = daemon_.As("ann");
};

TEST_F(UploadTest, PiecesBecomeABlobThatIsThereFromThenOn) {
  const std::string piece(1 << 20, 'a');
  const std::string sha256 = base::Sha256Hex(piece + piece + "b");
  const v1::UploadResponse made =
      Ok(Upload(ann_, {Header(sha256, 2 * (1 << 20) + 1), Data(piece),
                       Data(piece), Data("b")}));
  EXPECT_EQ(made.sha256(), sha256);
  EXPECT_FALSE(made.existed());
  EXPECT_EQ(BytesOf(sha256), piece + piece + "b");
  EXPECT_THAT(Upload(ann_, {Header(base::Sha256Hex(""), 0)}), IsOk());
  AwaitParts(daemon_, 0);
  // Neither data nor WritesDone: the answer comes all the same.
  const auto again = BeginUpload(ann_);
  ASSERT_TRUE(again->stream->Write(Header(sha256, 2 * (1 << 20) + 1)));
  ASSERT_THAT(again->Finish(), IsOk());
  EXPECT_TRUE(again->response.existed());
  EXPECT_EQ(again->response.sha256(), sha256);
}

TEST_F(UploadTest, WhatIsNoUploadIsRefused) {
  const v1::UploadRequest header = Header(kOfA, 1);
  const std::string big((1 << 20) + 1, 'x');
  struct Case {
    std::vector<v1::UploadRequest> messages;
    const char* says;
  };
  const Case cases[] = {
      {{}, "header: is missing"},
      {{Data("a")}, "before the header"},
      {{header, header}, "only once"},
      {{header, v1::UploadRequest()}, "part:"},
      {{Header("../../etc/passwd", 1)}, "header.sha256:"},
      {{Header(kOfA, -1)}, "header.size_bytes:"},
      {{Header(kOfA, 6, -1)}, "header.offset_bytes:"},
      {{Header(kOfA, 6, 7)}, "header.offset_bytes: is 7"},
      {{Header(base::Sha256Hex(big), static_cast<int64_t>(big.size())),
        Data(big)},
       "data:"},
      {{header, Data("b")}, "SHA-256"},
      {{header, Data("ab")}, "more came"},
      {{Header(kOfA, 2), Data("a")}, "announced with 2 bytes; 1 came"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Upload(ann_, c.messages),
                Fails(StatusCode::kInvalidArgument, c.says));
  }
  EXPECT_FALSE(daemon_.blobs->Has(kOfA));
  EXPECT_THAT(Upload(ann_, {Header(kOfA, int64_t{1} << 60)}),
              Fails(StatusCode::kResourceExhausted));  // more than the disk
}

TEST_F(UploadTest, ResumesWhereAnEarlierOneOfItsUserBrokeOff) {
  const std::string sha256 = base::Sha256Hex("abcdef");
  EXPECT_FALSE(Upload(ann_, {Header(sha256, 6), Data("abcd")}).ok());
  EXPECT_FALSE(daemon_.blobs->Has(sha256));
  const v1::FindBlobsResponse found = Ok(Find(ann_, {kOfA, sha256}));
  ASSERT_EQ(found.partial_size(), 1);
  EXPECT_EQ(found.partial(0).sha256(), sha256);
  EXPECT_EQ(found.partial(0).size_bytes(), 4);
  // No other user's resumes there.
  const Api bob = daemon_.As("bob");
  EXPECT_EQ(Ok(Find(bob, {sha256})).partial_size(), 0);
  EXPECT_THAT(Upload(bob, {Header(sha256, 6, 4), Data("ef")}),
              Fails(StatusCode::kOutOfRange, "call FindBlobs again"));
  EXPECT_THAT(Upload(ann_, {Header(sha256, 6, 4), Data("ef")}), IsOk());
  EXPECT_EQ(BytesOf(sha256), "abcdef");
  EXPECT_THAT(Ok(Find(ann_, {sha256, kOfA})).present(), ElementsAre(sha256));
}

TEST_F(UploadTest, FindBlobsNamesTheBadHashAndTakesAThousand) {
  std::vector<std::string> names(999, kOfA);
  names.emplace_back("../../etc/passwd");
  EXPECT_THAT(Find(ann_, names),
              Fails(StatusCode::kInvalidArgument, StartsWith("sha256[999]:")));
  names[999] = kOfA;
  EXPECT_THAT(Find(ann_, names), IsOk());
  names.push_back(kOfA);
  EXPECT_THAT(Find(ann_, names), Fails(StatusCode::kInvalidArgument));
}

// What is kept of the upload takes minutes to read again: 64 GiB of a hole.
class CatchingUpTest : public UploadTest {
 protected:
  static constexpr int64_t kKept = int64_t{1} << 36;
  CatchingUpTest()
      : UploadTest({.prepare = [](const std::filesystem::path& folder) {
          const auto partial = folder / "blobs" / "partial";
          const auto part =
              partial / (kOfA + "." + absl::BytesToHexString("ann"));
          InProcessDaemon::Write(part, "");
          std::filesystem::resize_file(part, kKept);
        }}) {}
  std::unique_ptr<Uploading> BeginToCatchUp() {
    auto upload = BeginUpload(ann_);
    EXPECT_TRUE(upload->stream->Write(Header(kOfA, kKept + 1, kKept)));
    return upload;
  }
};

TEST_F(CatchingUpTest, DelaysNoOtherCallAndEndsWithItsClient) {
  const auto upload = BeginToCatchUp();
  ASSERT_TRUE(daemon_.calls.AwaitOpen("ArtifactService.Upload", 1));
  for (int i = 0; i < 8; ++i) {
    const std::string bytes = std::to_string(i);
    EXPECT_THAT(Upload(ann_, {Header(base::Sha256Hex(bytes), 1), Data(bytes)}),
                IsOk());
  }
  upload->context.TryCancel();
  EXPECT_FALSE(upload->Finish().ok());
  EXPECT_TRUE(daemon_.calls.AwaitOpen("ArtifactService.Upload", 0));
}

TEST_F(CatchingUpTest, EndsWithTheServer) {
  const auto upload = BeginToCatchUp();
  ASSERT_TRUE(daemon_.calls.AwaitOpen("ArtifactService.Upload", 1));
  daemon_.server->Shutdown(absl::Seconds(1));
  EXPECT_FALSE(upload->Finish().ok());
}

class UploadBatchTest : public UploadTest {
 protected:
  UploadBatchTest() : UploadTest({.limits = TenBytes()}) {}
  static jobs::LimitSettings TenBytes() {
    jobs::LimitSettings limits;
    limits.users["eve"].upload_bytes = 10;
    return limits;
  }
  static v1::UploadBatchRequest Of(const std::vector<std::string>& blobs) {
    v1::UploadBatchRequest request;
    for (const std::string& bytes : blobs) {
      v1::UploadBatchRequest::Blob& blob = *request.add_blobs();
      blob.set_sha256(base::Sha256Hex(bytes));
      blob.set_data(bytes);
    }
    return request;
  }
  // How many blobs were stored.
  absl::StatusOr<int> UploadAll(
      const Api& api, const std::vector<v1::UploadBatchRequest>& messages) {
    grpc::ClientContext context;
    api.Prepare(context);
    v1::UploadBatchResponse response;
    const auto writer = api.artifacts()->UploadBatch(&context, &response);
    for (const v1::UploadBatchRequest& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    if (absl::Status s = ToStatus(writer->Finish()); !s.ok()) return s;
    return response.stored();
  }
};

TEST_F(UploadBatchTest, NothingIsKeptOfOneWithAnError) {
  v1::UploadBatchRequest wrong = Of({"b"}), named = Of({"b"});
  wrong.mutable_blobs(0)->set_data("c");
  named.mutable_blobs(0)->set_sha256("../b");
  const std::pair<v1::UploadBatchRequest, const char*> cases[] = {
      {wrong, "SHA-256"},
      {named, "blobs[0].sha256:"},
      {Of({std::string((1 << 20) + 1, 'x')}), "blobs[0].data:"},
      {Of(std::vector<std::string>(20'001, "x")), "20000"}};
  for (const auto& [bad, says] : cases) {
    EXPECT_THAT(UploadAll(ann_, {Of({"a"}), bad}),
                Fails(StatusCode::kInvalidArgument, says));
  }
  EXPECT_FALSE(daemon_.blobs->Has(kOfA));
}

TEST_F(UploadBatchTest, EachNewBlobCountsOnceAndWhatIsTooMuchIsRefused) {
  daemon_.PutBlob("of somebody else");
  const Api eve = daemon_.As("eve");
  EXPECT_THAT(UploadAll(eve, {Of({"12345", "12345", "of somebody else"})}),
              IsOk());
  EXPECT_EQ(Ok(daemon_.ledger->BytesOf("eve")).uploads, 5);
  EXPECT_THAT(UploadAll(eve, {Of({"abc"}), Of({"abcdef"})}),
              Fails(StatusCode::kResourceExhausted));
  EXPECT_EQ(Ok(daemon_.ledger->BytesOf("eve")).uploads, 5);
  // Neither counts what is not stored, nor twice what is kept.
  EXPECT_FALSE(Upload(eve, {Header(kOfA, 1), Data("b")}).ok());
  const std::string sha256 = base::Sha256Hex("abcde");
  EXPECT_FALSE(Upload(eve, {Header(sha256, 5), Data("abcd")}).ok());
  EXPECT_EQ(Ok(daemon_.ledger->BytesOf("eve")).uploads, 9);
  EXPECT_THAT(Upload(eve, {Header(sha256, 5, 4), Data("e")}), IsOk());
  EXPECT_EQ(Ok(daemon_.ledger->BytesOf("eve")).uploads, 10);
}

// One that keeps silent is ended; one of many that find no room is refused.
class SilentUploadTest : public UploadTest {
 protected:
  SilentUploadTest()
      : UploadTest({.rpc = [](Options& options) {
          options.upload_idle = absl::Milliseconds(300);
          options.max_uploads = 4;
          options.max_uploads_of_user = 3;
        }}) {}
};

TEST_F(SilentUploadTest, IsEnded) {
  const auto upload = BeginUpload(ann_);
  upload->stream->Write(Header(std::string(64, 'a'), 2));
  EXPECT_THAT(upload->Finish(), Fails(StatusCode::kDeadlineExceeded));
}

TEST_F(SilentUploadTest, SoManyAtATime) {
  std::vector<std::unique_ptr<Uploading>> uploads;
  for (int i = 0; i < 50; ++i) uploads.push_back(BeginUpload(ann_));
  int idle = 0, refused = 0;
  for (const auto& upload : uploads) {
    const absl::Status status = upload->Finish();
    idle += absl::IsDeadlineExceeded(status);
    if (!absl::IsUnavailable(status)) continue;
    EXPECT_THAT(status, testing_support::Says("try again"));
    ++refused;
  }
  EXPECT_EQ(idle + refused, 50);
  EXPECT_GE(idle, 3);
  EXPECT_GE(refused, 1);
  // And there is room again, soon after the last has heard of its end.
  absl::Status last;
  do {
    last = Upload(ann_, {Header(kOfA, 1), Data("a")}).status();
  } while (absl::IsUnavailable(last));
  EXPECT_THAT(last, IsOk());
}

}  // namespace
}  // namespace mpsd::rpc
