// SPDX-License-Identifier: Apache-2.0
#include "core/base/limits.h"

#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"

namespace mpsd::limits {
namespace {

// "50000" as people write it: "50,000".
std::string Digits(size_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string Size(size_t bytes) {
  if (bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, " MiB");
  if (bytes % (1 << 10) == 0 && bytes >= 8 << 10) {
    return absl::StrCat(bytes >> 10, " KiB");
  }
  return absl::StrCat(Digits(bytes), " bytes");
}

// The comments of a proto file as running text.
std::string Comments(const std::string& name) {
  auto text = *base::ReadFile(
      absl::StrCat(MPSD_TEST_SOURCE_DIR, "/proto/mpsd/v1/", name));
  std::string words;
  bool comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') comment = false;
    if (text.compare(i, 2, "//") == 0) {
      comment = true;
      i += 1;
      continue;
    }
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (space && (words.empty() || words.back() == ' ')) continue;
    if (comment || space) words += space ? ' ' : c;
  }
  return words;
}

struct Quote {
  const char* file;
  std::string words;
};

TEST(Limits, ProtoCommentsQuoteTheTable) {
  const Quote quotes[] = {
      {"job.proto", absl::StrCat("in their order; at most ",
                                 Size(kSampleBytes), " each")},
      {"jobs.proto", absl::StrCat("job.json, at most ", Size(kSpecBytes), ", ",
                                  kJsonDepth, " levels deep")},
      {"jobs.proto", absl::StrCat("`name` has at most ", Size(kNameBytes))},
      {"jobs.proto", absl::StrCat("at most ", Digits(kInputs), ", no path")},
      {"jobs.proto", absl::StrCat("At most ", Size(kPathBytes), " and ",
                                  kPathParts, " parts")},
      {"jobs.proto", absl::StrCat("all of them at most ", Size(kPathsBytes))},
      {"jobs.proto", absl::StrCat("empty: all; at most ", Size(kOwnerBytes))},
      {"jobs.proto", absl::StrCat("At most ", kJobLabels, "; a key has 1 to ",
                                  kJobLabelKeyBytes, " bytes, a value at most ",
                                  kJobLabelValueBytes)},
      {"jobs.proto", absl::StrCat("At most ", Size(kKeyBytes), ". Repeating")},
      {"job.proto", absl::StrCat("At most ", Size(kMessageBytes), " of text")},
      {"job.proto", absl::StrCat("At most ", kWarnings, " of at most ",
                                 Size(kWarningBytes))},
      {"job.proto", absl::StrCat("At most ", kMetrics, " metrics")},
      {"job.proto", absl::StrCat("matrix over ", Size(kMatrixBytes))},
      {"jobs.proto",
       absl::StrCat("0: ", kDefaultPageSize, "; at most ", kPageSize)},
      {"jobs.proto", absl::StrCat("empty: all; at most ", kFilterStates)},
      {"jobs.proto", absl::StrCat("must match; at most ", kFilterLabels)},
      {"jobs.proto", absl::StrCat("past ", Size(kPageBytes))},
      {"jobs.proto", absl::StrCat(kIdPart, " to ", kWholeId, " letters")},
      {"jobs.proto", absl::StrCat("at most ", kFoundJobs, "; id, name")},
      {"jobs.proto", absl::StrCat("before this one starts, at most ", kAfter)},
      {"jobs.proto",
       absl::StrCat("ignoring case; at most ", Size(kFilterTextBytes))},
      {"jobs.proto",
       absl::StrCat("human-readable, at most ", Size(kReasonBytes))},
      {"daemon.proto", absl::StrCat("at most ", Size(kReasonBytes))},
      {"daemon.proto", absl::StrCat("at most ", Digits(kCollectionItems))},
      {"models.proto", absl::StrCat("1 to ", kModelIdBytes, " letters")},
      {"models.proto", absl::StrCat("at most ", Digits(kFilesOfModel))},
      {"models.proto", absl::StrCat(", ", kPulls, " pulls are running")},
      {"models.proto", absl::StrCat("at most ", Digits(kListedModels))},
      {"artifacts.proto", absl::StrCat("at most ", Digits(kBlobNames))},
      {"artifacts.proto", absl::StrCat("at most ", Size(kChunkBytes))},
  };
  std::map<std::string, std::string> comments;
  for (const auto& [file, words] : quotes) {
    if (!comments.contains(file)) comments[file] = Comments(file);
    EXPECT_NE(comments[file].find(words), std::string::npos)
        << file << " does not say \"" << words << "\"";
  }
}

// A page may end with a job that is as long as a job can be.
TEST(Limits, APageAndAJobFitIntoAMessage) {
  constexpr size_t kMessage = 4 << 20;  // what gRPC takes by itself
  const size_t labels = kJobLabels * (kJobLabelKeyBytes + kJobLabelValueBytes);
  const size_t texts = kMessageBytes + kNameBytes + kOwnerBytes +
                       2 * kMetrics * kMetricNameBytes +
                       kFallbackOps * kMetricNameBytes;
  EXPECT_LT(kPageBytes + labels + texts, kMessage);
  EXPECT_LT(kStoredSpecBytes + kMatrixBytes + kWarnings * kWarningBytes +
                labels + texts,
            kMessage);
}

}  // namespace
}  // namespace mpsd::limits
