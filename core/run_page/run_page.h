// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_RUN_PAGE_RUN_PAGE_H_
#define MPSD_CORE_RUN_PAGE_RUN_PAGE_H_

#include <string>
#include <string_view>

namespace mpsd::run_page {

// A page of HTML that shows the runs of `document`, JSON text as RunDocument()
// makes it. The page holds all that it needs: a browser that opens it asks no
// network, and its Content-Security-Policy forbids every request and every
// script and style beside its own. Text that is no JSON makes a page that says
// so; no text can leave the element in which it is embedded.
std::string RunPage(std::string_view document);

// The policy in the page, for a server that sends it as a header, too.
std::string ContentSecurityPolicy();

// Whether `head`, the first bytes of a file, are those of a RunPage().
bool BeginsLikeRunPage(std::string_view head);
// As many bytes are enough for BeginsLikeRunPage().
inline constexpr size_t kHeadBytes = 256;

}  // namespace mpsd::run_page

#endif  // MPSD_CORE_RUN_PAGE_RUN_PAGE_H_
