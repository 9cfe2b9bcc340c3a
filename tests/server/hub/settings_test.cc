// SPDX-License-Identifier: Apache-2.0
#include "server/hub/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/core/scratch_folder.h"

namespace mpsd::hub {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string ErrorOf(const Settings& settings) {
  return std::string(CheckSettings(settings).message());
}

TEST(CheckSettings, TakesTheAddressOfAHub) {
  Settings settings;
  EXPECT_EQ(ErrorOf(settings), "");
  for (const char* url :
       {"https://hub.example", "https://hub.example/", "http://127.0.0.1:8080",
        "https://mirror.example/api/models-of-us"}) {
    settings.url = url;
    EXPECT_EQ(ErrorOf(settings), "") << url;
  }
  for (const char* url :
       {"hub.example", "file:///etc/passwd", "https://", "https://h/?x=y",
        "https://user:s3cret@hub.example"}) {
    settings.url = url;
    EXPECT_THAT(ErrorOf(settings), HasSubstr("--hub: expected")) << url;
    EXPECT_THAT(ErrorOf(settings), Not(HasSubstr("s3cret")));
  }
}

TEST(CheckSettings, TheRestBelongsToAHub) {
  Settings settings;
  settings.token_file = "/token";
  EXPECT_THAT(ErrorOf(settings), HasSubstr("give --hub too"));
  settings = {};
  settings.allow_private = true;
  EXPECT_THAT(ErrorOf(settings), HasSubstr("give --hub too"));
}

TEST(CheckSettings, ATokenDoesNotCrossTheNetworkInPlainText) {
  Settings settings;
  settings.token_file = "/token";
  settings.url = "http://hub.example";
  EXPECT_THAT(ErrorOf(settings), HasSubstr("in plain text"));
  for (const char* url : {"https://hub.example", "http://127.0.0.1:8080"}) {
    settings.url = url;
    EXPECT_EQ(ErrorOf(settings), "") << url;
  }
}

class ReadTokenTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Read(const std::string& text, int mode = 0600) {
    const auto path = folder_ / "token";
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), static_cast<mode_t>(mode));
    return ReadToken(path);
  }
  const std::filesystem::path folder_ = testing_support::FreshFolder("token");
};

TEST_F(ReadTokenTest, ReadsOneLine) {
  EXPECT_EQ(Read("hf_abc\n").value(), "hf_abc");
  EXPECT_EQ(ReadToken("").value(), "");
}

// A line break would add a header to each request.
TEST_F(ReadTokenTest, RefusesWhatIsNoToken) {
  for (const std::string& text :
       {std::string("a\r\nX-Evil: b"), std::string(""), std::string("\n"),
        std::string("a b"), std::string("a\0b", 3), std::string(5000, 'a')}) {
    const auto token = Read(text);
    EXPECT_FALSE(token.ok()) << text;
    EXPECT_THAT(std::string(token.status().message()), Not(HasSubstr("Evil")));
  }
  EXPECT_FALSE(Read("hf_abc", 0644).ok()) << "others may read it";
  EXPECT_EQ(ReadToken(folder_ / "none").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd::hub
