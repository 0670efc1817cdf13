// SPDX-License-Identifier: Apache-2.0
// Models whose chat template can't be used: found when the server starts, and no
// reason not to serve what needs no template.
#include "tests/support/process/server_process.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/http/http_client.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kDemo = TROUPE_SOURCE_DIR "/models/demo";
constexpr const char* kChat = R"({"messages":[{"role":"user","content":"hello"}],"max_tokens":3})";

void write_model(const TemporaryDirectory& directory, const std::string& chat_template) {
  std::filesystem::copy(kDemo, directory.path());
  directory.write("chat_template.jinja", chat_template);
}

}  // namespace

TEST_CASE("unusable template: completions are served, chats are refused, the log says why") {
  struct Row {
    const char* chat_template;
    unsigned status;  // of a chat
    const char* reason;
  };
  const Row rows[] = {
      {"{% if %}", 400, "line 1"},
      {"{{ no_such_function(messages) }}", 500, "'no_such_function' is undefined"},
      {"{{ raise_exception('Never.') }}", 400, "Never."},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.chat_template));
    const TemporaryDirectory directory;
    write_model(directory, row.chat_template);
    const ServerProcess server({"--model", directory.path().string(), "--log-level", "warning"});
    CHECK(server.output().find("the chat template can't be used") != std::string::npos);
    CHECK(server.output().find(row.reason) != std::string::npos);
    const auto completion =
        http_post(server.port(), "/v1/completions", R"({"prompt":"hello","max_tokens":3})");
    CHECK(completion.status == 200);
    CHECK(http_post(server.port(), "/v1/chat/completions", kChat).status == row.status);
  }
}

TEST_CASE("unusable template: nothing is said of one that refuses only some conversations") {
  const TemporaryDirectory directory;
  write_model(directory,
              "{% if messages[0].role != 'system' %}{{ raise_exception('No system message.') }}{% endif %}"
              "{{ messages[0].content }}");
  const ServerProcess server({"--model", directory.path().string(), "--log-level", "warning"});
  CHECK(server.output().find("chat template") == std::string::npos);
  const auto refused = http_post(server.port(), "/v1/chat/completions", kChat);
  CHECK(refused.status == 400);
  CHECK(json::parse(refused.body)["error"]["message"] == "No system message.");
}
