// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/find_jobs.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

access::Rights Anybody(bool private_jobs = false) {
  access::Caller caller;
  caller.user = "ada";
  return access::Rights(caller, private_jobs);
}

v1::FindJobsRequest WithIdPart(const std::string& part) {
  v1::FindJobsRequest request;
  request.set_id_part(part);
  return request;
}

TEST(FindJobs, AnswersWithIdNameAndState) {
  FakeManager manager;
  jobs::Job job = FakeManager::MakeJob("01KAH0AAAA", jobs::State::kRunning);
  job.name = "moods";
  manager.Put(job);
  manager.Put("01KAH0BBBB", jobs::State::kQueued);
  v1::FindJobsResponse response;
  ASSERT_TRUE(
      FindJobs(manager, nullptr, Anybody(), WithIdPart("aaaa"), response).ok());
  ASSERT_EQ(response.jobs_size(), 1);
  EXPECT_EQ(response.jobs(0).id(), "01KAH0AAAA");
  EXPECT_EQ(response.jobs(0).name(), "moods");
  EXPECT_EQ(response.jobs(0).state(), v1::JOB_STATE_RUNNING);
  EXPECT_TRUE(response.jobs(0).spec_json().empty());
  EXPECT_FALSE(response.more());
}

TEST(FindJobs, NamesNoPrivateJob) {
  FakeManager manager;
  for (const char* owner : {"ada", "bob", ""}) {
    jobs::Job job = FakeManager::MakeJob("01KAH0AAA" + std::string(owner),
                                         jobs::State::kRunning);
    job.name = "moods";
    job.owner = owner;
    manager.Put(job);
  }
  v1::FindJobsResponse response;
  ASSERT_TRUE(FindJobs(manager, nullptr, Anybody(true), WithIdPart("01KAH0AAA"),
                       response)
                  .ok());
  ASSERT_EQ(response.jobs_size(), 3);
  EXPECT_EQ(response.jobs(0).name(), "");  // bob's
  EXPECT_EQ(response.jobs(1).name(), "moods");
  EXPECT_EQ(response.jobs(2).name(), "");  // nobody's
}

TEST(FindJobs, SaysWhereThereAreMore) {
  FakeManager manager;
  for (int i = 10; i < 30; ++i) {
    manager.Put("01KAH" + std::to_string(i), jobs::State::kQueued);
  }
  v1::FindJobsResponse response;
  ASSERT_TRUE(
      FindJobs(manager, nullptr, Anybody(), WithIdPart("01KAH"), response)
          .ok());
  EXPECT_EQ(response.jobs_size(), 20);
  EXPECT_FALSE(response.more());
  manager.Put("01KAH30", jobs::State::kQueued);
  response.Clear();
  ASSERT_TRUE(
      FindJobs(manager, nullptr, Anybody(), WithIdPart("01KAH"), response)
          .ok());
  EXPECT_EQ(response.jobs_size(), 20);
  EXPECT_EQ(response.jobs(0).id(), "01KAH30");
  EXPECT_TRUE(response.more());
}

TEST(FindJobs, RefusesWhatIsNoPartOfAnId) {
  FakeManager manager;
  for (const std::string& part :
       {std::string(), std::string("01K"), std::string(27, '0'),
        std::string("01K%"), std::string("../01KAH"),
        std::string("01KA\0H", 6)}) {
    v1::FindJobsResponse response;
    const absl::Status status =
        FindJobs(manager, nullptr, Anybody(), WithIdPart(part), response);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_EQ(status.message().substr(0, 9), "id_part: ") << status;
  }
}

}  // namespace
}  // namespace mpsd::rpc
