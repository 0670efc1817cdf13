// SPDX-License-Identifier: Apache-2.0
#include "http/json/json_text.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "http/json/json_document.hpp"

using namespace troupe;

TEST_CASE("json text: control characters, quotes and backslashes are escaped") {
  CHECK(json_string("a\"b\\c\n\r\t\b\f\x01\x1f\x7f/é😀") ==
        "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\\u007f/é😀\"");
  CHECK(json_string("") == "\"\"");
}

TEST_CASE("json text: every byte below 0x80 comes back as it was") {
  for (int c = 1; c < 0x80; ++c) {
    const std::string text = std::string("x") + static_cast<char>(c) + "y";
    const auto parsed = parse_json(json_string(text), {});
    REQUIRE(std::holds_alternative<boost::json::value>(parsed));
    const auto& read = std::get<boost::json::value>(parsed).as_string();
    CHECK(std::string(read.c_str()) == text);
  }
}

TEST_CASE("json text: integers are written in full") {
  std::string out;
  append_json_integer(out, std::numeric_limits<std::int64_t>::min());
  append_json_integer(out, 0);
  CHECK(out == "-92233720368547758080");
}

TEST_CASE("json text: shortening never cuts a character") {
  CHECK(shorten("abc", 5) == "abc");
  CHECK(shorten("abc", 2) == "ab");
  CHECK(shorten("aé", 2) == "a");
  CHECK(shorten("😀", 3).empty());
}

TEST_CASE("json text: numbers have three digits after the point, and what is no number is null") {
  const auto written = [](double number) {
    std::string out;
    append_json_number(out, number);
    return out;
  };
  CHECK(written(0) == "0.000");
  CHECK(written(1234.5678) == "1234.568");
  CHECK(written(-0.25) == "-0.250");
  CHECK(written(std::nan("")) == "null");
  CHECK(written(1e300) == "null");  // would not fit
  CHECK(written(INFINITY) == "null");
}
