// SPDX-License-Identifier: Apache-2.0
// The real server is ended, killed, starved of disk and started anew: the
// conversation goes on warm where it can, and right in any case.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

struct Answer {
  std::string text;
  json usage, timings;

  int from(const std::string& tier) const { return timings.value("tokens_from_" + tier, 0); }
};

// A user with one conversation, whichever server answers.
class User {
 public:
  Answer say(const test::ServerProcess& server, const std::string& text) {
    INFO(server.output());  // why, if it refuses
    const json answer = conversation_.say(server.port(), text);
    return {test::content_of(answer), answer["usage"], answer["timings"]};
  }

 private:
  test::Conversation conversation_{150};
};

std::vector<std::string> flags_of(const test::TemporaryDirectory& place, std::vector<std::string> more = {}) {
  more.insert(more.end(),
              {"--model", TROUPE_SOURCE_DIR "/models/demo", "--store-directory", place.path().string()});
  return more;
}

void end(test::ServerProcess& server) {
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

const std::string kLongAnswer = "Count from 3 to 50.";

}  // namespace

TEST_CASE("warm restart: a server that was ended goes on where it was") {
  const test::TemporaryDirectory place;
  User user;
  {
    test::ServerProcess server(flags_of(place));
    user.say(server, "My name is Clara.");
    user.say(server, kLongAnswer);
    end(server);  // at once: what is to be written is written before it goes
  }
  test::ServerProcess server(flags_of(place));
  const Answer answer = user.say(server, "What is my name?");
  CHECK(answer.text.find("Clara") != std::string::npos);
  CHECK(answer.from("disk") >= 96);
  CHECK(answer.usage["prompt_tokens_details"]["cached_tokens"] == answer.from("disk"));
  CHECK(user.say(server, "What is my name?").from("device") >= 96);
}

TEST_CASE("warm restart: a server that was killed at any moment goes on, and right") {
  const test::TemporaryDirectory place;
  std::mt19937_64 random(11);
  User user;
  int from_disk = 0;
  std::optional<test::ServerProcess> server(std::in_place, flags_of(place));
  user.say(*server, "My name is Clara.");
  for (int round = 0; round < 12; ++round) {
    user.say(*server, "Count from " + std::to_string(round + 1) + " to 40.");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    server->signal(SIGKILL);
    server->wait();
    server.emplace(flags_of(place));
    const Answer answer = user.say(*server, "What is my name?");
    CHECK(answer.text.find("Clara") != std::string::npos);
    from_disk += answer.from("disk");
  }
  CHECK(from_disk > 0);
  CHECK(server->output().find("not intact") == std::string::npos);
}

TEST_CASE("warm restart: a page file that is cut, or has flipped bits, costs time only") {
  for (const bool is_cut : {true, false}) {
    const test::TemporaryDirectory place;
    User user;
    {
      test::ServerProcess server(flags_of(place));
      user.say(server, "My name is Clara.");
      user.say(server, kLongAnswer);
      end(server);
    }
    const auto data = place.path() / "kv-pages.data";
    REQUIRE(std::filesystem::file_size(data) > 100'000);
    if (is_cut) {
      std::filesystem::resize_file(data, 100);
    } else {
      std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(5000);
      file.write("rotten", 6);
    }
    test::ServerProcess server(flags_of(place));
    const Answer answer = user.say(server, "What is my name?");
    CHECK(answer.text.find("Clara") != std::string::npos);
    const test::ServerMetrics metrics(server.port());
    CHECK(metrics.sum("troupe_kv_pages_not_intact_total", "tier=\"disk\"") >= 1);
    CHECK(server.output().find("not intact") != std::string::npos);
    end(server);
  }
}

TEST_CASE("warm restart: another build's or model's pages are not taken for its own") {
  const test::TemporaryDirectory place;
  User user;
  {
    test::ServerProcess server(flags_of(place, {"--compute-type", "bf16"}));
    user.say(server, kLongAnswer);
    end(server);
  }
  test::ServerProcess server(flags_of(place, {"--compute-type", "f32"}));
  CHECK(user.say(server, kLongAnswer).from("disk") == 0);
  CHECK(server.output().find("another model") != std::string::npos);
}

// A small file system of its own: KV takes what there is, but for the reserve.
TEST_CASE("warm restart: KV on a full disk gives way, and every conversation is stored") {
  const test::TemporaryDirectory place;
  if (::mount("tmpfs", place.path().c_str(), "tmpfs", 0, "size=3m,mode=0700") != 0) {
    MESSAGE("skipped: a file system can't be mounted here");
    return;
  }
  {
    test::ServerProcess server(flags_of(place, {"--log-level", "warning"}));
    const auto told = [&](const char* name) { return test::ServerMetrics(server.port()).sum(name); };
    User user;
    for (int i = 3; i < 13; ++i) user.say(server, "Count from " + std::to_string(i) + " to 60.");
    CHECK(test::eventually([&] { return server.output().find("nearly full") != std::string::npos; }));
    int num_stored = 0;
    for (int i = 0; i < 60; ++i) {
      const json body = {{"input", "x" + std::string(1900, ' ')}, {"max_output_tokens", 1}, {"store", true}};
      const auto answer = test::http_post(server.port(), "/v1/responses", body.dump());
      INFO(answer.body);
      CHECK(answer.status == 200);
      num_stored += answer.status == 200 ? 1 : 0;
    }
    CHECK(num_stored == 60);
    CHECK(told("troupe_store_failures_total") == 0);
    end(server);
  }
  ::umount2(place.path().c_str(), MNT_DETACH);
}

TEST_CASE("warm restart: with no memory on the host there is no disk tier, and the log says why") {
  const test::TemporaryDirectory place;
  const test::ServerProcess server(flags_of(place, {"--cache-host-memory", "0"}));
  User user;
  CHECK(user.say(server, "Count from 3 to 7.").text == "3, 4, 5, 6, 7");
  CHECK(server.output().find("no disk tier") != std::string::npos);
  CHECK(!std::filesystem::exists(place.path() / "kv-pages.data"));
}

// The limit on a file's size stands in for a disk that is full.
TEST_CASE("warm restart: a disk that is full stops nothing but the writing") {
  const test::TemporaryDirectory place;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit tight{.rlim_cur = 200'000, .rlim_max = before.rlim_max};
  User user;
  ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  std::optional<test::ServerProcess> server(std::in_place, flags_of(place));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, SIG_DFL);
  user.say(*server, "My name is Clara.");
  user.say(*server, kLongAnswer);
  user.say(*server, kLongAnswer);
  CHECK(test::eventually(
      [&] { return test::ServerMetrics(server->port()).sum("troupe_kv_page_writes_failed_total") >= 1; }));
  CHECK(server->output().find("the disk tier can't transfer a KV page") != std::string::npos);
  CHECK(user.say(*server, "What is my name?").text.find("Clara") != std::string::npos);
  end(*server);
  server.emplace(flags_of(place));
  const Answer answer = user.say(*server, "What is my name?");
  CHECK(answer.text.find("Clara") != std::string::npos);
  CHECK(answer.from("disk") > 0);  // what had found room
}
