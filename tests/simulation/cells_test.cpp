// SPDX-License-Identifier: Apache-2.0
// A model of recurrent cells beside chats and an encoder, on the real actors: a seed decides
// what is asked for, who hangs up or reads slowly, and which workers die of what.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "telemetry/log.hpp"
#include "tests/simulation/sim_client.hpp"
#include "tests/simulation/sim_world.hpp"

namespace troupe::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr ModelIndex kChat = 0, kCells = 2;

SimSettings settings_with_cells() {
  SimSettings settings = small_settings();
  settings.encoder = small_encoder();
  settings.cells = small_cells(settings.device.description);
  return settings;
}

GenerationRequest completion_of(const std::string& text, std::uint32_t max_tokens, ModelIndex model) {
  GenerationRequest request;
  request.model = model;
  request.prompt = TextPrompt{text};
  request.max_tokens = max_tokens;
  request.sampling.seed = 7;
  return request;
}

class ErrorSink final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    num_events += 1;
    if (auto* failed = std::get_if<Failed>(&event)) error = failed->error.message;
    if (const auto* given = std::get_if<Embedded>(&event)) vector = given->vectors;
  }
  std::size_t pending_bytes() const noexcept override { return 0; }

  int num_events = 0;
  std::string error;
  std::vector<float> vector;
};

}  // namespace

TEST_CASE(
    "simulated cells: whatever workers die of, chats, vectors and completions of cells come out right") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  std::uint64_t num_deaths = 0, num_condemned = 0, num_whole = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::uint64_t n) { return random() % n; };
    SimSettings settings = settings_with_cells();
    settings.seed = seed;
    settings.options.num_workers = 1 + static_cast<std::uint32_t>(draw(2));
    settings.options.max_restarts = 100;
    settings.options.serving.max_queue_time = std::chrono::hours(1);  // a device that hangs takes its time
    settings.device.can_be_abandoned = settings.encoder->can_be_abandoned = settings.cells->can_be_abandoned =
        true;
    SimWorld world(settings);
    const std::uint64_t interval = draw(3) == 0 ? 0 : 40 + draw(200);
    world.devices().choose_fault = [&](const Batch&, std::uint64_t number) {
      if (interval == 0 || number % interval != 0) return Fault::kNone;
      num_deaths += 1;
      constexpr std::array kFaults = {Fault::kBatchError, Fault::kThrowInCollect, Fault::kThrowInSubmit,
                                      Fault::kNeverCompletes};
      return kFaults[draw(kFaults.size())];
    };
    std::vector<std::shared_ptr<SimClient>> clients;
    for (std::uint64_t i = 0; i < 4 + draw(16); ++i) {
      ClientPlan plan;
      plan.request = completion_of("prompt " + std::string(draw(12), static_cast<char>('a' + draw(26))),
                                   1 + static_cast<std::uint32_t>(draw(40)), draw(3) == 0 ? kChat : kCells);
      if (draw(4) == 0) plan.cancel_after = microseconds(draw(8000));
      if (draw(5) == 0) plan.read_interval = microseconds(1 + draw(3000));
      clients.push_back(std::make_shared<SimClient>(world, std::move(plan)));
      world.after(microseconds(draw(20'000)), [client = clients.back()] { client->start(); });
    }
    const auto vectors = std::make_shared<ErrorSink>();
    world.after(microseconds(draw(10'000)), [&] {
      EmbeddingRequest request;
      request.id = "embd-1";
      request.model = 1;
      request.inputs.emplace_back(TextPrompt{"abc"});
      world.engine().embed(std::move(request), vectors);
    });
    REQUIRE(world.run([&] {
      return vectors->num_events > 0 && std::all_of(clients.begin(), clients.end(),
                                                    [](const auto& client) { return client->has_ended(); });
    }));
    world.run_for(milliseconds(1));
    const auto& violations = world.devices().violations;
    CHECK((violations.empty() ? "" : violations.front()) == "");
    // A death that has nothing to do with it may meet a request's trial (decision 0014).
    const auto is_condemned = [](const std::string& error) {
      return error.find("failed repeatedly") != std::string::npos;
    };
    for (const auto& client : clients) {
      const std::string error = client->error() ? client->error()->message : "";
      num_condemned += is_condemned(error) ? 1 : 0;
      CHECK((is_condemned(error) ? "" : error) == "");
      num_whole += client->finished() && !client->was_cancelled() ? 1 : 0;
    }
    if (!is_condemned(vectors->error))
      CHECK(vectors->vector == sim_vector(std::vector<std::int32_t>{'a', 'b', 'c'}));
    CHECK(world.scheduler().num_sequences() == 0);
    CHECK(world.engine().environment().board->num_open == 0);
    CHECK(world.pages().counts().running == 0);
    const CellCore& cells = *world.scheduler().cores().cells(kCells);
    CHECK(cells.is_consistent());
    for (WorkerId worker = 0; worker < settings.options.num_workers; ++worker)
      CHECK(cells.num_free_rows(worker) == settings.cells->description.num_slots);
  }
  CHECK(num_deaths > 20);
  CHECK(num_condemned < num_deaths / 5);
  CHECK(num_whole > 300);
}

TEST_CASE("simulated cells: answers of a given form are drawn token by token") {
  SimWorld world(settings_with_cells());
  ClientPlan plan;
  plan.request = completion_of("prompt", 40, kCells);
  plan.request.form = sim_form(4);
  const auto client = std::make_shared<SimClient>(world, std::move(plan));
  client->start();
  world.run();
  CHECK(client->has_ended());
  CHECK((client->error() ? client->error()->message : "") == "");
  CHECK(client->text().size() == 8);
}

}  // namespace troupe::sim
