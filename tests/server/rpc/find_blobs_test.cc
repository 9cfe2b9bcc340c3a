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
  ASSERT_TRUE(FindBlobs(blobs, request, response).ok());
  EXPECT_THAT(response.present(),
              testing::ElementsAre(base::Sha256Hex("c"), base::Sha256Hex("a")));
}

TEST(FindBlobs, NamesTheBadHash) {
  FakeBlobs blobs;
  v1::FindBlobsRequest request;
  request.add_sha256(base::Sha256Hex("a"));
  request.add_sha256("../../etc/passwd");
  v1::FindBlobsResponse response;
  const absl::Status status = FindBlobs(blobs, request, response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("sha256[1]:"));
}

TEST(FindBlobs, AtMostAThousand) {
  FakeBlobs blobs;
  v1::FindBlobsRequest request;
  for (int i = 0; i < 1000; ++i) request.add_sha256(base::Sha256Hex("a"));
  v1::FindBlobsResponse response;
  EXPECT_TRUE(FindBlobs(blobs, request, response).ok());
  request.add_sha256(base::Sha256Hex("a"));
  EXPECT_EQ(FindBlobs(blobs, request, response).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mpsd::rpc
