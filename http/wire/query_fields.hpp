// SPDX-License-Identifier: Apache-2.0
// The fields of a request target's query, one after the other. Nothing is decoded.
#pragma once

#include <algorithm>
#include <string_view>

namespace troupe {

// Views of the query.
struct QueryField {
  std::string_view key, value;  // value: empty without '='
};

// Takes the first field off the query, which must not be empty.
inline QueryField take_query_field(std::string_view& query) {
  const auto pair = query.substr(0, query.find('&'));
  query.remove_prefix(std::min(pair.size() + 1, query.size()));
  const auto equals = std::min(pair.find('='), pair.size());
  return {.key = pair.substr(0, equals), .value = pair.substr(std::min(equals + 1, pair.size()))};
}

}  // namespace troupe
