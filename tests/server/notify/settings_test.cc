// SPDX-License-Identifier: Apache-2.0
#include "server/notify/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mpsd::notify {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

std::string ErrorOf(const Settings& settings) {
  return std::string(CheckSettings(settings).message());
}

TEST(CheckSettings, TakesUrlsOfTheWeb) {
  Settings settings;
  EXPECT_FALSE(settings.HasDoor());
  EXPECT_EQ(ErrorOf(settings), "");
  for (const char* url : {"https://example.com/hook/s3cret",
                          "http://127.0.0.1:8080", "http://[::1]:9/x?y=z"}) {
    settings.webhook = url;
    EXPECT_TRUE(settings.HasDoor());
    EXPECT_EQ(ErrorOf(settings), "") << url;
  }
  for (const char* url : {"example.com/hook", "file:///etc/passwd",
                          "ftp://example.com", "https://", "http://a\nb/",
                          "http:// space/", "https://example.com:port/"}) {
    settings.webhook = url;
    EXPECT_THAT(ErrorOf(settings), HasSubstr("--notify-webhook: expected a"))
        << url;
  }
}

TEST(CheckSettings, ASecretBelongsToAWebhook) {
  Settings settings;
  settings.webhook_secret = "0123456789abcdef";
  EXPECT_THAT(ErrorOf(settings), HasSubstr("give --notify-webhook too"));
}

TEST(CheckSettings, ACommandIsAnAbsolutePath) {
  Settings settings;
  settings.command = {"/bin/true", "x"};
  EXPECT_EQ(ErrorOf(settings), "");
  settings.command = {"true"};
  EXPECT_THAT(ErrorOf(settings), HasSubstr("'true' is no absolute path"));
}

TEST(CheckSettings, TheDesktopIsThatOfMacos) {
  Settings settings;
  settings.desktop = true;
#ifdef __APPLE__
  EXPECT_EQ(ErrorOf(settings), "");
#else
  EXPECT_THAT(ErrorOf(settings), HasSubstr("--notify-desktop: only macOS"));
#endif
}

class ReadSecretTest : public testing::Test {
 protected:
  ~ReadSecretTest() override { fs::remove_all(path_); }
  absl::StatusOr<std::string> Read(const std::string& text, int mode = 0600) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), static_cast<mode_t>(mode));
    return ReadSecret(path_);
  }
  std::string ErrorOf(const std::string& text, int mode = 0600) {
    return std::string(Read(text, mode).status().message());
  }

  const fs::path path_ =
      fs::path(testing::TempDir()) / ("secret-" + std::to_string(getpid()));
};

TEST_F(ReadSecretTest, IsOneLineOfAPrivateFile) {
  EXPECT_EQ(*Read("0123456789abcdef\n"), "0123456789abcdef");
  EXPECT_THAT(ErrorOf("short\n"), HasSubstr("at least 16 bytes"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("at least 16 bytes"));
  EXPECT_THAT(ErrorOf("0123456789abcdef\nand more\n"), HasSubstr("one line"));
  EXPECT_THAT(ErrorOf("0123456789abcdef\n", 0644), HasSubstr("chmod 600"));
  EXPECT_THAT(ErrorOf(std::string(5000, 'x')), Not(HasSubstr("xxx")));
  EXPECT_THAT(ErrorOf("0123456789abcdef\n", 0644),
              Not(HasSubstr("0123456789abcdef")));
}

TEST_F(ReadSecretTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(std::string(ReadSecret("/nowhere/key").status().message()),
              HasSubstr("/nowhere/key"));
  EXPECT_FALSE(ReadSecret("/dev/zero").ok());
}

}  // namespace
}  // namespace mpsd::notify
