// SPDX-License-Identifier: Apache-2.0
#include "core/run_page/run_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mpsd::run_page {
namespace {

using nlohmann::json;

TEST(RunDocumentTest, HasWhatItWasGiven) {
  RunData run;
  run.job = R"({"id":"A"})";
  run.events = {R"({"note":"one"})", R"({"note":"two"})"};
  run.log = "line\n";
  run.files["run.json"] = R"({"state": "RUNNING"})";
  run.left_out.steps = 7;
  const json document = json::parse(RunDocument({run, run}));
  ASSERT_EQ(document["runs"].size(), 2u);
  const json& first = document["runs"][0];
  EXPECT_EQ(first["job"]["id"], "A");
  EXPECT_EQ(first["events"][1]["note"], "two");
  EXPECT_EQ(first["log"], "line\n");
  EXPECT_EQ(first["files"]["run.json"], R"({"state": "RUNNING"})");
  EXPECT_EQ(
      first["left_out"],
      json(
          {{"steps", 7}, {"evaluations", 0}, {"events", 0}, {"log_bytes", 0}}));
}

TEST(RunDocumentTest, BytesThatAreNoTextAreReplaced) {
  RunData run;
  run.job = "{}";
  run.log = std::string("a\xff\x00z\x1b", 5);
  run.files["x\xfe"] = "\xc3";
  const json document = json::parse(RunDocument({run}));
  EXPECT_EQ(document["runs"][0]["log"],
            std::string("a\xEF\xBF\xBD\x00z\x1b", 7));
  EXPECT_EQ(document["runs"][0]["files"].begin().value(), "\xEF\xBF\xBD");
}

TEST(RunDocumentTest, NoRunsAreADocument) {
  EXPECT_EQ(RunDocument({}), R"({"runs":[]})");
}

}  // namespace
}  // namespace mpsd::run_page
