// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/method_table.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;

class MethodTableTest : public Served {
 protected:
  grpc::Status Call(const std::string& method, const std::string& bytes) {
    grpc::ClientContext context;
    return CallBytes(channel_, context, method, bytes);
  }
  // A request of `size` bytes, of which all but the id is an unknown field.
  static std::string OfSize(size_t size) {
    v1::GetJobRequest request;
    request.set_id("short");
    std::string& field = *request.GetReflection()
                              ->MutableUnknownFields(&request)
                              ->AddLengthDelimited(2047);
    field.assign(size - 20, 'x');
    field.append(size - request.ByteSizeLong(), 'x');
    return request.SerializeAsString();
  }
};

TEST_F(MethodTableTest, ARequestOverTheRowsBoundIsRefusedUnread) {
  EXPECT_THAT(
      Call("/mpsd.v1.JobService/Get", OfSize(kRequestBytes)).error_message(),
      HasSubstr("no job short"));
  for (const size_t size : {kRequestBytes + 1, size_t{1} << 20}) {
    const grpc::Status refused = Call("/mpsd.v1.JobService/Get", OfSize(size));
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(refused.error_message(),
                HasSubstr("request: has " + std::to_string(size) + " bytes"));
  }
}

TEST_F(MethodTableTest, BytesThatAreNoRequestAreRefused) {
  const grpc::Status refused = Call("/mpsd.v1.JobService/Get", "\xff\xff");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("is not a mpsd.v1.GetJobRequest"));
  EXPECT_EQ(Call("/mpsd.v1.JobService/Watch", "\xff\xff").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(MethodTableTest, ASubmissionMayBeLarger) {
  v1::SubmitRequest request;
  request.set_spec_json(std::string(2 * kRequestBytes, ' '));
  EXPECT_THAT(Call("/mpsd.v1.JobService/Submit", request.SerializeAsString())
                  .error_message(),
              testing::Not(HasSubstr("request: has")));
}

}  // namespace
}  // namespace mpsd::rpc
