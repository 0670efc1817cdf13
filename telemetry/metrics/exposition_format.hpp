// SPDX-License-Identifier: Apache-2.0
// In which of Prometheus' formats a scraper gets its answer, from what it says
// it accepts. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

enum class ExpositionFormat : std::uint8_t {
  kText,      // version 0.0.4; classic buckets
  kProtobuf,  // length-delimited MetricFamily messages; native histograms as well
};

// From the value of an Accept field, empty if there was none. Protobuf only for
// clients that ask for these very messages and don't like text better; text for
// all others, also for those that ask for something we don't have.
ExpositionFormat choose_exposition(std::string_view accept);

std::string_view content_type(ExpositionFormat format);

}  // namespace troupe
