// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;

class LogNoteTest : public ClientTest {};

TEST_F(LogNoteTest, ANoteAndAnEntry) {
  const Result note = RunVerb({"log", "note", kId, "too hot"});
  EXPECT_EQ(note.code, 0) << note.err;
  EXPECT_EQ(note.out, std::string(kId) + ": notes 1\n");
  EXPECT_EQ(daemon_->logbook().noted[0].id(), kId);
  EXPECT_FALSE(daemon_->logbook().noted[0].rejected());
  const Result entry = RunVerb({"log", "note", "-", "not bf16", "--rejected"});
  EXPECT_THAT(entry.out, HasSubstr("an entry of its own"));
  EXPECT_EQ(daemon_->logbook().noted[1].id(), "");
  EXPECT_EQ(daemon_->logbook().noted[1].text(), "not bf16");
  EXPECT_TRUE(daemon_->logbook().noted[1].rejected());
  const auto json =
      nlohmann::json::parse(RunVerb({"--json", "log", "note", kId, "x"}).out);
  EXPECT_EQ(json["id"], kId);
}

TEST_F(LogNoteTest, Faults) {
  EXPECT_EQ(RunVerb({"log", "note", kId}).code, 2);
  EXPECT_EQ(RunVerb({"log", "note", "", "x"}).code, 2);
  data().fail["AddNote"] = {grpc::StatusCode::RESOURCE_EXHAUSTED, "200 notes"};
  EXPECT_THAT(RunVerb({"log", "note", kId, "x"}).err, HasSubstr("200 notes"));
}

}  // namespace
}  // namespace mpsd::client
