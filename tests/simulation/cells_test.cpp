// SPDX-License-Identifier: Apache-2.0
// Models of recurrent cells (chains, decoders that attend to their encoders, trees) beside chats
// and an encoder, on the real actors: a seed decides what is asked for, which clients hang up
// or read slowly, and which workers die of what.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "telemetry/log.hpp"
#include "tests/simulation/sim_client.hpp"
#include "tests/simulation/sim_embedder.hpp"
#include "tests/simulation/sim_world.hpp"

namespace troupe::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr ModelIndex kChat = 0, kEncoder = 1, kCells = 2, kDecoders = 3, kTrees = 4;

SimSettings settings_with_cells() {
  SimSettings settings = small_settings();
  settings.encoder = small_encoder();
  for (const auto kind : {UnfoldingKind::kChain, UnfoldingKind::kEncodeDecode, UnfoldingKind::kTree})
    settings.cells.push_back(small_cells(settings.device.description, kind));
  return settings;
}

// A tree as brackets, and the numbers of its nodes in their order there.
struct WrittenTree {
  std::string text;
  std::vector<float> numbers;
};

// Returns the state of the node that it writes.
std::uint64_t write_tree(std::mt19937_64& random, std::uint32_t num_leaves, WrittenTree& tree) {
  const std::size_t place = tree.numbers.size();
  tree.numbers.push_back(0);
  tree.text += "(0";
  std::uint64_t node = 0;
  if (num_leaves == 1) {
    const char word = static_cast<char>('a' + random() % 26);
    tree.text += std::string(" ") + word;
    node = sim_node(word, {});
  } else {
    std::vector<std::uint64_t> children;
    const std::uint32_t first = 1 + static_cast<std::uint32_t>(random() % (num_leaves - 1));
    for (const std::uint32_t size : {first, num_leaves - first}) {
      tree.text += " ";
      children.push_back(write_tree(random, size, tree));
    }
    node = sim_node(-1, children);
  }
  tree.text += ")";
  tree.numbers[place] = sim_number(node);
  return node;
}

EmbeddingRequest embedding_of(ModelIndex model) {
  EmbeddingRequest request;
  request.id = "embd-1";
  request.model = model;
  return request;
}

// Of texts, or of trees.
EmbedderPlan random_vectors(std::mt19937_64& random) {
  EmbedderPlan plan;
  plan.request = embedding_of(random() % 2 == 0 ? kEncoder : kTrees);
  if (plan.request.model == kTrees) plan.tree_numbers.emplace();
  for (std::uint64_t i = 0; i < 1 + random() % 4; ++i) {
    if (!plan.tree_numbers) {
      plan.request.inputs.emplace_back(
          TextPrompt{std::string(1 + random() % 30, static_cast<char>('a' + random() % 26))});
      continue;
    }
    WrittenTree tree;
    write_tree(random, 1 + static_cast<std::uint32_t>(random() % 14), tree);
    plan.request.inputs.emplace_back(TextPrompt{tree.text});
    plan.tree_numbers->insert(plan.tree_numbers->end(), tree.numbers.begin(), tree.numbers.end());
  }
  if (random() % 3 == 0) plan.cancel_after = microseconds(random() % 6000);
  return plan;
}

GenerationRequest completion_of(const std::string& text, std::uint32_t max_tokens, ModelIndex model) {
  GenerationRequest request;
  request.model = model;
  request.prompt = TextPrompt{text};
  request.max_tokens = max_tokens;
  request.sampling.seed = 7;
  return request;
}

ClientPlan random_completion(std::mt19937_64& random) {
  constexpr std::array kModels = {kChat, kCells, kCells, kDecoders};
  ClientPlan plan;
  const std::string text = "prompt " + std::string(random() % 12, static_cast<char>('a' + random() % 26));
  const auto max_tokens = 1 + static_cast<std::uint32_t>(random() % 40);
  plan.request = completion_of(text, max_tokens, kModels[random() % kModels.size()]);
  if (random() % 4 == 0) plan.cancel_after = microseconds(random() % 8000);
  if (random() % 5 == 0) plan.read_interval = microseconds(1 + random() % 3000);
  return plan;
}

// A death that has nothing to do with it may meet a request's trial (decision 0014).
bool is_condemned(const std::string& error) { return error.find("failed repeatedly") != std::string::npos; }

template <class Client>
std::string error_of(const Client& client) {
  return client.error() ? client.error()->message : "";
}

}  // namespace

TEST_CASE("simulated cells: whatever workers die of, chats, vectors, trees and completions come out right") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  std::uint64_t num_deaths = 0, num_condemned = 0, num_whole = 0, num_trees = 0, num_decoded = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::uint64_t n) { return random() % n; };
    SimSettings settings = settings_with_cells();
    settings.seed = seed;
    settings.options.num_workers = 1 + static_cast<std::uint32_t>(draw(2));
    settings.options.max_restarts = 100;
    settings.options.serving.max_queue_time = std::chrono::hours(1);  // a device that hangs takes its time
    settings.device.can_be_abandoned = settings.encoder->can_be_abandoned = true;
    for (SimCellSettings& cells : settings.cells) cells.device.can_be_abandoned = true;
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
      clients.push_back(std::make_shared<SimClient>(world, random_completion(random)));
      world.after(microseconds(draw(20'000)), [client = clients.back()] { client->start(); });
    }
    std::vector<std::shared_ptr<SimEmbedder>> embedders;
    for (std::uint64_t i = 0; i < 2 + draw(8); ++i) {
      embedders.push_back(std::make_shared<SimEmbedder>(world, random_vectors(random)));
      world.after(microseconds(draw(20'000)), [client = embedders.back()] { client->start(); });
    }
    const auto has_ended = [](const auto& client) { return client->has_ended(); };
    REQUIRE(world.run([&] {
      return std::all_of(embedders.begin(), embedders.end(), has_ended) &&
             std::all_of(clients.begin(), clients.end(), has_ended);
    }));
    world.run_for(milliseconds(1));
    const auto& violations = world.devices().violations;
    CHECK((violations.empty() ? "" : violations.front()) == "");
    for (const auto& client : clients) {
      const std::string error = error_of(*client);
      num_condemned += is_condemned(error) ? 1 : 0;
      CHECK((is_condemned(error) ? "" : error) == "");
      const bool is_whole = client->finished() && !client->was_cancelled();
      num_whole += is_whole ? 1 : 0;
      num_decoded += is_whole && client->plan().request.model == kDecoders ? 1 : 0;
    }
    for (const auto& client : embedders) {
      const std::string error = error_of(*client);
      num_condemned += is_condemned(error) ? 1 : 0;
      CHECK((is_condemned(error) ? "" : error) == "");
      num_trees += client->has_vectors() && client->plan().tree_numbers ? 1 : 0;
    }
    CHECK(world.scheduler().num_sequences() == 0);
    CHECK(world.engine().environment().board->num_open == 0);
    CHECK(world.pages().counts().running == 0);
    for (const ModelIndex model : {kCells, kDecoders, kTrees}) {
      const CellCore& cells = *world.scheduler().cores().cells(model);
      CHECK(cells.is_consistent());
      for (WorkerId worker = 0; worker < settings.options.num_workers; ++worker)
        CHECK(cells.num_free_rows(worker) == settings.cells[model - kCells].device.description.num_slots);
    }
  }
  CHECK(num_deaths > 20);
  CHECK(num_condemned < num_deaths / 5);
  CHECK(num_whole > 300);
  CHECK(num_decoded > 60);
  CHECK(num_trees > 50);
}

TEST_CASE("simulated cells: batches are as large as those that were measured to pay, and no larger") {
  SimSettings settings = settings_with_cells();
  settings.cells.front().max_cell_batches = {3};
  SimWorld world(settings);
  std::size_t largest = 0;
  world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
    largest = std::max(largest, batch.slices.size());
    return Fault::kNone;
  };
  std::vector<std::shared_ptr<SimClient>> clients;
  for (int i = 0; i < 6; ++i) {
    ClientPlan plan;
    plan.request = completion_of("prompt " + std::to_string(i), 20, kCells);
    clients.push_back(std::make_shared<SimClient>(world, std::move(plan)));
    clients.back()->start();
  }
  world.run();
  for (const auto& client : clients) CHECK(client->finished());
  CHECK(largest == 3);
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
