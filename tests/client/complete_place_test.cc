// SPDX-License-Identifier: Apache-2.0
#include "client/complete_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mpsd::client {
namespace {

using ::testing::ElementsAre;

class FindPlaceTest : public testing::Test {
 protected:
  FindPlaceTest() {
    program_.add_option("--server", text_);
    program_.add_option("--state-dir", text_);
    program_.add_option("--context", text_);
    program_.add_flag("--json", flag_);
    Command* show = program_.add_subcommand("show");
    show->add_option("ID", ids_)->expected(1, 3);
    show->add_option("-n,--lines", text_);
    Command* group = show->add_option_group("To");
    group->add_option("--priority", text_);
    Command* model = program_.add_subcommand("model");
    model->add_subcommand("list");
    model->add_subcommand("rm")->add_option("MODEL", text_);
    program_.add_subcommand("secret")->group("");
  }

  // Of the words that blanks divide; a last blank begins an empty one.
  CompletePlace Find(const std::string& line) {
    std::vector<std::string> words = {""};
    for (char c : line) {
      if (c == ' ') {
        words.emplace_back();
      } else {
        words.back() += c;
      }
    }
    return FindPlace(program_, words);
  }
  std::string OptionAt(const std::string& line) {
    const CompletePlace place = Find(line);
    return place.option == nullptr ? "" : place.option->get_name();
  }

  Command program_{"", "mpsctl"};
  std::string text_;
  bool flag_ = false;
  std::vector<std::string> ids_;
};

TEST_F(FindPlaceTest, KnowsTheVerb) {
  EXPECT_EQ(Find("").path, "");
  EXPECT_EQ(Find("sh").path, "") << "it is being typed";
  EXPECT_EQ(Find("sh").word, "sh");
  EXPECT_EQ(Find("show ").path, "show");
  EXPECT_EQ(Find("--json show ").path, "show");
  EXPECT_EQ(Find("--server show show x").path, "show");
  EXPECT_EQ(Find("model rm ").path, "model rm");
  EXPECT_EQ(Find("model r").path, "model");
  EXPECT_EQ(Find("nonsense show ").path, "");
  EXPECT_EQ(Find("secret ").path, "");
}

TEST_F(FindPlaceTest, KnowsWhoseValueItIs) {
  EXPECT_EQ(OptionAt("--server "), "--server");
  EXPECT_EQ(OptionAt("show -n "), "--lines");
  EXPECT_EQ(OptionAt("show --priority 1"), "--priority");
  EXPECT_EQ(OptionAt("show --context x"), "--context") << "the program's";
  EXPECT_EQ(OptionAt("show -n 5 "), "ID");
  EXPECT_EQ(OptionAt("show a b "), "ID");
  EXPECT_EQ(OptionAt("show a b c "), "ID") << "as many as it takes";
  EXPECT_EQ(OptionAt("model rm "), "MODEL");
  EXPECT_EQ(OptionAt("model rm a "), "");
  EXPECT_EQ(OptionAt("show --li"), "");
  EXPECT_EQ(OptionAt("--json "), "");
  EXPECT_EQ(OptionAt("model list "), "");
  const CompletePlace place = Find("show --lines=5");
  EXPECT_EQ(place.option->get_name(), "--lines");
  EXPECT_EQ(place.before_value, "--lines=");
  EXPECT_EQ(place.word, "5");
  EXPECT_EQ(OptionAt("show --none=5"), "");
}

TEST_F(FindPlaceTest, KnowsTheDaemonAndTheOthers) {
  const CompletePlace place =
      Find("--server a show x --state-dir=b --context c y z");
  EXPECT_EQ(place.daemon.server, "a");
  EXPECT_EQ(place.daemon.state_dir, "b");
  EXPECT_EQ(place.daemon.context, "c");
  EXPECT_THAT(place.arguments, ElementsAre("x", "y"));
  EXPECT_EQ(place.word, "z");
}

TEST_F(FindPlaceTest, ListsVerbsAndOptions) {
  std::string verbs, options;
  for (const Command* verb : program_.verbs()) verbs += verb->get_name() + " ";
  EXPECT_EQ(verbs, "show model ");
  for (const Option* option : program_.get_subcommand("show")->options()) {
    for (const std::string& name : option->spellings()) options += name + " ";
  }
  EXPECT_EQ(options, "-h --help -n --lines --priority ");
}

}  // namespace
}  // namespace mpsd::client
