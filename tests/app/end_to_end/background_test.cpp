// SPDX-License-Identifier: Apache-2.0
// Responses in the background of the real server: whoever dies meanwhile, client,
// server or nobody, the stream has the same events.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> flags_of(const TemporaryDirectory& place) {
  return {"--model",           TROUPE_SOURCE_DIR "/models/demo",
          "--memory",          "256MiB",
          "--log-level",       "warning",
          "--store-directory", place.path().string()};
}

constexpr int kNumTokens = 600;

// Long, and with draws that no two seeds share.
json a_request(std::uint64_t seed) {
  return {{"input", "Tell me a story about a dog."},
          {"background", true},
          {"temperature", 1.0},
          {"seed", seed},
          {"ignore_eos", true},
          {"max_output_tokens", kNumTokens}};
}

std::string begin(const ServerProcess& server, const json& body) {
  const auto answer = http_post(server.port(), "/v1/responses", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body)["id"];
}

json look(const ServerProcess& server, const std::string& id) {
  const auto answer = http_get(server.port(), "/v1/responses/" + id);
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body);
}

bool has_ended(const json& response) {
  return response["status"] != "queued" && response["status"] != "in_progress";
}

std::string text_of(const json& response) {
  return response["output"].empty() ? "" : response["output"][0]["content"][0]["text"].get<std::string>();
}

std::string text_at_end(const ServerProcess& server, const std::string& id) {
  REQUIRE(eventually([&] { return has_ended(look(server, id)); }));
  const auto response = look(server, id);
  CHECK(response["status"] == "incomplete");  // of its limit
  CHECK(response["usage"]["output_tokens"] == kNumTokens);
  return text_of(response);
}

// The data of all events, but for the last, which has times.
std::vector<std::string> events_of(const ServerProcess& server, const std::string& id, int after = -1) {
  std::string target = "/v1/responses/" + id + "?stream=true";
  if (after >= 0) target += "&starting_after=" + std::to_string(after);
  const auto answer = http_get(server.port(), target);
  REQUIRE(answer.status == 200);
  std::vector<std::string> events;
  for (std::size_t at = 0; (at = answer.body.find("data: ", at)) != std::string::npos; ++at)
    events.push_back(answer.body.substr(at + 6, answer.body.find('\n', at) - at - 6));
  REQUIRE(!events.empty());
  events.pop_back();
  return events;
}

std::size_t num_journals(const TemporaryDirectory& place) {
  const std::filesystem::directory_iterator files(place.path());
  return static_cast<std::size_t>(std::count_if(
      begin(files), end(files), [](const auto& file) { return file.path().extension() == ".journal"; }));
}

}  // namespace

TEST_CASE(
    "background: a server killed at any token, and again, goes on, and its answer is the undisturbed one") {
  const TemporaryDirectory place;
  std::string undisturbed;
  std::vector<std::string> events;
  {
    ServerProcess server(flags_of(place));
    auto body = a_request(5);
    body["stream"] = true;
    const auto whole = http_post(server.port(), "/v1/responses", body.dump());
    const auto id = json::parse(whole.body.substr(
        whole.body.find("data: ") + 6,
        whole.body.find('\n', whole.body.find("data: ")) - whole.body.find("data: ") - 6))["response"]["id"]
                        .get<std::string>();
    events = events_of(server, id);
    undisturbed = text_of(look(server, id));
    CHECK(num_journals(place) == 0);
  }
  std::mt19937 random(3);
  int num_interrupted = 0;
  for (int round = 0; round < 6; ++round) {
    std::string id;
    std::size_t shown = 0;
    for (int kill = 0; kill < 3; ++kill) {
      ServerProcess server(flags_of(place));
      if (id.empty()) id = begin(server, a_request(5));
      const std::size_t until = shown + random() % 800;
      CHECK(eventually([&] {
        const auto response = look(server, id);
        shown = text_of(response).size();
        CHECK(undisturbed.starts_with(text_of(response)));
        return shown >= until || has_ended(response);
      }));
      num_interrupted += has_ended(look(server, id)) ? 0 : 1;
      server.signal(SIGKILL);
      server.wait();
    }
    const ServerProcess server(flags_of(place));
    CHECK(text_at_end(server, id) == undisturbed);
    CHECK(eventually([&] { return num_journals(place) == 0; }));
  }
  CHECK(num_interrupted > 0);
}

TEST_CASE("background: events behind a number are those of an undisturbed run, also after a kill") {
  const TemporaryDirectory place;
  std::string id;
  {
    ServerProcess server(flags_of(place));
    id = begin(server, a_request(9));
    REQUIRE(eventually([&] { return text_of(look(server, id)).size() > 150; }));
    server.signal(SIGKILL);
    server.wait();
  }
  const ServerProcess server(flags_of(place));
  const auto interrupted = events_of(server, id);  // waits for the end
  const auto other = begin(server, a_request(9));
  auto undisturbed = events_of(server, other);
  REQUIRE(interrupted.size() == undisturbed.size());
  const auto bare = [](const std::string& text) { return text.substr(5); };
  for (std::size_t i = 2; i < interrupted.size(); ++i) {  // those in front say when it was created
    std::string event = undisturbed[i];
    for (std::size_t at = 0; (at = event.find(bare(other), at)) != std::string::npos;)
      event.replace(at, bare(other).size(), bare(id));
    CHECK(event == interrupted[i]);
  }
  CHECK(events_of(server, id, 20) == std::vector(interrupted.begin() + 21, interrupted.end()));
}

TEST_CASE("background: an answer of a given form keeps to it across a kill") {
  const TemporaryDirectory place;
  json body = a_request(2);
  body.erase("ignore_eos");
  body["text"]["format"] = {{"type", "json_schema"},
                            {"name", "list"},
                            {"schema",
                             {{"type", "array"},
                              {"items", {{"type", "string"}, {"minLength", 40}, {"maxLength", 40}}},
                              {"minItems", 12},
                              {"maxItems", 12}}}};
  std::string id;
  {
    ServerProcess server(flags_of(place));
    id = begin(server, body);
    REQUIRE(eventually([&] { return text_of(look(server, id)).size() > 150; }));
    CHECK(!has_ended(look(server, id)));
    server.signal(SIGKILL);
    server.wait();
  }
  const ServerProcess server(flags_of(place));
  REQUIRE(eventually([&] { return has_ended(look(server, id)); }));
  const auto response = look(server, id);
  REQUIRE(response["status"] == "completed");
  const auto list = json::parse(text_of(response));
  CHECK(list.size() == 12);
  const auto other = begin(server, body);
  REQUIRE(eventually([&] { return has_ended(look(server, other)); }));
  CHECK(text_of(look(server, other)) == text_of(response));
}

TEST_CASE("background: what a process had drawn is not drawn again") {
  const TemporaryDirectory place;
  std::string id;
  {
    ServerProcess server(flags_of(place));
    id = begin(server, a_request(4));
    REQUIRE(eventually([&] { return text_of(look(server, id)).size() > 200; }));
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
  CHECK(num_journals(place) == 1);
  const ServerProcess server(flags_of(place));
  text_at_end(server, id);
  const auto metrics = http_get(server.port(), "/metrics").body;
  const auto value = [&](const std::string& name) {
    const auto at = metrics.find("\n" + name + "{");
    REQUIRE(at != std::string::npos);
    return std::stod(metrics.substr(metrics.find("} ", at) + 2));
  };
  CHECK(value("troupe_generation_tokens_total") < kNumTokens - 30);
}

TEST_CASE("background: a conversation goes on from it, and one that was cancelled is not taken up again") {
  const TemporaryDirectory place;
  std::string cancelled;
  {
    ServerProcess server(flags_of(place));
    const auto first =
        begin(server, {{"input", "My name is Anna."}, {"background", true}, {"temperature", 0}});
    REQUIRE(eventually([&] { return has_ended(look(server, first)); }));
    const auto second = begin(server, {{"input", "What is my name?"},
                                       {"previous_response_id", first},
                                       {"background", true},
                                       {"temperature", 0}});
    REQUIRE(eventually([&] { return has_ended(look(server, second)); }));
    CHECK(text_of(look(server, second)).find("Anna") != std::string::npos);
    CHECK(look(server, second)["background"] == true);
    cancelled = begin(server, a_request(1));
    const auto answer = http_post(server.port(), "/v1/responses/" + cancelled + "/cancel", "");
    REQUIRE(json::parse(answer.body)["status"] == "cancelled");  // 600 tokens take longer
    CHECK(eventually([&] { return num_journals(place) == 0; }));
    server.signal(SIGKILL);
    server.wait();
  }
  const ServerProcess server(flags_of(place));
  CHECK(http_get(server.port(), "/v1/responses/" + cancelled).status == 404);
}

TEST_CASE("background: a draw without a seed of the client's is the same after a kill") {
  const TemporaryDirectory place;
  json body = a_request(1);
  body.erase("seed");
  std::string id, before;
  {
    ServerProcess server(flags_of(place));
    id = begin(server, body);
    REQUIRE(eventually([&] { return (before = text_of(look(server, id))).size() > 30; }));
    server.signal(SIGKILL);
    server.wait();
  }
  const ServerProcess server(flags_of(place));
  CHECK(text_at_end(server, id).starts_with(before));
}

TEST_CASE("background: deleted at any moment, it is gone, also for the next process") {
  const TemporaryDirectory place;
  std::vector<std::string> ids;
  std::mt19937 random(7);
  {
    ServerProcess server(flags_of(place));
    for (int i = 0; i < 40; ++i) {
      const auto id = begin(server, {{"input", "Hello."}, {"background", true}, {"temperature", 0}});
      ids.push_back(id);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 12));
      const auto answer = http_send(server.port(), "DELETE", "/v1/responses/" + id);
      CHECK(answer.status == 200);
      CHECK(http_get(server.port(), "/v1/responses/" + id).status == 404);
    }
    CHECK(eventually([&] { return num_journals(place) == 0; }));
    server.signal(SIGKILL);
    server.wait();
  }
  const ServerProcess server(flags_of(place));
  for (const auto& id : ids) CHECK(http_get(server.port(), "/v1/responses/" + id).status == 404);
}

TEST_CASE("background: clients that look while the server ends hear of no end") {
  const TemporaryDirectory place;
  std::string id;
  {
    ServerProcess server(flags_of(place));
    id = begin(server, a_request(6));
    REQUIRE(eventually([&] { return text_of(look(server, id)).size() > 20; }));
    server.signal(SIGTERM);
    for (;;) {
      try {
        const auto answer = http_get(server.port(), "/v1/responses/" + id);
        if (answer.status != 200) break;
        CHECK(json::parse(answer.body)["status"] != "cancelled");
        CHECK(json::parse(answer.body)["status"] != "failed");
      } catch (const std::exception&) {
        break;  // it is gone
      }
    }
    CHECK(server.wait() == 0);
  }
  const ServerProcess server(flags_of(place));
  text_at_end(server, id);
}

TEST_CASE("background: without a store it is refused") {
  const ServerProcess server({"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "256MiB",
                              "--log-level", "warning", "--store-directory", "none"});
  const auto refused = http_post(server.port(), "/v1/responses", a_request(1).dump());
  CHECK(refused.status == 400);
  CHECK(refused.body.find("keeps no responses") != std::string::npos);
}

TEST_CASE("background: answers that were cancelled are not taken up, however the server ends then") {
  for (const int signal : {SIGKILL, SIGTERM}) {
    const TemporaryDirectory place;
    std::vector<std::string> ids;
    {
      ServerProcess server(flags_of(place));
      for (int i = 0; i < 12; ++i) ids.push_back(begin(server, a_request(1)));
      for (const auto& id : ids) http_post(server.port(), "/v1/responses/" + id + "/cancel", "");
      server.signal(signal);
      server.wait();
    }
    const ServerProcess server(flags_of(place));
    for (const auto& id : ids) {
      const auto after = http_get(server.port(), "/v1/responses/" + id);  // or it was complete by then
      CHECK((after.status == 404 || json::parse(after.body)["status"] == "incomplete"));
    }
    CHECK(num_journals(place) == 0);
  }
}

TEST_CASE("background: restarts in order end no answer, with log-probabilities neither") {
  const TemporaryDirectory place;
  std::string id;
  for (int run = 0; run < 6; ++run) {
    ServerProcess server(flags_of(place));
    if (run == 0) {
      json body = a_request(8);
      body["include"] = {"message.output_text.logprobs"};
      body["max_output_tokens"] = 1500;
      id = begin(server, body);
    }
    CHECK(eventually([&] { return !text_of(look(server, id)).empty(); }));
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
  const ServerProcess server(flags_of(place));
  CHECK(look(server, id)["status"] != "failed");
}
