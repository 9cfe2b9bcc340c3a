// SPDX-License-Identifier: Apache-2.0
#include "server/web/files.h"

namespace mpsd::web {
namespace {

constexpr File kFiles[] = {
#include "web_files.inc"
};

}  // namespace

const File* FindFile(const std::string& name) {
  for (const File& file : kFiles) {
    if (name == file.name) return &file;
  }
  return nullptr;
}

}  // namespace mpsd::web
