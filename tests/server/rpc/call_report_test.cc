// SPDX-License-Identifier: Apache-2.0
// How calls are counted, and requests read.
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rpc/method_table.h"
#include "server/rpc/server.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

using testing::Pair;

class CallReportTest : public testing::Test {
 protected:
  absl::Status Get(const std::string& id) {
    return daemon_.admin()
        .Call(&Jobs::Get, ById<v1::GetJobRequest>(id))
        .status();
  }
  absl::Status Call(const std::string& method, const std::string& request) {
    return CallBytes(daemon_.admin(), method, request).status();
  }

  InProcessDaemon daemon_;
  fakes::FakeCalls& calls_ = daemon_.calls;
  const std::string job_ = daemon_.Start();
};

TEST_F(CallReportTest, CallsAreReportedWithTheirCodes) {
  EXPECT_THAT(Get(job_), IsOk());
  EXPECT_FALSE(Get("b").ok());
  EXPECT_FALSE(Get("").ok());
  // Neither a handler of ours nor a method: however many methods a client
  // invents, they have one name.
  EXPECT_THAT(Call("/grpc.health.v1.Health/Check", ""), IsOk());
  EXPECT_FALSE(Call("/mpsd.v1.JobService/Invented", "").ok());
  EXPECT_FALSE(Call("/invented/Submit", "").ok());
  EXPECT_THAT(calls_.Await(6),
              // A client has its answer before the report of its call.
              testing::UnorderedElementsAre(
                  Pair("JobService.Get", StatusCode::kOk),
                  Pair("JobService.Get", StatusCode::kNotFound),
                  Pair("JobService.Get", StatusCode::kInvalidArgument),
                  Pair("Health.Check", StatusCode::kOk),
                  Pair(kUnknownMethod, StatusCode::kUnimplemented),
                  Pair(kUnknownMethod, StatusCode::kUnimplemented)));
  for (absl::Duration duration : calls_.durations()) {
    EXPECT_GT(duration, absl::ZeroDuration());
  }
  EXPECT_TRUE(calls_.AwaitOpen("JobService.Get", 0));
}

// A request of `size` bytes, of which all but the id is an unknown field.
std::string OfSize(size_t size) {
  v1::GetJobRequest request;
  request.set_id("short");
  std::string& field = *request.GetReflection()
                            ->MutableUnknownFields(&request)
                            ->AddLengthDelimited(2047);
  field.assign(size - 20, 'x');
  field.append(size - request.ByteSizeLong(), 'x');
  return request.SerializeAsString();
}

TEST_F(CallReportTest, ARequestOverItsMethodsBoundIsRefusedUnread) {
  EXPECT_THAT(Call("/mpsd.v1.JobService/Get", OfSize(kRequestBytes)),
              Fails(StatusCode::kNotFound, "short"));
  for (const size_t size : {kRequestBytes + 1, size_t{1} << 20}) {
    EXPECT_THAT(Call("/mpsd.v1.JobService/Get", OfSize(size)),
                Fails(StatusCode::kInvalidArgument,
                      absl::StrCat("request: has ", size, " bytes")));
  }
  // A submission may be larger, up to the server's own limit.
  v1::SubmitRequest request;
  request.set_spec_json(std::string(2 * kRequestBytes, ' '));
  EXPECT_THAT(std::string(Call("/mpsd.v1.JobService/Submit",
                               request.SerializeAsString())
                              .message()),
              Not(HasSubstr("request: has")));
  request.set_spec_json(std::string(33 << 20, ' '));
  EXPECT_THAT(daemon_.admin().Call(&Jobs::Submit, request),
              Fails(StatusCode::kResourceExhausted));
}

TEST_F(CallReportTest, ARequestIsReadOnceTheRoleSuffices) {
  const std::string submit = "/mpsd.v1.JobService/Submit";
  for (const std::string& bytes : {std::string("\xff\xff"), OfSize(1 << 20)}) {
    EXPECT_THAT(CallBytes(daemon_.As("eve", Role::kViewer), submit, bytes),
                Fails(StatusCode::kPermissionDenied));
    EXPECT_THAT(Call(submit, bytes), Fails(StatusCode::kInvalidArgument));
  }
  // The audit has what the request asked for.
  daemon_.TakeAudit();
  EXPECT_THAT(daemon_.As("eve", Role::kViewer)
                  .Call(&Jobs::Cancel, ById<v1::CancelRequest>(job_)),
              Fails(StatusCode::kPermissionDenied));
  EXPECT_EQ(daemon_.TakeAudit()[0].request.job_id, job_);
}

TEST_F(CallReportTest, AMessageOfAnUploadHasItsBoundToo) {
  EXPECT_THAT(Upload(daemon_.admin(), {Data(std::string(3 << 20, 'x'))}),
              Fails(StatusCode::kInvalidArgument, "request: has"));
}

TEST_F(CallReportTest, BytesThatAreNoRequestAreRefused) {
  EXPECT_THAT(
      Call("/mpsd.v1.JobService/Get", "\xff\xff"),
      Fails(StatusCode::kInvalidArgument, "is not a mpsd.v1.GetJobRequest"));
  EXPECT_THAT(Call("/mpsd.v1.JobService/Watch", "\xff\xff"),
              Fails(StatusCode::kInvalidArgument));
  // A field number of 0, which no message has.
  EXPECT_FALSE(
      Call("/mpsd.v1.JobService/Get", std::string("\x02\x00", 2)).ok());
}

}  // namespace
}  // namespace mpsd::rpc
