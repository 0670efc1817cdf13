// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/input_items.hpp"

#include <string>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "actors/request/answer/stored_items.hpp"

using namespace troupe;

namespace {

StoredResponse response_with(std::size_t num_items) {
  StoredResponse response;
  response.id = "resp_1";
  for (std::size_t i = 0; i < num_items; ++i)
    response.input.push_back({i % 2 == 0 ? "user" : "assistant", "t" + std::to_string(i)});
  return response;
}

// The texts shown, in order, and "+" if there are more.
std::string shown(const StoredResponse& response, std::string_view query) {
  const auto page = std::get<ItemPage>(parse_item_page(query));
  const auto list = boost::json::parse(input_items_json(response, page)).as_object();
  std::string texts;
  for (const auto& item : list.at("data").as_array())
    texts += std::string(item.at("content").at(0).at("text").as_string().c_str()) + " ";
  return texts + (list.at("has_more").as_bool() ? "+" : "");
}

}  // namespace

TEST_CASE("input items: the last comes first unless asked otherwise, page by page") {
  const auto response = response_with(4);
  CHECK(shown(response, "") == "t3 t2 t1 t0 ");
  CHECK(shown(response, "order=asc") == "t0 t1 t2 t3 ");
  CHECK(shown(response, "limit=3&order=asc") == "t0 t1 t2 +");
  CHECK(shown(response, "limit=3&order=asc&after=msg_1_2") == "t3 ");
  CHECK(shown(response, "after=msg_1_3&include=x") == "t2 t1 t0 ");
  CHECK(shown(response_with(0), "") == "");
}

TEST_CASE("input items: they are messages, of whoever wrote them") {
  const auto list =
      boost::json::parse(input_items_json(response_with(2), {.is_descending = false})).as_object();
  CHECK(list.at("object").as_string() == "list");
  CHECK(list.at("first_id").as_string() == "msg_1_0");
  CHECK(list.at("last_id").as_string() == "msg_1_1");
  CHECK(list.at("data").at(0).at("content").at(0).at("type").as_string() == "input_text");
  CHECK(list.at("data").at(1).at("content").at(0).at("type").as_string() == "output_text");
  CHECK(list.at("data").at(1).at("role").as_string() == "assistant");
}

TEST_CASE("input items: calls and their results are shown as they were given") {
  StoredResponse response{.id = "resp_1"};
  append_items(response.input, {.role = "assistant",
                                .tool_calls = {{.id = "c1", .name = "f", .arguments = R"({"a": "ä\n"})"}}});
  append_items(response.input, {.role = "tool", .content = "\"one\"", .tool_call_id = "c1"});
  const auto list = boost::json::parse(input_items_json(response, {.is_descending = false})).as_object();
  CHECK(list.at("data") ==
        boost::json::parse(
            R"([{"id":"msg_1_0","type":"function_call","status":"completed","call_id":"c1","name":"f",
                                "arguments":"{\"a\": \"ä\\n\"}"},
                               {"id":"msg_1_1","type":"function_call_output","status":"completed","call_id":"c1",
                                "output":"\"one\""}])"));
}

TEST_CASE("input items: a page that can't be is refused by name") {
  for (const auto& [query, field] : {std::pair{"limit=0", "limit"},
                                     {"limit=101", "limit"},
                                     {"limit=x", "limit"},
                                     {"limit=", "limit"},
                                     {"order=up", "order"}}) {
    CAPTURE(query);
    CHECK(std::get<ApiError>(parse_item_page(query)).field == field);
  }
}
