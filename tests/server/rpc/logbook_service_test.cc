// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/logbook_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kId[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

class LogbookServiceTest : public Served {};

TEST_F(LogbookServiceTest, AnswersEachCall) {
  logbook_.Put(kId, "");
  {
    grpc::ClientContext context;
    v1::SearchRecordsRequest request;
    v1::SearchRecordsResponse response;
    ASSERT_TRUE(records_->SearchRecords(&context, request, &response).ok());
    EXPECT_THAT(response.records(), SizeIs(1));
  }
  v1::Record record;
  {
    grpc::ClientContext context;
    v1::GetRecordRequest request;
    request.set_id(kId);
    ASSERT_TRUE(records_->GetRecord(&context, request, &record).ok());
    EXPECT_EQ(record.id(), kId);
  }
  {
    grpc::ClientContext context;
    v1::AddNoteRequest request;
    request.set_id(kId);
    request.set_text("a note");
    ASSERT_TRUE(records_->AddNote(&context, request, &record).ok());
    EXPECT_EQ(record.notes(0).text(), "a note");
  }
  {
    grpc::ClientContext context;
    v1::TagRecordRequest request;
    request.set_id(kId);
    request.add_add("baseline");
    const grpc::Status status = records_->TagRecord(&context, request, &record);
    // Nobody's record is not the caller's own.
    EXPECT_TRUE(status.ok() ||
                status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  }
}

TEST_F(LogbookServiceTest, ABadQueryIsInvalid) {
  grpc::ClientContext context;
  v1::SearchRecordsRequest request;
  request.set_query("steps>x");
  v1::SearchRecordsResponse response;
  const grpc::Status status =
      records_->SearchRecords(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("query:7"));
}

}  // namespace
}  // namespace mpsd::rpc
