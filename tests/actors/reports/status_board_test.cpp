// SPDX-License-Identifier: Apache-2.0
#include "actors/reports/status_board.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "store/state_directory.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

TEST_CASE("status: a failed engine stays failed, with its first reason") {
  StatusBoard board;
  board.become_ready();
  CHECK(board.fail("one"));
  CHECK_FALSE(board.fail("two"));
  board.become_draining();
  board.become_stopped();
  CHECK(board.state() == EngineState::kFailed);
  CHECK(board.failure() == "one");
}

TEST_CASE("status: a draining engine does not become ready again") {
  StatusBoard board;
  board.become_draining();
  board.become_ready();
  CHECK(board.state() == EngineState::kDraining);
}

TEST_CASE("status: without a sign of the actors their trouble is the engine's, whatever the device does") {
  StatusBoard board;
  CHECK(board.read().trouble == Trouble::kNone);
  board.trouble = Trouble::kReplacingDevice;
  CHECK(board.read().trouble == Trouble::kReplacingDevice);
  board.has_pulse = false;
  CHECK(board.read().trouble == Trouble::kEngineHangs);
}

TEST_CASE("status: a request that is being encoded, or saved, is counted as such, and is no trouble") {
  const test::TemporaryDirectory root;
  auto settings = sim::small_settings();
  settings.device.description.context_length = 8192;
  settings.device.description.num_pages = 4096;
  settings.options.store.directory = std::make_shared<StateDirectory>(root.path());
  settings.chat_template = std::make_shared<const ChatTemplate>(
      ChatTemplate::parse("{% for m in messages %}{{ m.content }}{% endfor %}"));
  sim::SimWorld world(settings);
  GenerationRequest request = letters("", 3);
  request.prompt = ChatPrompt{.messages = {{"user", std::string(5000, 'x')}}};
  request.turn = std::make_shared<const ConversationTurn>(ConversationTurn{.created = 1'700'000'000});
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(request, sink);
  std::string phases;  // in order, as seen after each message
  while (sink->num_terminal() == 0) {
    if (!world.step()) REQUIRE(world.advance());
    const EngineStatus status = world.engine().status();
    CHECK(status.trouble == Trouble::kNone);
    const char phase = status.num_encoding > 0 ? 'e' : status.num_in_store > 0 ? 's' : '-';
    if (phases.empty() || phases.back() != phase) phases += phase;
  }
  CHECK(phases == "-e-s-");
}

}  // namespace
}  // namespace troupe
