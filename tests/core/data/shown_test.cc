// SPDX-License-Identifier: Apache-2.0
#include "core/data/shown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/data/class_labels.h"
#include "core/data/labelled_table.h"
#include "core/data/row_errors.h"
#include "core/data/table.h"

namespace mpsd::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Every text below holds "s3cret", and no message may.
class ShownTest : public testing::Test {
 protected:
  ~ShownTest() override {
    ShowContents(true);
    fs::remove(path_);
  }

  // The error of a table, once as it is and once without contents.
  void ExpectHidden(const std::string& name, const std::string& text,
                    const std::string& place) {
    path_ =
        fs::path(testing::TempDir()) / (std::to_string(getpid()) + "-" + name);
    std::ofstream(path_) << text;
    for (bool shown : {true, false}) {
      ShowContents(shown);
      const auto rows =
          ReadLabelledTable({path_.string()}, {}, LabelUse::kRequired);
      ASSERT_FALSE(rows.ok());
      const std::string message(rows.status().message());
      EXPECT_EQ(message.find("s3cret") != message.npos, shown) << message;
      EXPECT_THAT(message, HasSubstr(path_.string() + place));
    }
    EXPECT_FALSE(ContentsShown());
  }

  fs::path path_;
};

TEST_F(ShownTest, ColumnsOfATable) {
  ExpectHidden("a.csv", "s3cret,b\n1,2\n", ": expected the text in");
  ExpectHidden("b.csv", "text,s3cret\n1,2\n", ": expected the label in");
  ExpectHidden("c.csv", "s3cret,s3cret\n1,2\n", ":1: the column");
}

TEST_F(ShownTest, RowsOfATable) {
  ExpectHidden("d.jsonl", "{\"s3cret\n", ":1: ");
}

TEST_F(ShownTest, ClassLabels) {
  for (bool shown : {true, false}) {
    ShowContents(shown);
    const LabelPlace place = [](int64_t i) {
      return "t.csv:" + std::to_string(i + 2);
    };
    std::vector<std::string> warnings;
    const std::vector<LabelValue> same = {LabelFromText("s3cret"),
                                          LabelFromText("s3cret")};
    const auto class_labels =
        DecideClassLabels(same, place, {}, nullptr, {}, &warnings);
    ASSERT_TRUE(class_labels.ok());
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].find("s3cret") != std::string::npos, shown);
    const auto other =
        EncodeClassLabels({LabelFromText("s3cret, too")}, place, *class_labels);
    const std::string message(other.status().message());
    EXPECT_EQ(message.find("s3cret") != message.npos, shown) << message;
    EXPECT_THAT(message, HasSubstr("t.csv:2: "));
    spec::ClassificationSpec weighted;
    weighted.class_weights = {1, 2, 3};
    const auto weights =
        DecideClassLabels(same, place, weighted, nullptr, {}, {});
    const std::string text(weights.status().message());
    EXPECT_EQ(text.find("s3cret") != text.npos, shown) << text;
  }
}

TEST_F(ShownTest, FaultsKeepTheirPlaces) {
  ShowContents(false);
  RowErrors errors;
  errors.Add("t.csv:7", "s3cret");
  errors.AddAt("t.csv", "9: s3cret: too");
  const std::string message(errors.status().message());
  EXPECT_THAT(message, HasSubstr("t.csv:7: a bad row"));
  EXPECT_THAT(message, HasSubstr("\nt.csv:9: a bad row"));
  EXPECT_THAT(message, Not(HasSubstr("s3cret")));
}

}  // namespace
}  // namespace mpsd::data
