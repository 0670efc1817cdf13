// SPDX-License-Identifier: Apache-2.0
// Which metrics a PromQL expression asks for.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace troupe::test {

// Takes away strings, label selectors, ranges, label lists and functions; what
// is left are names. Variables of dashboards ($name) are no metrics.
std::set<std::string> metric_names_in(std::string_view expression);

// The names of a text exposition, as queries may use them: those of samples
// (a histogram's _bucket, _sum, _count) and of families (native histograms).
std::set<std::string> exported_names(std::string_view text_exposition);

}  // namespace troupe::test
