// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/find_blobs.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_blobs.h"

namespace mpsd::rpc {
namespace {

TEST(FindBlobs, AnswersWithThoseThatAreThere) {
  FakeBlobs blobs;
  blobs.Put("a");
  blobs.Put("c");
  v1::FindBlobsRequest request;
  for (const char* bytes : {"c", "b", "a"}) {
    request.add_sha256(base::Sha256Hex(bytes));
  }
  v1::FindBlobsResponse response;
  ASSERT_TRUE(FindBlobs(blobs, "ann", request, response).ok());
  EXPECT_THAT(response.present(),
              testing::ElementsAre(base::Sha256Hex("c"), base::Sha256Hex("a")));
}

TEST(FindBlobs, TellsOfPartsThatTheCallerSent) {
  FakeBlobs blobs;
  const std::string a = base::Sha256Hex("a"), b = base::Sha256Hex("b"),
                    whole = base::Sha256Hex("whole");
  blobs.Keep("ann", a, "12345");
  blobs.Keep("bob", b, "12345");
  blobs.Keep("ann", whole, "wh");
  blobs.Put("whole");
  v1::FindBlobsRequest request;
  for (const std::string& sha256 : {b, a, whole}) request.add_sha256(sha256);
  v1::FindBlobsResponse response;
  ASSERT_TRUE(FindBlobs(blobs, "ann", request, response).ok());
  ASSERT_EQ(response.partial_size(), 1);
  EXPECT_EQ(response.partial(0).sha256(), a);
  EXPECT_EQ(response.partial(0).size_bytes(), 5);
  EXPECT_THAT(response.present(), testing::ElementsAre(whole));
}

TEST(FindBlobs, NamesTheBadHash) {
  FakeBlobs blobs;
  v1::FindBlobsRequest request;
  request.add_sha256(base::Sha256Hex("a"));
  request.add_sha256("../../etc/passwd");
  v1::FindBlobsResponse response;
  const absl::Status status = FindBlobs(blobs, "ann", request, response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("sha256[1]:"));
}

TEST(FindBlobs, AtMostAThousand) {
  FakeBlobs blobs;
  v1::FindBlobsRequest request;
  for (int i = 0; i < 1000; ++i) request.add_sha256(base::Sha256Hex("a"));
  v1::FindBlobsResponse response;
  EXPECT_TRUE(FindBlobs(blobs, "ann", request, response).ok());
  request.add_sha256(base::Sha256Hex("a"));
  EXPECT_EQ(FindBlobs(blobs, "ann", request, response).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mpsd::rpc
