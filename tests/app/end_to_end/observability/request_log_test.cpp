// SPDX-License-Identifier: Apache-2.0
// What the running server says of requests in its log, and what it never says.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "loadgen/client/server/child_process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kTraceId = "0af7651916cd43dd8448eb211c80319c";
const std::string kChat = "/v1/chat/completions";

json body_of(const std::string& question, int max_tokens) {
  return {{"model", "demo"}, {"messages", user_asks(question)}, {"max_tokens", max_tokens}};
}

// The JSON lines that a server with these flags wrote while `visit` used it.
template <class Visit>
std::vector<json> log_of(const std::vector<std::string>& more, Visit visit) {
  std::vector<std::string> flags = {
      "--model", TROUPE_SOURCE_DIR "/models/demo", "--device", "noop", "--log-format", "json"};
  flags.insert(flags.end(), more.begin(), more.end());
  std::vector<json> lines;
  ServerProcess server(flags);
  visit(server.port());
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  const std::string text = server.output();
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("{")) lines.push_back(json::parse(line));  // throws if anything broke a line
  }
  return lines;
}

std::vector<json> lines_of(const std::vector<json>& log, const std::string& event) {
  std::vector<json> found;
  for (const auto& line : log)
    if (line.at("event") == event) found.push_back(line);
  return found;
}

}  // namespace

TEST_CASE("request log: a finished request is one line with its ids, counts and times") {
  const auto log = log_of({"--log-requests"}, [](std::uint16_t port) {
    CHECK(http_post(port, kChat, body_of("A secret question.", 5).dump(),
                    "X-Request-Id: mine-7\r\ntraceparent: 00-" + kTraceId + "-b7ad6b7169203331-00\r\n")
              .status == 200);
  });
  const auto lines = lines_of(log, "request finished");
  REQUIRE(lines.size() == 1);
  const json& line = lines[0];
  CHECK(line.at("level") == "info");
  CHECK(line.at("request_id") == "mine-7");
  CHECK(line.at("trace_id") == kTraceId);
  CHECK(line.at("span_id").get<std::string>().size() == 16);
  CHECK(line.at("end") == "length");
  CHECK(line.at("completion_tokens") == 5);
  CHECK(line.at("total_ms") >= line.at("first_token_ms"));
  CHECK(lines_of(log, "http request").empty());
}

TEST_CASE("request log: every line about a request has its request id and its trace id, none its words") {
  const auto log = log_of({"--log-level", "debug", "--api-key", "hunter2"}, [](std::uint16_t port) {
    const std::string key = "Authorization: Bearer hunter2\r\n";
    CHECK(http_post(port, kChat, body_of("A secret question.", 3).dump(), key).status == 200);
    CHECK(http_post(port, kChat, body_of("A secret question.", 0).dump(), key).status == 400);
    CHECK(http_post(port, kChat, "{\"secret\":", key).status == 400);
    CHECK(http_post(port, "/secret", "{}", key).status == 404);
    CHECK(http_post(port, kChat, body_of("A secret question.", 3).dump()).status == 401);
  });
  int num_lines = 0;
  for (const auto& line : log) {
    CHECK(line.dump().find("secret") == std::string::npos);
    CHECK(line.dump().find("hunter2") == std::string::npos);
    if (!line.at("event").get<std::string>().ends_with("request") && !line.contains("request_id")) continue;
    ++num_lines;
    CHECK(line.at("request_id").get<std::string>().size() > 4);
    CHECK(line.at("trace_id").get<std::string>().size() == 32);
  }
  CHECK(num_lines >= 7);
}

TEST_CASE("request log: a hostile request id is replaced, never repeated") {
  const std::vector<std::string> hostile = {"\x1b[31mred", "a\"b",  "a b", "caf\xC3\xA9",
                                            "\xFF",        "a\\nb", "a=b", "{}"};
  const auto log = log_of({"--log-requests"}, [&](std::uint16_t port) {
    for (const auto& id : hostile)
      http_post(port, kChat, body_of("Hi", 1).dump(), "X-Request-Id: " + id + "\r\n");
  });
  for (const auto& line : lines_of(log, "request finished"))
    CHECK(line.at("request_id").get<std::string>().starts_with("req-"));
}

TEST_CASE("request log: nobody reads standard error, and serving goes on") {
  // A shell gives it a pipe that holds 64 KiB and that nobody reads until its end.
  const TemporaryFile output;
  const std::string command = std::string("exec 3>&1; (") + TROUPE_BINARY +
                              " serve --port 0 --device noop --log-level debug --model " +
                              TROUPE_SOURCE_DIR "/models/demo 2>&1 >&3) | (read -r line; sleep 600)";
  // The shell and all it started end with its process group.
  troupe::loadgen::ChildProcess shell(
      {.arguments = {"/bin/sh", "-c", command}, .environment = {}, .output_file = output.path()});
  std::string said;
  REQUIRE(eventually([&] {
    said = file_text(output.path());
    return said.find("is ready at http://127.0.0.1:") != std::string::npos;
  }));
  const auto port = static_cast<std::uint16_t>(std::stoi(said.substr(said.find("127.0.0.1:") + 10)));
  const std::string body = body_of("Hi", 1).dump();
  for (int i = 0; i < 500; ++i)
    CHECK(http_post(port, kChat, body, "X-Request-Id: " + std::string(60, 'x') + "\r\n").status == 200);
  ::kill(-shell.pid(), SIGKILL);
}
