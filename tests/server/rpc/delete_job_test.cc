// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/delete_job.h"

#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

absl::StatusCode Delete(FakeManager& manager, const std::string& id,
                        v1::DeleteResponse& response) {
  v1::DeleteRequest request;
  request.set_id(id);
  return DeleteJob(manager, request, response).code();
}

TEST(DeleteJob, SaysWhatWasGivenBack) {
  FakeManager manager;
  manager.Put("a", jobs::State::kFailed);
  v1::DeleteResponse response;
  EXPECT_EQ(Delete(manager, "a", response), absl::StatusCode::kOk);
  EXPECT_EQ(response.freed_bytes(), 42);
  EXPECT_EQ(Delete(manager, "a", response), absl::StatusCode::kNotFound);
}

TEST(DeleteJob, PassesTheQueuesErrorOn) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  v1::DeleteResponse response;
  EXPECT_EQ(Delete(manager, "a", response),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Delete(manager, "", response), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mpsd::rpc
