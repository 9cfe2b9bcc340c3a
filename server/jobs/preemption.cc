// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/preemption.h"

namespace mpsd::jobs {

bool MayTake(const PreemptionPolicy& policy, const JobQueue::Entry& challenger,
             const Holder& holder) {
  return policy.enabled && !challenger.behind &&
         challenger.priority > holder.priority && holder.has_stepped &&
         holder.run >= policy.least_run &&
         (!holder.left || *holder.left >= policy.margin);
}

}  // namespace mpsd::jobs
