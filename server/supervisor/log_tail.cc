// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/log_tail.h"

#include <algorithm>
#include <fstream>

#include "core/base/printable.h"

namespace mpsd::supervisor {

std::string ReadLogTail(const std::string& path, int64_t start) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const int64_t size = file.tellg();
  int64_t from = std::max<int64_t>(start, 0);
  const bool cut = size - from > static_cast<int64_t>(kLogTailBytes);
  if (cut) from = size - static_cast<int64_t>(kLogTailBytes);
  if (from >= size) return "";
  std::string bytes(size - from, '\0');
  file.seekg(from);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(file.gcount());
  if (const size_t line = bytes.find('\n');
      cut && line != std::string::npos && line + 1 < bytes.size()) {
    bytes.erase(0, line + 1);
  }
  return base::Printable(bytes, base::Breaks::kKeep);
}

}  // namespace mpsd::supervisor
