// SPDX-License-Identifier: Apache-2.0
#include "app/api_keys.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "telemetry/log.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

struct Keys {
  explicit Keys(const std::string& text) {
    options.api_keys_file = (directory.path() / "keys").string();
    std::ofstream(options.api_keys_file) << text;
    ::chmod(options.api_keys_file.c_str(), 0600);
  }
  std::string refusal() const {
    try {
      load_api_keys(options);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  test::TemporaryDirectory directory;
  Options options;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("api keys: a file names the tenants, the option's key is the tenant default's") {
  Keys keys("# who may\nalice sk-1\n\n  bob\tsk-2  \nalice sk-3\n");
  keys.options.api_key = "one";
  const auto loaded = load_api_keys(keys.options).keys;
  REQUIRE(loaded.size() == 4);
  CHECK(loaded[0].tenant == "default");
  CHECK(loaded[0].key == "one");
  CHECK(loaded[1].tenant == "alice");
  CHECK(loaded[2].key == "sk-2");
  CHECK(loaded[3].tenant == "alice");
  CHECK(load_api_keys({}).keys.empty());
}

TEST_CASE("api keys: a line that is wrong is named, its key is not shown") {
  const std::string good = "alice sk-secret\n";
  for (const auto& [line, reason] : {std::pair<std::string, std::string>{"sk-secret", "expected a key"},
                                     {"a/b sk-secret", "a tenant's name"},
                                     {"alice sk-secret more", "got more"},
                                     {std::string(65, 'a') + " sk-secret", "a tenant's name"},
                                     {"bob sk-secret", "given twice"},
                                     {"alice sk-\x01secret", "expected a key"}}) {
    CAPTURE(line);
    const auto refusal = Keys(good + line + "\n").refusal();
    CHECK(contains(refusal, "keys:2: "));
    CHECK(contains(refusal, reason));
    CHECK_FALSE(contains(refusal, "secret"));
  }
}

TEST_CASE("api keys: limits of a tenant stand behind one of its keys, those of others behind a star") {
  Keys keys(
      "* max_requests=2\nalice sk-1 tokens_per_minute=600 burst_tokens=100 max_requests=4\nalice sk-2\n"
      "bob sk-3\ncarol sk-4 max_tokens=5000 cache_share=0.25\n");
  const LoadedKeys loaded = load_api_keys(keys.options);
  CHECK(loaded.keys.size() == 4);
  CHECK(loaded.limits.of("alice") ==
        TenantLimits{.max_requests = 4, .tokens_per_minute = 600, .burst_tokens = 100});
  CHECK(loaded.limits.of("bob") == TenantLimits{.max_requests = 2});
  CHECK(loaded.limits.of("carol") == TenantLimits{.max_tokens = 5000, .cache_share = 0.25});
}

TEST_CASE("api keys: limits that make no sense are refused by name") {
  for (const auto& [words, reason] :
       {std::pair<std::string, std::string>{"alice sk-2 max_requests=0",
                                            "max_requests: expected a whole number"},
        {"alice sk-2 max_tokens=-1", "max_tokens: expected a whole number"},
        {"alice sk-2 tokens_per_minute=1e5", "tokens_per_minute: expected a whole number"},
        {"alice sk-2 max_requests=", "max_requests: expected a whole number"},
        {"alice sk-2 max_requests=99999999999999999999", "max_requests: expected a whole number"},
        {"alice sk-2 max_tokens=1 max_tokens=2", "max_tokens: given twice"},
        {"alice sk-2 burst_tokens=5", "burst_tokens: needs tokens_per_minute"},
        {"alice sk-2 cache_share=0", "cache_share: expected a part"},
        {"alice sk-2 cache_share=25%", "cache_share: expected a part"},
        {"alice sk-2 cache_share=nan", "cache_share: expected a part"},
        {"alice sk-2 cache_share=1.5", "cache_share: expected a part"},
        {"alice sk-2 max_requests=1.5", "max_requests: expected a whole number"},
        {"alice sk-2 requests=5", "expected limits as NAME=NUMBER of max_requests"},
        {"alice sk-2 max_requests", "expected limits as NAME=NUMBER of max_requests"},
        {"alice max_requests=8", "expected a key behind the tenant's name"},
        {"alice burst_tokens=sk-2 sk-2", "expected a key behind the tenant's name"},
        {"bob sk-2 max_requests=3", "limits of this tenant are given twice"},
        {"*", "expected limits behind *"}}) {
    CAPTURE(words);
    const auto refusal = Keys("bob sk-1 max_requests=3\n" + words + "\n").refusal();
    CHECK(contains(refusal, "keys:2: " + reason));
    CHECK_FALSE(contains(refusal, "sk-2"));
  }
  CHECK(contains(Keys("* max_requests=3\n").refusal(), "at least one key"));
}

TEST_CASE("api keys: a file without a key or that can't be read opens no door") {
  CHECK(contains(Keys("# nobody\n").refusal(), "at least one key"));
  Options options;
  options.api_keys_file = "/nowhere/keys";
  CHECK_THROWS_WITH_AS(load_api_keys(options), "/nowhere/keys: No such file or directory",
                       std::runtime_error);
}

TEST_CASE("api keys: a FIFO is refused, and nobody waits for a writer") {
  Keys keys("");
  keys.options.api_keys_file = (keys.directory.path() / "fifo").string();
  REQUIRE(::mkfifo(keys.options.api_keys_file.c_str(), 0600) == 0);
  CHECK(contains(keys.refusal(), "fifo: expected a regular file"));
}
