// SPDX-License-Identifier: Apache-2.0
#include "core/data/shown.h"

#include <atomic>

namespace mpsd::data {
namespace {

std::atomic<bool> contents_shown{true};

}  // namespace

bool ContentsShown() { return contents_shown; }

void ShowContents(bool shown) { contents_shown = shown; }

}  // namespace mpsd::data
