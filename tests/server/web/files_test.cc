// SPDX-License-Identifier: Apache-2.0
#include "server/web/files.h"

#include <gtest/gtest.h>

#include <string>

namespace mpsd::web {
namespace {

TEST(FindFile, FindsTheFilesThatThePageNames) {
  const File* page = FindFile("index.html");
  ASSERT_NE(page, nullptr);
  EXPECT_STREQ(page->content_type, "text/html; charset=utf-8");
  for (const char* name : {"queue.js", "queue.css"}) {
    EXPECT_NE(std::string(page->text).find("\"/" + std::string(name) + "\""),
              std::string::npos);
    ASSERT_NE(FindFile(name), nullptr);
    EXPECT_GT(std::string(FindFile(name)->text).size(), 1000u);
  }
  EXPECT_STREQ(FindFile("queue.js")->content_type,
               "text/javascript; charset=utf-8");
}

TEST(FindFile, FindsNothingElse) {
  for (const char* name :
       {"", "index", "../index.html", "queue.js ", "a.map"}) {
    EXPECT_EQ(FindFile(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace mpsd::web
