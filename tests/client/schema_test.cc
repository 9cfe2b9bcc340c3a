// SPDX-License-Identifier: Apache-2.0
#include "client/inputs.h"
#include "client/job_reference.h"
#include "core/spec/job_schema.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

class SchemaTest : public ClientTest {};

TEST_F(SchemaTest, IsPrintedWithoutADaemon) {
  daemon_->Stop();
  const Result result = RunVerb({"schema"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Json::parse(result.out), spec::JobSchema());
  EXPECT_THAT(result.out, testing::StartsWith("{\n  \"$schema\": "));
  EXPECT_THAT(result.out, testing::EndsWith("}\n"));
}

TEST_F(SchemaTest, IsOneLineOfJson) {
  const Result result = RunVerb({"schema", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, spec::JobSchema().dump() + "\n");
}

TEST_F(SchemaTest, IsPrintedAsTables) {
  const Result result = RunVerb({"schema", "--markdown"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, JobReference());
}

TEST_F(SchemaTest, AJobMayNameIt) {
  Write("t.jsonl", "row");
  const auto job = PrepareJob(Write("job.json", R"({"$schema": "./s.json",
      "model": "org/id", "dataset": {"train": "t.jsonl"}})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->files.size(), 1u);
  EXPECT_TRUE(job->warnings.empty());
}

}  // namespace
}  // namespace mpsd::client
