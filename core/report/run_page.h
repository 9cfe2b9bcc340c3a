// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_RUN_PAGE_H_
#define MPSD_CORE_REPORT_RUN_PAGE_H_

#include <string>
#include <string_view>

namespace mpsd::run_page {

// An HTML page that shows the runs of `document`, JSON text made by
// RunDocument(). The page is self-contained: a browser makes no network request
// for it, and its Content-Security-Policy forbids all requests and all scripts
// and styles except its own. For text that is not JSON the page says so; no
// text can escape the element in which it is embedded.
std::string RunPage(std::string_view document);

// The policy in the page, for a server that also sends it as a header.
std::string ContentSecurityPolicy();

// Whether `head`, the first bytes of a file, are those of a RunPage().
bool BeginsLikeRunPage(std::string_view head);
// The number of bytes that BeginsLikeRunPage() needs.
inline constexpr size_t kHeadBytes = 256;

}  // namespace mpsd::run_page

#endif  // MPSD_CORE_REPORT_RUN_PAGE_H_
