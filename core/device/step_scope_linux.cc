// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

namespace mpsd::device {

StepScope::StepScope() : pool_(nullptr) {}
StepScope::~StepScope() = default;

}  // namespace mpsd::device
