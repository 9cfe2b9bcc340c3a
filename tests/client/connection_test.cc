// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class ConnectionTest : public ClientTest {
 protected:
  grpc::Status Info(Connection& connection) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::InfoResponse response;
    return connection.daemon().Info(&context, {}, &response);
  }
};

TEST_F(ConnectionTest, ReachesAllServices) {
  Connection connection({"unix:" + socket_.string(), socket_.string()});
  EXPECT_TRUE(Info(connection).ok());
  grpc::ClientContext context;
  v1::FindBlobsResponse blobs;
  EXPECT_TRUE(connection.artifacts().FindBlobs(&context, {}, &blobs).ok());
  grpc::ClientContext other;
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(connection.jobs().List(&other, {}, &jobs).ok());
}

TEST_F(ConnectionTest, ResetForgetsTheBackOff) {
  daemon_->Stop();
  Connection connection({"unix:" + socket_.string(), socket_.string()});
  EXPECT_EQ(Info(connection).error_code(), grpc::StatusCode::UNAVAILABLE);
  daemon_->Start();
  connection.Reset();
  EXPECT_TRUE(Info(connection).ok());
}

TEST_F(ConnectionTest, DeadlineLiesAhead) {
  grpc::ClientContext context;
  SetDeadline(context);
  EXPECT_GT(context.deadline(), std::chrono::system_clock::now());
}

}  // namespace
}  // namespace mpsd::client
