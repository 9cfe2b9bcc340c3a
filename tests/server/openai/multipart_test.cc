// SPDX-License-Identifier: Apache-2.0
#include "server/openai/multipart.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::openai {
namespace {

using ::testing::HasSubstr;

// Writes down what comes.
class Notes final : public FormSink {
 public:
  absl::Status BeginPart(const FormPart& part) override {
    absl::StrAppend(&text, "[", part.name);
    if (part.filename) absl::StrAppend(&text, "|", *part.filename);
    text += ":";
    return refuse ? absl::PermissionDeniedError("no") : absl::OkStatus();
  }
  absl::Status PartBytes(std::string_view bytes) override {
    text.append(bytes);
    return absl::OkStatus();
  }
  absl::Status EndPart() override {
    text += "]";
    return absl::OkStatus();
  }

  std::string text;
  bool refuse = false;
};

std::string Part(const std::string& header, const std::string& bytes) {
  return "--B\r\nContent-Disposition: form-data" + header + "\r\n\r\n" + bytes +
         "\r\n";
}

// What the parts are where the body comes in pieces of `piece` bytes, or the
// error.
std::string Read(const std::string& body, size_t piece = 1 << 20) {
  Notes notes;
  MultipartReader reader("B", notes);
  for (size_t at = 0; at < body.size(); at += piece) {
    if (absl::Status s = reader.Take(body.substr(at, piece)); !s.ok()) {
      return std::string(s.message());
    }
  }
  if (absl::Status s = reader.End(); !s.ok()) return std::string(s.message());
  return notes.text;
}

TEST(MultipartReader, GivesThePartsHoweverTheBodyIsCut) {
  const std::string body =
      Part("; name=\"purpose\"", "fine-tune") +
      Part("; name=\"file\"; filename=\"a b.jsonl\"\r\nContent-Type: x/y",
           "line\r\n--\r\n--Bb\r\n\r\n--C\r\n-\r\r\n") +
      Part("; name=empty", "") + "--B--\r\n";
  // "--Bb" is a delimiter with something behind it.
  EXPECT_THAT(Read(body), HasSubstr("follows its boundary"));
  const std::string good =
      Part("; name=\"purpose\"", "fine-tune") +
      Part("; name=\"file\"; filename=\"a b.jsonl\"\r\nContent-Type: x/y",
           "line\r\n--\r\n-B\r\n\r\n--C\r\n-\r\r\n\r\n-") +
      Part("; name=empty", "") + "--B--\r\nwhat follows means nothing";
  for (size_t piece = 1; piece <= good.size(); ++piece) {
    EXPECT_EQ(Read(good, piece),
              "[purpose:fine-tune][file|a b.jsonl:line\r\n--\r\n-B\r\n\r\n"
              "--C\r\n-\r\r\n\r\n-][empty:]")
        << piece;
  }
}

TEST(MultipartReader, ReadsTheNamesThatClientsWrite) {
  const auto name = [](const std::string& header) {
    return Read(Part(header, "") + "--B--");
  };
  EXPECT_EQ(name("; name=\"f\"; filename=\"a\\\"b\""), "[f|a\"b:]");
  EXPECT_EQ(name("; name=\"f\"; filename=\"a%22b\""), "[f|a\"b:]");
  EXPECT_EQ(name("; name=\"f\"; filename=\"C:\\\\d\""), "[f|C:\\d:]");
  EXPECT_EQ(name(";name=f;filename=g"), "[f|g:]");
  EXPECT_EQ(name("; filename=\"g; name=x\"; name=\"f\""), "[f|g; name=x:]");
  EXPECT_EQ(name("; name=\"f\"; filename*=UTF-8''x"), "[f:]");
  EXPECT_EQ(name("; name=\"f\"; filename=\"\""), "[f|:]");
  EXPECT_EQ(name("; name=\"t\xc3\xa4st\""), "[t\xc3\xa4st:]");
}

TEST(MultipartReader, RefusesWhatIsNone) {
  for (const std::string& body :
       {std::string(),
        std::string("hello"),
        std::string("\r\n--B\r\n"),
        std::string("--B"),
        std::string("--B\r\n"),
        std::string("--B\n\n"),
        std::string("--B \r\n"),
        Part("; name=a", "x"),
        Part("; name=a", "x") + "--B-",
        Part("; name=a", "x") + "--B\r\n--B--",
        std::string("--B\r\n\r\n\r\n--B--"),
        std::string("--B\r\nContent-Type: a\r\n\r\nx\r\n--B--"),
        Part("", "x") + "--B--",
        Part("; filename=a", "x") + "--B--",
        Part("; name=a; name=b", "x") + "--B--",
        Part("; name=\"a", "x") + "--B--",
        Part(" name=a", "x") + "--B--",
        Part("; name", "x") + "--B--",
        Part("; name=a\r\nContent-Disposition: form-data; name=b", "x") +
            "--B--",
        std::string("--B\r\nContent-Disposition: attachment; name=a\r\n\r\nx"
                    "\r\n--B--")}) {
    EXPECT_THAT(Read(body), HasSubstr("is no multipart/form-data")) << body;
    EXPECT_THAT(Read(body, 1), HasSubstr("is no multipart/form-data")) << body;
  }
}

TEST(MultipartReader, HasBounds) {
  EXPECT_THAT(Read("--B\r\n" + std::string(limits::kHttpHeaderBytes + 1, 'a')),
              HasSubstr("header is too long"));
  std::string parts;
  for (int i = 0; i < 16; ++i) parts += Part("; name=a", "");
  EXPECT_THAT(Read(parts + "--B--"), HasSubstr("[a:]"));
  EXPECT_THAT(Read(parts + Part("; name=a", "") + "--B--"),
              HasSubstr("more than 16 parts"));
}

TEST(MultipartReader, TheSinksErrorIsTheAnswer) {
  Notes notes;
  notes.refuse = true;
  MultipartReader reader("B", notes);
  EXPECT_EQ(reader.Take(Part("; name=a", "secret")).message(), "no");
  EXPECT_EQ(notes.text, "[a:");
}

// Random bodies, cut at random places, of bytes that look like delimiters.
TEST(MultipartReader, GuessesNothing) {
  std::mt19937 random(7);
  const std::string letters = "\r\n-B\r\n-Bx";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += letters[random() % letters.size()];
    const bool is_clear =
        bytes.find("\r\n--B") == std::string::npos && !bytes.starts_with("--B");
    const std::string body = Part("; name=a", bytes) + "--B--";
    const std::string whole = Read(body);
    if (is_clear) {
      EXPECT_EQ(whole, "[a:" + bytes + "]");
    }
    EXPECT_EQ(Read(body, 1 + random() % 7), whole);
  }
}

TEST(MultipartBoundary, IsReadFromTheContentType) {
  EXPECT_EQ(*MultipartBoundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(*MultipartBoundary("Multipart/Form-Data;boundary=\"a b\""), "a b");
  EXPECT_EQ(*MultipartBoundary("multipart/form-data; charset=x; boundary=a"),
            "a");
  const std::string longest(70, 'b');
  EXPECT_EQ(*MultipartBoundary("multipart/form-data; boundary=" + longest),
            longest);
  for (const std::string& type :
       {std::string(), std::string("multipart/form-data"),
        std::string("application/json"),
        std::string("multipart/mixed; boundary=a"),
        std::string("multipart/form-data; boundary="),
        std::string("multipart/form-data; boundary=\"\""),
        std::string("multipart/form-data; boundary=\"a \""),
        std::string("multipart/form-data; boundary=a\x01"),
        std::string("multipart/form-data; boundary=a; boundary=b"),
        std::string("multipart/form-dataX; boundary=a"),
        "multipart/form-data; boundary=" + longest + "b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MultipartBoundary(type).status()))
        << type;
  }
}

}  // namespace
}  // namespace mpsd::openai
