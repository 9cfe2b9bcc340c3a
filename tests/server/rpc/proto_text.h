// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

// Messages in protobuf's text format.
namespace mpsd::rpc {

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message))
      << text;
  return message;
}

// Has the fields that `text` names, and no others.
MATCHER_P(EqualsProto, text, text) {
  const auto expected = Parsed<std::decay_t<arg_type>>(text);
  std::string differences;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  const bool equal = differencer.Compare(expected, arg);
  *result_listener << differences;
  return equal;
}

}  // namespace mpsd::rpc
