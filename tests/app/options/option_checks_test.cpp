// SPDX-License-Identifier: Apache-2.0
#include "app/options/option_checks.hpp"

#include <doctest/doctest.h>

#include "app/options/options.hpp"

using namespace troupe;

namespace option_checks_test {
namespace {

std::string refusal(const std::string& flag, const std::string& value) {
  try {
    resolve_options({.file = {}, .environment = {}, .flags = {{flag, value}}});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("option checks: what will not do is refused when options are read, and the option is named") {
  CHECK(contains(refusal("--host", "example.com"),
                 "--host: expected an IP address of this machine or localhost, got \"example.com\""));
  CHECK(contains(refusal("--api-key", " "), "--api-key: expected 1 to 512 printable"));
  CHECK(contains(refusal("--api-key", "my secret"), "without blanks"));
  CHECK_FALSE(contains(refusal("--api-key", "my secret"), "secret"));
  CHECK(contains(refusal("--cors-origins", "http://a,http://b\r\nSet-Cookie: x"),
                 "--cors-origins: expected origins"));
  CHECK(contains(refusal("--cors-origins", "chat.example"), "got \"chat.example\""));
  CHECK(contains(refusal("--allowed-hosts", "a,b:80"),
                 "--allowed-hosts: expected names or addresses without a port"));
  CHECK(contains(refusal("--model-name", "a b"), "--model-name: expected 1 to 128 letters"));
  CHECK(refusal("--model-name", std::string(100'000, 'a')).size() < 400);
  CHECK(contains(refusal("--metrics-port", "70000"), "--metrics-port"));
}

TEST_CASE("option checks: what will do is taken") {
  for (const auto& [flag, value] : {std::pair<std::string, std::string>{"--host", "localhost"},
                                    {"--host", "::1"},
                                    {"--host", "0.0.0.0"},
                                    {"--api-key", ""},
                                    {"--api-key", "sk-1"},
                                    {"--cors-origins", "*"},
                                    {"--cors-origins", "http://a, https://b:1,null"},
                                    {"--allowed-hosts", "gpu-box, 10.0.0.1,fd00::1"},
                                    {"--model-name", "org/Model-7B_v0.1:q4"},
                                    {"--metrics-port", "9464"}}) {
    CAPTURE(flag);
    CAPTURE(value);
    CHECK(refusal(flag, value).empty());
  }
}

TEST_CASE("option checks: lists are split at commas, blanks around the parts dropped") {
  CHECK(split_at_commas(" a, b c ,,\t,d") == std::vector<std::string>{"a", "b c", "d"});
  CHECK(split_at_commas("").empty());
}

}  // namespace option_checks_test
