// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_BENCH_STEP_PROFILE_H_
#define MPSD_TESTS_BENCH_STEP_PROFILE_H_

#include <functional>

#include "nlohmann/json.hpp"

namespace mpsd::bench {

// Where the time of `work` goes, by torch's profiler:
//
//   by_name    the `most` costliest of the device's kernels, or on the CPU of
//              the ATen calls that no other makes: [ms, count, name] each
//   total_ms   of all of them
//   wall_ms    from the first one's start to the last one's end
//
// The profiler itself costs the host time: wall_ms is of use only where the
// device is the slower one.
nlohmann::json ProfileOf(const std::function<void()>& work, size_t most);

}  // namespace mpsd::bench

#endif  // MPSD_TESTS_BENCH_STEP_PROFILE_H_
