// SPDX-License-Identifier: Apache-2.0
#include "http/json/json_document.hpp"

#include <string>

#include <doctest/doctest.h>
#include <boost/json/serialize.hpp>

using namespace troupe;

namespace {

std::string refusal(std::string_view text, const Limits& limits = {}) {
  const auto parsed = parse_json(text, limits);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? "" : error->message;
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

}  // namespace

TEST_CASE("json: valid documents are read as they are") {
  for (const std::string_view text :
       {R"({"a":1,"b":[true,false,null],"c":"\u00e9\n","d":-2.5E-1,"e":{}})", "[]", "3",
        R"({"a":{"x":1},"b":{"x":1}})", R"("\ud83d\ude00")", "18446744073709551615"}) {
    CAPTURE(std::string(text));
    const auto parsed = parse_json(text, {});
    CHECK(std::holds_alternative<boost::json::value>(parsed));
  }
  const auto parsed = parse_json(R"({"b":[1,2.5,"x"],"a":{}})", {});
  CHECK(boost::json::serialize(std::get<boost::json::value>(parsed)) == R"({"b":[1,2.5E0,"x"],"a":{}})");
}

TEST_CASE("json: what is not JSON is refused with its place") {
  for (const std::string_view text :
       {"", "{", "{\"a\":1,}", "{'a':1}", "nul", "[1 2]", "{} {}", "[NaN]", "[Infinity]", "[-Infinity]",
        "// c\n{}", "\xEF\xBB\xBF{}", "[\"\x01\"]", "[\"\\ud800\"]", "[01]", "[+1]", "[.5]"}) {
    CAPTURE(std::string(text));
    CHECK(refusal(text).find("the body is not valid JSON") == 0);
  }
}

TEST_CASE("json: bytes that are no UTF-8 are called so") {
  for (const std::string_view text :
       {"[\"\xFF\"]", "[\"\xC0\x80\"]", "{\"a\":\"caf\xE9\"}", "[\"\xE2\x82\"]", "\xFF"}) {
    CAPTURE(std::string(text));
    CHECK(refusal(text).find("the body is not valid UTF-8 at byte") == 0);
  }
}

TEST_CASE("json: what two readers may understand differently is refused") {
  CHECK(refusal(R"({"a":1,"b":2,"a":3})").find("\"a\" is given twice") != std::string::npos);
  CHECK(refusal(R"({"x":{"a":1,"\u0061":3}})").find("given twice") != std::string::npos);
  CHECK(refusal("[1e999]").find("too large") != std::string::npos);
  CHECK(refusal("[-1e999]").find("too large") != std::string::npos);
  CHECK(refusal("[18446744073709551616]").find("64 bits") != std::string::npos);
  CHECK(refusal("[-9223372036854775809]").find("64 bits") != std::string::npos);
  CHECK(refusal(R"(["a\u0000b"])").find("u0000") != std::string::npos);
  CHECK(refusal(R"({"a\u0000":1})").find("u0000") != std::string::npos);
}

TEST_CASE("json: a long key that is repeated is shortened between characters") {
  std::string key;
  for (int i = 0; i < 40; ++i) key += "é";
  const std::string message = refusal("{\"" + key + "\":1,\"" + key + "\":2}");
  CHECK(message.find("given twice") != std::string::npos);
  CHECK(std::holds_alternative<boost::json::value>(parse_json("[\"" + key + "\"]", {})));
}

TEST_CASE("json: nesting goes to the limit and no further") {
  CHECK(refusal(nested(32)).empty());
  CHECK(!refusal(nested(33)).empty());
  CHECK(!refusal(nested(100'000)).empty());
}

TEST_CASE("json: the number of values is limited") {
  Limits limits;
  limits.max_json_values = 4;
  CHECK(refusal("[1,2,3]", limits).empty());
  CHECK(refusal("[1,2,3,4]", limits).find("more than 4 values") != std::string::npos);
  CHECK(refusal(R"({"a":{"b":{"c":{"d":1}}}})", limits).find("more than 4") != std::string::npos);
}
