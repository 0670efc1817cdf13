// SPDX-License-Identifier: Apache-2.0
// Conversations that the real server keeps: continued by the id of the last
// answer, after it was killed, and told apart by key. Judged by meaning.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> flags_of(const TemporaryDirectory& place, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "256MiB", "--log-level",
                           "warning", "--store-directory", place.path().string()});
  return more;
}

HttpAnswer post(const ServerProcess& server, json body, const std::string& headers = "") {
  if (!body.contains("temperature")) body["temperature"] = 0;
  return http_post(server.port(), "/v1/responses", body.dump(), headers);
}

struct Turn {
  std::string id, text;
  bool is_stored = false;
  int input_tokens = 0, output_tokens = 0, cached_tokens = 0;
};

Turn ask(const ServerProcess& server, const std::string& text, const std::string& previous = "",
         const std::string& headers = "") {
  json body = {{"input", text}, {"max_output_tokens", 300}};
  if (!previous.empty()) body["previous_response_id"] = previous;
  const auto answer = post(server, body, headers);
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  const auto response = json::parse(answer.body);
  return {.id = response["id"],
          .text = response["output"][0]["content"][0]["text"],
          .is_stored = response["store"],
          .input_tokens = response["usage"]["input_tokens"],
          .output_tokens = response["usage"]["output_tokens"],
          .cached_tokens = response["usage"]["input_tokens_details"]["cached_tokens"]};
}

std::string code_of(const HttpAnswer& answer) { return json::parse(answer.body)["error"]["code"]; }

}  // namespace

TEST_CASE("stored conversations: a follow-up needs the id of the answer before, and finds its KV") {
  const TemporaryDirectory place;
  const ServerProcess server(flags_of(place));
  const auto first = ask(server, "My name is Anna.");
  CHECK(first.is_stored);
  // The example of docs/conversations.md, which is shorter than a page.
  CHECK(ask(server, "What is my name?", first.id).cached_tokens ==
        first.input_tokens + first.output_tokens - 1);
  const auto second = ask(server, "Count from 3 to 40.", first.id);
  const auto third = ask(server, "What is my name?", second.id);
  CHECK(third.text.find("Anna") != std::string::npos);
  // All that was run, generated tokens too.
  CHECK(third.cached_tokens == second.input_tokens + second.output_tokens - 1);
  CHECK(third.cached_tokens > second.input_tokens);
  // With all of the history in the request: the same tokens, the same answer.
  const json messages = {{{"role", "user"}, {"content", "My name is Anna."}},
                         {{"role", "assistant"}, {"content", first.text}},
                         {{"role", "user"}, {"content", "Count from 3 to 40."}},
                         {{"role", "assistant"}, {"content", second.text}},
                         {{"role", "user"}, {"content", "What is my name?"}}};
  const auto chat = json::parse(http_post(server.port(), "/v1/chat/completions",
                                          json{{"messages", messages}, {"temperature", 0}}.dump())
                                    .body);
  CHECK(chat["usage"]["prompt_tokens"] == third.input_tokens);
  CHECK(chat["choices"][0]["message"]["content"] == third.text);
  // Two branches of one answer know of each other as little as of the future.
  const auto otto = ask(server, "My name is Otto.", first.id);
  CHECK(ask(server, "What is my name?", otto.id).text.find("Otto") != std::string::npos);
  CHECK(ask(server, "What is my name?", first.id).text.find("Anna") != std::string::npos);
}

TEST_CASE("stored conversations: other instructions take nothing away from what was said") {
  const TemporaryDirectory place;
  const ServerProcess server(flags_of(place));
  const auto first = ask(server, "My name is Anna.");
  const auto answer = post(server, {{"input", "What is my name?"},
                                    {"previous_response_id", first.id},
                                    {"instructions", "You are a helpful assistant."}});
  REQUIRE(answer.status == 200);
  const auto response = json::parse(answer.body);
  CHECK(response["output"][0]["content"][0]["text"].get<std::string>().find("Anna") != std::string::npos);
  CHECK(response["instructions"] == "You are a helpful assistant.");
  CHECK(json::parse(http_get(server.port(), "/v1/responses/" + first.id).body)["instructions"].is_null());
}

TEST_CASE("stored conversations: what was answered is there after the server was killed, every time") {
  const TemporaryDirectory place;
  std::vector<Turn> turns;
  for (int round = 0; round < 8; ++round) {
    ServerProcess server(flags_of(place));
    for (const auto& turn : turns) {
      const auto found = http_get(server.port(), "/v1/responses/" + turn.id);
      REQUIRE(found.status == 200);
      CHECK(json::parse(found.body)["output"][0]["content"][0]["text"] == turn.text);
    }
    const auto previous = turns.empty() ? "" : turns.back().id;
    turns.push_back(
        ask(server, round == 0 ? "My name is Anna." : "Count from 1 to " + std::to_string(3 + round) + ".",
            previous));
    server.signal(SIGKILL);  // the moment the answer was read
    CHECK(server.wait() == 128 + SIGKILL);
  }
  const ServerProcess server(flags_of(place));
  CHECK(ask(server, "What is my name?", turns.back().id).text.find("Anna") != std::string::npos);
}

TEST_CASE("stored conversations: deleted, unstored and unknown ones can't be continued") {
  const TemporaryDirectory place;
  const ServerProcess server(flags_of(place));
  const auto first = ask(server, "My name is Anna.");
  const auto second = ask(server, "Count from 1 to 5.", first.id);
  CHECK(http_send(server.port(), "DELETE", "/v1/responses/" + first.id).status == 200);
  CHECK(http_get(server.port(), "/v1/responses/" + first.id).status == 404);
  const auto unstored =
      json::parse(post(server, {{"input", "x"}, {"store", false}, {"max_output_tokens", 2}}).body);
  for (const std::string& id : {first.id, unstored["id"].get<std::string>(), std::string("resp_unknown")}) {
    const auto refused = post(server, {{"input", "What is my name?"}, {"previous_response_id", id}});
    CHECK(refused.status == 400);
    CHECK(code_of(refused) == "previous_response_not_found");
  }
  // What continued it goes on.
  CHECK(ask(server, "What is my name?", second.id).text.find("Anna") != std::string::npos);
}

TEST_CASE("stored conversations: each key sees and reuses its own only") {
  const TemporaryDirectory place;
  const auto keys = (place.path() / "keys").string();
  std::ofstream(keys) << "alice sk-a\nbob sk-b\n";
  ::chmod(keys.c_str(), 0600);
  const ServerProcess server(flags_of(place, {"--api-keys-file", keys}));
  const std::string alice = "Authorization: Bearer sk-a\r\n";
  const std::string bob = "Authorization: Bearer sk-b\r\n";
  const std::string text =
      "My name is Anna. My name is Anna. My name is Anna. My name is Anna. My name is Anna. "
      "My name is Anna. My name is Anna. What is my name?";
  CHECK(post(server, {{"input", "x"}}).status == 401);
  const auto first = ask(server, text, "", alice);
  CHECK(ask(server, text, "", alice).cached_tokens > 0);
  CHECK(ask(server, text, "", bob).cached_tokens == 0);
  CHECK(post(server, {{"input", text}, {"previous_response_id", first.id}}, bob).status == 400);
  CHECK(http_send(server.port(), "GET", "/v1/responses/" + first.id, bob).status == 404);
  CHECK(http_send(server.port(), "DELETE", "/v1/responses/" + first.id, bob).status == 404);
  CHECK(http_send(server.port(), "GET", "/v1/responses/" + first.id, alice).status == 200);
  CHECK(http_send(server.port(), "GET", "/v1/responses/" + first.id).status == 401);
}

TEST_CASE(
    "stored conversations: on a full disk answers come all the same, and are stored again when it has room") {
  const TemporaryDirectory place;
  const ServerProcess server(flags_of(place, {"--cache-disk-space", "0"}));
  CHECK(ask(server, "My name is Anna.").is_stored);
  const rlimit none{.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
  REQUIRE(::prlimit(server.pid(), RLIMIT_FSIZE, &none, nullptr) == 0);
  const auto unstored = ask(server, "My name is Anna.");
  CHECK(unstored.text.find("Anna") != std::string::npos);
  CHECK_FALSE(unstored.is_stored);
  const auto refused = post(server, {{"input", "My name is Anna."}, {"store", true}});
  CHECK(refused.status >= 500);
  CHECK(code_of(refused).starts_with("store_f"));
  const rlimit all{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  REQUIRE(::prlimit(server.pid(), RLIMIT_FSIZE, &all, nullptr) == 0);
  const auto again = ask(server, "My name is Anna.");
  CHECK(again.is_stored);
  CHECK(ask(server, "What is my name?", again.id).text.find("Anna") != std::string::npos);
}

TEST_CASE(
    "stored conversations: a damaged page costs no conversation but those on it, and the server says so") {
  const TemporaryDirectory place;
  std::vector<std::string> ids;
  {
    ServerProcess server(flags_of(place));
    for (int i = 0; i < 8; ++i) ids.push_back(ask(server, "My name is Anna.", i == 0 ? "" : ids.back()).id);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
  {
    std::fstream file(place.path() / "conversations.sqlite", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(12288);
    file.put('?');
  }
  const ServerProcess server(flags_of(place));
  for (const auto& id : ids) CHECK(http_get(server.port(), "/v1/responses/" + id).status == 200);
  CHECK(ask(server, "What is my name?", ids.back()).text.find("Anna") != std::string::npos);
  const auto ready = http_get(server.port(), "/ready");
  CHECK(ready.status == 200);
  const auto store = json::parse(ready.body)["store"];
  CHECK(store["state"] == "ok");
  CHECK(store["times_damaged"] == 1);
  CHECK(store["responses_salvaged"] == 8);
  CHECK(store["responses_lost"] == 0);
  CHECK(std::filesystem::exists(place.path() / "conversations.sqlite.aside-1"));
  CHECK(server.output().find("put aside") != std::string::npos);
}

TEST_CASE("stored conversations: a directory in use, or that is none, ends the start and says why") {
  const TemporaryDirectory place;
  const ServerProcess server(flags_of(place));
  const auto refusal = [&](const std::string& directory) {
    return run_command({TROUPE_BINARY, "serve", "--port", "0", "--model", TROUPE_SOURCE_DIR "/models/demo",
                        "--store-directory", directory});
  };
  const auto in_use = refusal(place.path().string());
  CHECK(in_use.exit_status == 1);  // it may be free at the next start
  CHECK(in_use.output.find("another troupe is using it") != std::string::npos);
  const auto nowhere = refusal("/proc/nope");
  CHECK(nowhere.exit_status == 78);
  CHECK(nowhere.output.find("--store-directory /proc/nope") != std::string::npos);
  CHECK(ask(server, "My name is Anna.").is_stored);
}

TEST_CASE("stored conversations: what is deleted is in no file while the server runs") {
  const TemporaryDirectory place;
  const ServerProcess server(flags_of(place));
  const auto kept = ask(server, "My name is Anna.");
  const auto gone = ask(server, "My secret is 4711. Count from 3 to 50.");
  const auto file_with = [&](const std::string& text) -> std::string {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place.path()))
      if (entry.is_regular_file() && file_text(entry.path()).find(text) != std::string::npos)
        return entry.path().filename();
    return "none";
  };
  const auto data = place.path() / "kv-pages.data";
  const auto num_bytes = [&] {
    const auto text = file_text(data);
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char byte) { return byte != 0; }));
  };
  REQUIRE(eventually([&] { return num_bytes() > 100'000; }));
  CHECK(file_with("My secret is 4711") != "none");
  CHECK(http_send(server.port(), "DELETE", "/v1/responses/" + gone.id).status == 200);
  CHECK(file_with("My secret is 4711") == "none");
  CHECK(file_with(kept.id) != "none");
  CHECK(eventually([&] { return num_bytes() == 0; }));
}

TEST_CASE("stored conversations: the files are for their owner only, and an open directory is warned of") {
  const TemporaryDirectory place;
  std::filesystem::permissions(place.path(), std::filesystem::perms(0755));
  for (const auto* name : {"conversations.sqlite", "kv-pages.data", "kv-pages.index", "page-costs.json"}) {
    place.write(name, "");
    std::filesystem::permissions(place.path() / name, std::filesystem::perms(0644));
  }
  const auto before = ::umask(0);
  const ServerProcess server(flags_of(place, {"--cache-measure=true"}));
  ::umask(before);
  CHECK(ask(server, "My name is Anna.").is_stored);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place.path())) {
    if (entry.path().filename() == "page-costs.json" && entry.file_size() == 0)
      continue;  // a busy machine's are not kept
    CAPTURE(entry.path().string());
    CHECK(entry.status().permissions() == std::filesystem::perms(entry.is_directory() ? 0700 : 0600));
  }
  CHECK(server.output().find("chmod 700") != std::string::npos);
}
