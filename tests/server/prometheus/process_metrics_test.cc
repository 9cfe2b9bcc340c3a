// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/process_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace mpsd::prometheus {
namespace {

std::string Samples(const host::ProcessUsage& usage) {
  const std::string text =
      ::prometheus::TextSerializer().Serialize(ProcessFamilies(usage));
  std::string samples;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    if (text[at] != '#') samples += text.substr(at, end - at);
    at = end;
  }
  return samples;
}

TEST(ProcessFamilies, HaveTheNamesOfEveryClientLibrary) {
  EXPECT_EQ(Samples({4096, 1.5, 7, 1024, 100.25}),
            "process_cpu_seconds_total 1.5\n"
            "process_resident_memory_bytes 4096\n"
            "process_open_fds 7\n"
            "process_max_fds 1024\n"
            "process_start_time_seconds 100.25\n");
}

TEST(ProcessFamilies, WhatTheSystemDoesNotTellIsAbsent) {
  EXPECT_EQ(Samples({}), "");
  host::ProcessUsage usage;
  usage.open_descriptors = 3;
  EXPECT_EQ(Samples(usage), "process_open_fds 3\n");
}

}  // namespace
}  // namespace mpsd::prometheus
