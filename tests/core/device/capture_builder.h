// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_DEVICE_CAPTURE_BUILDER_H_
#define MPSD_TESTS_CORE_DEVICE_CAPTURE_BUILDER_H_

#include <cstdint>
#include <string>

#include "core/device/capture.h"
#include "core/device/tally.h"

namespace mpsd::profile {

// A capture by hand; times in microseconds.
class CaptureBuilder {
 public:
  Event& Add(EventKind kind, const std::string& name, int64_t start,
             int64_t end) {
    capture_.names.push_back(name);
    Event event;
    event.kind = kind;
    event.name = static_cast<uint32_t>(capture_.names.size() - 1);
    event.start_ns = start * 1000;
    event.end_ns = end * 1000;
    capture_.events.push_back(event);
    return capture_.events.back();
  }
  Event& Mark(const std::string& name, int64_t start, int64_t end) {
    return Add(EventKind::kMark, "mpsd::" + name, start, end);
  }
  Event& Call(const std::string& name, int64_t start, int64_t end) {
    return Add(EventKind::kOperator, "aten::" + name, start, end);
  }
  const Capture& capture() const { return capture_; }
  Tally tally() const {
    Tally tally;
    tally.Add(capture_);
    return tally;
  }

 private:
  Capture capture_;
};

}  // namespace mpsd::profile

#endif  // MPSD_TESTS_CORE_DEVICE_CAPTURE_BUILDER_H_
