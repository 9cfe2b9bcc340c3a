// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

// libobjc's functions are declared here, so that no source is Objective-C.
extern "C" void* objc_autoreleasePoolPush(void);
extern "C" void objc_autoreleasePoolPop(void* pool);

namespace mpsd::device {

StepScope::StepScope() : pool_(objc_autoreleasePoolPush()) {}
StepScope::~StepScope() { objc_autoreleasePoolPop(pool_); }

}  // namespace mpsd::device
