// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/image_files.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using Kind = data::LabelValue::Kind;
using testing_support::FreshFolder;

TEST(ListRows, ReadsPathsAndLabels) {
  const fs::path folder = FreshFolder("rows_good");
  WriteImage(folder / "images/a.png");
  const std::string b = WriteImage(folder / "b.png");
  const std::string rows = WriteFile(
      folder / "rows.jsonl",
      "\xef\xbb\xbf{\"image\": \"images/a.png\", \"label\": \"cat\"}\r\n\n"
      "{\"image\": \"" +
          b +
          "\", \"label\": 3, \"other\": 1}\n"
          "{\"image\": \"b.png\", \"label\": [\"x\", \"y\"]}");
  auto list = ListImages({rows}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->entries.size(), 3u);
  EXPECT_EQ(list->entries[0].label.text, "cat");
  EXPECT_EQ(list->entries[1].label.kind, Kind::kInteger);
  EXPECT_EQ(list->entries[1].place, rows + ":3");
  EXPECT_EQ(list->entries[2].label.kind, Kind::kList);
}

TEST(ListRows, ReadsTheColumnsAskedFor) {
  const fs::path folder = FreshFolder("rows_columns");
  WriteImage(folder / "a.png");
  const std::string rows =
      WriteFile(folder / "rows.jsonl",
                "{\"file\": \"a.png\", \"kind\": \"cat\", \"label\": 1}\n"
                "{\"file\": \"a.png\"}\n{broken");
  ListOptions options{"file", "kind", /*labels_needed=*/false, 2};
  auto list = ListImages({rows}, options);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->entries.size(), 2u);
  EXPECT_EQ(list->entries[0].label.text, "cat");
  EXPECT_EQ(list->entries[1].label.kind, Kind::kAbsent);
}

TEST(ListRows, SaysWhatIsBad) {
  const fs::path folder = FreshFolder("rows_bad");
  WriteImage(folder / "a.png");
  const std::string text = WriteFile(folder / "a.txt", "text");
  const std::string missing = (folder / "none.png").string();
  struct Bad {
    const char* row;
    std::string message;  // behind "<file>:2: "
  };
  for (const Bad& bad : {
           Bad{"{", "not valid JSON"},
           Bad{"[1]", "expected an object"},
           Bad{R"({"label": 1})",
               "image: expected the path of an image, found nothing"},
           Bad{R"({"image": 7, "label": 1})",
               "image: expected the path of an image, found 7"},
           Bad{R"({"image": "a.png"})", "label: there is none"},
           Bad{R"({"image": "a.png", "label": null})", "label: there is none"},
           Bad{R"({"image": "a.txt", "label": 1})",
               text + ": neither PNG nor JPEG"},
       }) {
    const std::string rows = WriteFile(
        folder / "rows.jsonl",
        "{\"image\": \"a.png\", \"label\": 1}\n" + std::string(bad.row));
    EXPECT_EQ(ErrorOf(rows), rows + ":2: " + bad.message);
  }
  const std::string rows =
      WriteFile(folder / "rows.jsonl", R"({"image": "none.png", "label": 1})");
  EXPECT_THAT(ErrorOf(rows), testing::AllOf(testing::StartsWith(rows + ":1: "),
                                            testing::HasSubstr(missing)));
}

TEST(ListRows, RefusesAFileWithoutRows) {
  const std::string rows =
      WriteFile(FreshFolder("rows_none") / "rows.jsonl", "\n \n");
  EXPECT_EQ(ErrorOf(rows),
            rows +
                ": no rows; expected JSON Lines such as {\"image\": "
                "\"a/b.png\", \"label\": \"cat\"}");
}

}  // namespace
}  // namespace mpsd::image
