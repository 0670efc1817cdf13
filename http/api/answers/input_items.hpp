// SPDX-License-Identifier: Apache-2.0
// GET /v1/responses/{id}/input_items: what a response was given, page by page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "actors/request/api_error.hpp"
#include "actors/request/generation_request.hpp"

namespace troupe {

struct ItemPage {
  bool is_descending = true;  // the last item first, as OpenAI has it
  std::uint32_t limit = 20;   // 1 to 100
  std::string after = {};     // an item's id; empty: from the beginning
};

// query: of the target, without its '?'; keys it does not know are ignored.
std::variant<ItemPage, ApiError> parse_item_page(std::string_view query);

// The items that this request added, not those of responses it continues.
std::string input_items_json(const StoredResponse& response, const ItemPage& page);

}  // namespace troupe
