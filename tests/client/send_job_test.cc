// SPDX-License-Identifier: Apache-2.0
#include "client/send_job.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class SendJobTest : public ClientTest {
 protected:
  ExitCode Send(const v1::SubmitRequest& request, bool detach) {
    Connection connection(SocketAddress(), nullptr);
    out_.str("");
    const Console console = TestConsole(connection, out_, err_);
    const ExitCode code = SendJob(
        console, request, [] { return grpc::Status::OK; }, detach);
    daemon_->Sync();
    return code;
  }
  std::ostringstream out_, err_;
};

TEST_F(SendJobTest, ARequestWithoutAKeyGetsItsOwn) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Send({}, true), ExitCode::kOk);
  EXPECT_EQ(Send({}, true), ExitCode::kOk);
  ASSERT_EQ(data().submitted.size(), 2u);
  EXPECT_NE(data().submitted[0].idempotency_key(),
            data().submitted[1].idempotency_key());
  EXPECT_NE(out_.str().find(" submitted: QUEUED"), std::string::npos);
}

TEST_F(SendJobTest, AKeyThatWasUsedIsSaid) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  v1::SubmitRequest request;
  request.set_idempotency_key("k");
  Send(request, true);
  Send(request, true);
  EXPECT_NE(out_.str().find(" was submitted before: QUEUED"),
            std::string::npos);
}

TEST_F(SendJobTest, FollowsTheJobToItsEnd) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  AddState(kId, v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Send({}, false), ExitCode::kJobCancelled);
}

}  // namespace
}  // namespace mpsd::client
