// SPDX-License-Identifier: Apache-2.0
#include "engine/cell_core.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace troupe {
namespace {

using Time = CellCore::TimePoint;

constexpr std::int32_t kVocabulary = 50;
constexpr std::int32_t kEnd = 7;
constexpr std::uint32_t kRows = 24;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15ULL)) * 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 31);
}
// A node's state is a hash of all that it read.
std::uint64_t state_of(std::uint32_t cell, std::int32_t token, const std::vector<std::uint64_t>& inputs) {
  std::uint64_t state = mixed(cell + 1, static_cast<std::uint64_t>(token + 2));
  for (const std::uint64_t input : inputs) state = mixed(state, input);
  return state;
}
std::int32_t token_of(std::uint64_t state) { return static_cast<std::int32_t>(state % kVocabulary); }
float number_of(std::uint64_t state) { return static_cast<float>(state % 4096); }

DeviceDescription description_of(UnfoldingKind kind) {
  DeviceDescription device;
  device.num_slots = kRows;
  device.max_batch_tokens = 6;
  device.context_length = 64;
  device.vocabulary_size = kVocabulary;
  const CellType first{.name = "first", .state = StateKind::kRows, .result = ResultKind::kToken};
  CellType second = first;
  second.priority = 1;
  device.cells = {first};
  if (kind != UnfoldingKind::kChain) device.cells.push_back(second);
  if (kind == UnfoldingKind::kEncodeDecode) device.cells[0].result = ResultKind::kState;
  if (kind == UnfoldingKind::kTree)
    for (CellType& cell : device.cells) {
      cell.result = ResultKind::kVector;
      cell.vector_size = 1;
    }
  return device;
}

UnfoldingRule rule_of(UnfoldingKind kind) {
  if (kind == UnfoldingKind::kEncodeDecode)
    return {.kind = kind, .source_end = 3, .decoder_start = 5, .attends = true};
  if (kind == UnfoldingKind::kTree) return {.kind = kind, .max_children = 8, .has_inner_words = true};
  return {};
}

// The device of one worker: batches in order, one row a slot.
struct FakeWorker {
  Epoch epoch = 0;
  std::vector<std::uint64_t> rows = std::vector<std::uint64_t>(kRows);
  std::vector<std::int32_t> drawn = std::vector<std::int32_t>(kRows, -1);
  std::deque<std::shared_ptr<const Batch>> queue;

  BatchResult run_next(const DeviceDescription& device) {
    const Batch batch = *queue.front();
    queue.pop_front();
    BatchResult result;
    result.batch_id = batch.id;
    std::vector<std::uint64_t> states;
    for (std::size_t i = 0; i < batch.slices.size(); ++i) {
      const SequenceSlice& slice = batch.slices[i];
      std::vector<std::uint64_t> inputs;
      for (std::uint32_t k = 0; k < slice.num_inputs; ++k)
        inputs.push_back(rows[batch.input_rows[slice.first_input + k]]);
      const bool is_inner_tree = device.cells[batch.cell].result == ResultKind::kVector && batch.cell == 1;
      const std::int32_t token = slice.input_from_slot ? drawn[batch.input_rows[slice.first_input]]
                                 : is_inner_tree       ? CellGraph::kNoToken
                                                       : batch.token_ids[i];
      states.push_back(state_of(batch.cell, token, inputs));
    }
    for (std::size_t i = 0; i < states.size(); ++i) {
      const SequenceSlice& slice = batch.slices[i];
      rows[slice.slot] = states[i];
      if (slice.sample) drawn[slice.slot] = token_of(states[i]);
      result.tokens.push_back(slice.sample ? token_of(states[i]) : -1);
      result.vectors.push_back(number_of(states[i]));
    }
    return result;
  }
};

struct Answer {
  std::vector<std::int32_t> tokens;
  std::vector<float> numbers;
  bool has_ended = false;
  std::string failure;
};

// A core with its workers, played by hand.
class World {
 public:
  explicit World(UnfoldingKind kind, std::size_t num_workers = 1, ServingSettings serving = {},
                 std::vector<std::uint32_t> max_cell_batches = {})
      : device(description_of(kind)),
        core_(options(kind, serving, std::move(max_cell_batches))),
        workers_(num_workers) {
    for (WorkerId id = 0; id < num_workers; ++id) bring_up(id);
  }

  void bring_up(WorkerId id) {
    workers_[id] = {};
    workers_[id].epoch = ++last_epoch_;
    hand(WorkerReady{.worker = id, .epoch = last_epoch_, .description = device});
  }
  void lose(WorkerId id) {
    const Epoch epoch = workers_[id].epoch;
    workers_[id].queue.clear();
    hand(WorkerLost{.worker = id, .epoch = epoch});
  }
  SequenceId admit(AdmissionTicket ticket) {
    ticket.sequence = ++last_sequence_;
    answers[ticket.sequence];
    hand(Admit{std::make_shared<const AdmissionTicket>(std::move(ticket))});
    return last_sequence_;
  }
  bool has_batch(WorkerId id) const { return !workers_[id].queue.empty(); }
  bool next_batch_has(WorkerId id, SequenceId sequence) const {
    const auto& slices = workers_[id].queue.front()->slices;
    return std::any_of(slices.begin(), slices.end(),
                       [&](const SequenceSlice& slice) { return slice.sequence == sequence; });
  }
  void finish_batch(WorkerId id) {
    BatchResult result = workers_[id].run_next(device);
    hand(BatchDone{.worker = id, .epoch = workers_[id].epoch, .result = std::move(result)});
  }
  void run() {
    for (bool works = true; works;) {
      works = false;
      for (WorkerId id = 0; id < workers_.size(); ++id)
        if (has_batch(id)) {
          finish_batch(id);
          works = true;
        }
    }
  }
  void hand(const Event& event) {
    Commands commands;
    now += std::chrono::milliseconds(1);
    core_.on(event, now, commands);
    for (Command& command : commands) take(command);
    REQUIRE(core_.is_consistent());
  }
  const CellCore& core() const { return core_; }
  std::size_t num_workers() const { return workers_.size(); }

  DeviceDescription device;
  Time now{};
  std::map<SequenceId, Answer> answers;
  std::vector<std::pair<CellId, std::size_t>> batches;  // cell and size, in order

 private:
  static CoreOptions options(UnfoldingKind kind, ServingSettings serving,
                             std::vector<std::uint32_t> max_cell_batches) {
    return {.serving = serving,
            .pages = {},
            .unfolding = rule_of(kind),
            .max_cell_batches = std::move(max_cell_batches)};
  }

  void take(const Command& command) {
    if (const auto* submit = std::get_if<SubmitBatch>(&command)) {
      check(*submit->batch);
      batches.emplace_back(submit->batch->cell, submit->batch->slices.size());
      workers_[submit->worker].queue.push_back(submit->batch);
    }
    const auto* emitted = std::get_if<Emit>(&command);
    if (!emitted) return;
    Answer& answer = answers.at(emitted->sequence);
    REQUIRE_FALSE(answer.has_ended);
    if (const auto* token = std::get_if<NewToken>(&emitted->output)) {
      if (token->token >= 0) answer.tokens.push_back(token->token);
      answer.has_ended = token->end != SequenceEnd::kNotYet;
    }
    if (const auto* encoded = std::get_if<Encoded>(&emitted->output)) {
      answer.numbers = encoded->vector;
      answer.has_ended = true;
    }
    if (const auto* failed = std::get_if<SequenceFailed>(&emitted->output)) {
      answer.failure = failed->message;
      answer.has_ended = true;
    }
  }

  void check(const Batch& batch) const {
    REQUIRE(!batch.slices.empty());
    REQUIRE(batch.slices.size() <= device.max_batch_tokens);
    std::set<SlotId> written;
    for (const SequenceSlice& slice : batch.slices) REQUIRE(written.insert(slice.slot).second);
    for (const SequenceSlice& slice : batch.slices)
      for (std::uint32_t k = 0; k < slice.num_inputs; ++k) {
        const SlotId row = batch.input_rows[slice.first_input + k];
        REQUIRE((row == slice.slot || !written.contains(row)));
      }
  }

  CellCore core_;
  std::vector<FakeWorker> workers_;
  Epoch last_epoch_ = 0;
  SequenceId last_sequence_ = 0;
};

AdmissionTicket ticket_of(std::vector<std::int32_t> prompt, std::uint32_t max_tokens) {
  AdmissionTicket ticket;
  ticket.prompt = std::move(prompt);
  ticket.max_tokens = max_tokens;
  ticket.end_tokens = {kEnd};
  return ticket;
}

AdmissionTicket ticket_of(std::shared_ptr<const CellGraph> graph) {
  AdmissionTicket ticket;
  ticket.prompt = {1};
  ticket.graph = std::move(graph);
  return ticket;
}

// What the request is answered, node by node.
Answer expected_of(const AdmissionTicket& ticket, UnfoldingKind kind) {
  const UnfoldingRule rule = rule_of(kind);
  const CellGraph graph =
      ticket.graph ? *ticket.graph
      : kind == UnfoldingKind::kChain
          ? unfold_chain(ticket.prompt)
          : unfold_encode_decode(ticket.prompt, {rule.source_end, rule.decoder_start, true});
  std::vector<std::uint64_t> states;
  Answer answer;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    std::vector<std::uint64_t> inputs;
    for (const auto input : graph.inputs(i)) inputs.push_back(states[input]);
    states.push_back(state_of(graph.node(i).cell, graph.node(i).token, inputs));
    if (graph.node(i).is_result) answer.numbers.push_back(number_of(states.back()));
  }
  if (!graph.growth()) return answer;
  const std::size_t most = std::min<std::size_t>(*ticket.max_tokens, 64 - ticket.prompt.size());
  std::uint64_t last = states.back();
  while (true) {
    answer.tokens.push_back(token_of(last));
    if (answer.tokens.back() == kEnd || answer.tokens.size() == most) return answer;
    std::vector<std::uint64_t> inputs = {last};
    for (const auto read : graph.growth()->read) inputs.push_back(states[read]);
    last = state_of(graph.growth()->cell, answer.tokens.back(), inputs);
  }
}

std::shared_ptr<const CellGraph> random_tree(std::mt19937& random, std::size_t num_leaves) {
  auto graph = std::make_shared<CellGraph>();
  std::vector<CellGraph::NodeIndex> roots;
  for (std::size_t i = 0; i < num_leaves; ++i)
    roots.push_back(graph->add(
        {.cell = 0, .token = static_cast<std::int32_t>(random() % kVocabulary), .is_result = true}, {}));
  while (roots.size() > 1) {
    const std::size_t count = std::min<std::size_t>(roots.size(), 2 + random() % 3);
    const auto first = roots.end() - static_cast<std::ptrdiff_t>(count);
    const auto parent =
        graph->add({.cell = 1, .is_result = true}, std::vector<CellGraph::NodeIndex>(first, roots.end()));
    roots.erase(first, roots.end());
    roots.insert(roots.begin() + static_cast<std::ptrdiff_t>(random() % (roots.size() + 1)), parent);
  }
  graph->finish();
  return graph;
}

AdmissionTicket random_ticket(std::mt19937& random, UnfoldingKind kind) {
  if (kind == UnfoldingKind::kTree) return ticket_of(random_tree(random, 1 + random() % 12));
  std::vector<std::int32_t> prompt(1 + random() % 9);
  for (auto& token : prompt) token = static_cast<std::int32_t>(random() % kVocabulary);
  return ticket_of(std::move(prompt), 1 + random() % 20);
}

// Deaths that have nothing to do with it met its trial (policy/health/suspects.hpp).
bool is_condemned(const Answer& answer) {
  return answer.failure.find("failed repeatedly") != std::string::npos;
}

void check_answer(const Answer& answer, const AdmissionTicket& ticket, UnfoldingKind kind) {
  const Answer expected = expected_of(ticket, kind);
  CHECK(answer.failure == "");
  CHECK(answer.has_ended);
  CHECK(answer.tokens == expected.tokens);
  CHECK(answer.numbers == expected.numbers);
}

}  // namespace

TEST_CASE("cell core: requests that share batches are answered as if alone, whatever dies meanwhile") {
  int num_answered = 0, num_condemned = 0;
  for (const auto kind : {UnfoldingKind::kChain, UnfoldingKind::kEncodeDecode, UnfoldingKind::kTree})
    for (std::uint32_t seed = 1; seed <= 25; ++seed) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(seed);
      std::mt19937 random(seed);
      World world(kind, 1 + seed % 2,
                  {.max_batch_sequences = 5,
                   .cell_batching = static_cast<CellBatching>(seed % 3),
                   .cell_bucket_width = 3});
      std::map<SequenceId, AdmissionTicket> tickets;
      std::set<SequenceId> stopped, paused;
      for (int step = 0; step < 220; ++step) {
        const auto any = tickets.empty()
                             ? tickets.end()
                             : std::next(tickets.begin(), static_cast<int>(random() % tickets.size()));
        const WorkerId worker = static_cast<WorkerId>(random() % world.num_workers());
        switch (random() % 12) {
          case 0:
          case 1: {
            if (tickets.size() > 14) break;
            AdmissionTicket ticket = random_ticket(random, kind);
            const AdmissionTicket copy = ticket;
            tickets.emplace(world.admit(std::move(ticket)), copy);
            break;
          }
          case 2:
            if (any == tickets.end() || random() % 3 > 0) break;
            stopped.insert(any->first);
            world.hand(StopSequence{any->first});
            break;
          case 3:
            if (any == tickets.end()) break;
            paused.insert(any->first);
            world.hand(PauseSequence{any->first});
            break;
          case 4:
            if (paused.empty()) break;
            world.hand(ResumeSequence{*paused.begin()});
            paused.erase(paused.begin());
            break;
          case 5:
            if (random() % 6 > 0) break;
            world.lose(worker);
            world.bring_up(worker);
            break;
          case 6: world.hand(SchedulerTick{}); break;
          default:
            if (world.has_batch(worker)) world.finish_batch(worker);
        }
      }
      for (const SequenceId sequence : paused) world.hand(ResumeSequence{sequence});
      world.run();
      for (const auto& [sequence, ticket] : tickets)
        if (const Answer& answer = world.answers.at(sequence); is_condemned(answer)) {
          num_condemned += 1;
        } else if (!stopped.contains(sequence)) {
          num_answered += 1;
          check_answer(answer, ticket, kind);
        }
      CHECK(world.core().num_sequences() == 0);
      for (WorkerId id = 0; id < world.num_workers(); ++id) CHECK(world.core().num_free_rows(id) == kRows);
    }
  CHECK(num_answered > 600);
  CHECK(num_condemned < num_answered / 20);
}

TEST_CASE("cell core: a newcomer is in the batch that is formed next, beside nodes of any depth") {
  World world(UnfoldingKind::kChain, 1, {.max_in_flight = 1});
  world.admit(ticket_of({1, 2, 3, 4, 5, 6}, 4));
  world.finish_batch(0);
  world.finish_batch(0);
  CHECK(world.batches.back().second == 1);
  world.admit(ticket_of({9, 9}, 4));
  world.finish_batch(0);
  CHECK(world.batches.back().second == 2);
}

TEST_CASE("cell core: of two cells with work the later stage is next, and neither starves") {
  World world(UnfoldingKind::kEncodeDecode, 1, {.max_in_flight = 1});
  for (int i = 0; i < 3; ++i) world.admit(ticket_of({1, 2}, 20));
  for (int i = 0; i < 40 && world.has_batch(0); ++i) world.finish_batch(0);
  const auto first_decode = std::find_if(world.batches.begin(), world.batches.end(),
                                         [](const auto& batch) { return batch.first == 1; });
  REQUIRE(first_decode != world.batches.end());
  CHECK(first_decode - world.batches.begin() <= 6);
  world.run();
  for (const auto& [sequence, answer] : world.answers) CHECK(answer.has_ended);
}

// Sizes by cell.
std::map<CellId, std::size_t> largest_batches(const World& world) {
  std::map<CellId, std::size_t> largest;
  for (const auto& [cell, size] : world.batches) largest[cell] = std::max(largest[cell], size);
  return largest;
}

TEST_CASE("cell core: each cell has a largest batch of its own, but whole graphs have one size") {
  const auto largest = [](CellBatching batching) {
    World world(UnfoldingKind::kEncodeDecode, 1,
                {.max_in_flight = 1, .cell_batching = batching, .cell_bucket_width = 64}, {4, 2});
    for (int i = 0; i < 6; ++i) world.admit(ticket_of({1, 2}, 8));
    world.run();
    return largest_batches(world);
  };
  CHECK(largest(CellBatching::kCells) == std::map<CellId, std::size_t>{{0, 4}, {1, 2}});
  CHECK(largest(CellBatching::kWholeGraphs).at(1) > 2);
}

// Encoder batches in a row once a decoder has work, where one request decodes and another has
// much to encode.
std::size_t most_encodes_in_a_row(std::uint32_t max_tasks, std::uint32_t min_batch) {
  World world(UnfoldingKind::kEncodeDecode, 1,
              {.max_in_flight = 1, .max_cell_tasks = max_tasks, .min_cell_batch = min_batch});
  AdmissionTicket endless = ticket_of({1}, 60);
  endless.end_tokens.clear();
  world.admit(std::move(endless));
  world.admit(ticket_of({1, 2, 3, 4, 5, 6}, 4));
  world.run();
  std::size_t most = 0, in_a_row = 0;
  bool decodes = false;
  for (const auto& [cell, size] : world.batches) {
    decodes = decodes || cell == 1;
    in_a_row = cell == 0 && decodes ? in_a_row + 1 : 0;
    most = std::max(most, in_a_row);
  }
  for (const auto& [sequence, answer] : world.answers) CHECK(answer.has_ended);
  return most;
}

TEST_CASE("cell core: a cell has as many batches in a row as the settings say, if they are large enough") {
  CHECK(most_encodes_in_a_row(1, 1) == 1);
  CHECK(most_encodes_in_a_row(2, 1) == 2);
  CHECK(most_encodes_in_a_row(4, 1) == 4);
  CHECK(most_encodes_in_a_row(4, 2) == 1);  // one node is none of two
}

TEST_CASE("cell core: what can't be served is refused with numbers, and takes no rows") {
  SUBCASE("a graph of more rows than there are") {
    World world(UnfoldingKind::kTree);
    std::mt19937 random(1);
    const auto sequence = world.admit(ticket_of(random_tree(random, kRows + 1)));
    CHECK(world.answers[sequence].failure == "The graph needs 25 rows of state at once, the device has 24.");
  }
  SUBCASE("a graph of too many nodes") {
    World world(UnfoldingKind::kTree);
    auto graph = std::make_shared<CellGraph>();
    for (int i = 0; i < 100000; ++i) graph->add({.cell = 0, .token = 1}, {});
    graph->finish();
    const auto sequence = world.admit(ticket_of(graph));
    CHECK(world.answers[sequence].failure == "The graph has 100000 nodes, at most 65536 are possible.");
  }
  SUBCASE("no tree where one is needed") {
    World world(UnfoldingKind::kTree);
    const auto sequence = world.admit(ticket_of({1, 2}, 1));
    CHECK(world.answers[sequence].failure == "This model classifies trees: the input must be one.");
  }
  SUBCASE("a node of no cell, or one that its cell does not run") {
    World world(UnfoldingKind::kTree);
    auto graph = std::make_shared<CellGraph>();
    graph->add({.cell = 2, .token = 1}, {});
    graph->finish();
    CHECK(world.answers[world.admit(ticket_of(graph))].failure ==
          "Node 0 is of cell 2, but the model has 2.");
    auto empty = std::make_shared<CellGraph>();
    empty->add({.cell = 1}, {});
    empty->finish();
    CHECK(world.answers[world.admit(ticket_of(empty))].failure == "Node 0 has neither a word nor children.");
  }
  SUBCASE("a graph that somebody built wrong") {
    const auto refusal = [](UnfoldingKind kind, CellGraph::Node node, std::optional<std::uint32_t> grows) {
      World world(kind);
      const auto innocent = world.admit(ticket_of({1, 2}, 3));
      auto graph = std::make_shared<CellGraph>();
      graph->add(node, {});
      if (grows) graph->grow({.cell = *grows, .read = {}});
      graph->finish();
      AdmissionTicket ticket = ticket_of(std::move(graph));
      ticket.max_tokens = 3;
      const std::string failure = world.answers[world.admit(std::move(ticket))].failure;
      world.run();
      CHECK(world.answers[innocent].has_ended);
      CHECK(world.core().num_sequences() == 0);
      return failure;
    };
    const auto chain = UnfoldingKind::kChain, encodes = UnfoldingKind::kEncodeDecode;
    CHECK(refusal(chain, {.token = 1}, 0) == "");
    CHECK(refusal(chain, {.token = kVocabulary}, 0) ==
          "Node 0 has the token id 50, outside the vocabulary of 50.");
    CHECK(refusal(chain, {.token = -5}, 0) == "Node 0 has the token id -5, outside the vocabulary of 50.");
    CHECK(refusal(chain, {}, 0) == "Node 0 has no token, which its cell reads.");
    CHECK(refusal(chain, {.token = 1}, 1) == "The graph grows by nodes of cell 1, but the model has 1.");
    CHECK(refusal(chain, {.token = 1, .is_result = true}, {}) ==
          "Node 0 has no result: its cell gives no vector.");
    CHECK(refusal(encodes, {.cell = 1, .token = 1}, 1) == "");
    CHECK(refusal(encodes, {.cell = 1, .token = 1}, 0) ==
          "The graph grows, but the cells of its end draw no tokens.");
    CHECK(refusal(encodes, {.cell = 0, .token = 1}, 1) ==
          "The graph grows, but the cells of its end draw no tokens.");
    CHECK(refusal(UnfoldingKind::kTree, {.token = 1}, 0) ==
          "The graph grows, but this model's trees draw no tokens.");
  }
  SUBCASE("a prompt of more tokens than the context, an empty one, an unknown id") {
    World world(UnfoldingKind::kChain);
    CHECK(world.answers[world.admit(ticket_of(std::vector<std::int32_t>(65, 1), 1))].failure ==
          "This model's inputs have at most 64 tokens; this one has 65.");
    CHECK(world.answers[world.admit(ticket_of({}, 1))].failure ==
          "The input is empty; at least one token is needed.");
    CHECK(world.answers[world.admit(ticket_of({kVocabulary}, 1))].failure ==
          "Token ids must be in [0, 50); got 50 at position 0.");
    AdmissionTicket scored = ticket_of({1}, 1);
    scored.scores_prompt = true;
    CHECK(world.answers[world.admit(scored)].failure ==
          "This model's cells give no log-probabilities of a prompt.");
    CHECK(world.core().num_sequences() == 0);
  }
}

TEST_CASE("cell core: a batch of whole graphs is padded, and left when all its requests have ended") {
  World world(UnfoldingKind::kChain, 1,
              {.max_in_flight = 1, .cell_batching = CellBatching::kWholeGraphs, .cell_bucket_width = 7});
  const AdmissionTicket short_one = ticket_of({1, 2, 3}, 2), long_one = ticket_of({9, 8, 4, 6}, 6);
  const auto alone = world.admit(ticket_of({1}, 1));  // nothing else is there yet
  const auto one = world.admit(short_one), other = world.admit(long_one);
  while (!world.answers[alone].has_ended) world.finish_batch(0);
  while (!world.answers[other].has_ended) {
    CHECK_FALSE(world.answers[one].has_ended);
    world.finish_batch(0);
  }
  CHECK(world.answers[one].has_ended);
  // Padded to the four of the longer one, not to the seven of the bucket.
  std::vector<std::pair<CellId, std::size_t>> expected(1, {0, 1});
  expected.insert(expected.end(), 4 - 1 + world.answers[other].tokens.size(), {0, 2});
  CHECK(world.batches == expected);
  check_answer(world.answers[one], short_one, UnfoldingKind::kChain);
  check_answer(world.answers[other], long_one, UnfoldingKind::kChain);
}

TEST_CASE("cell core: an idle worker takes whole graphs of one bucket, and the next bucket then") {
  World world(UnfoldingKind::kChain, 1,
              {.cell_batching = CellBatching::kWholeGraphs, .cell_bucket_width = 2});
  world.admit(ticket_of({1}, 1));
  world.admit(ticket_of({1, 2, 3}, 1));
  world.admit(ticket_of({1, 2}, 1));
  world.admit(ticket_of({1, 2, 3, 4}, 1));
  world.run();
  // One alone; the bucket of 3 and 4; that of 1 and 2.
  std::vector<std::pair<CellId, std::size_t>> expected(1, {0, 1});
  expected.insert(expected.end(), 4, {0, 2});
  expected.insert(expected.end(), 2, {0, 1});
  CHECK(world.batches == expected);
}

TEST_CASE("cell core: instances run their requests alone, by turns") {
  World world(UnfoldingKind::kChain, 1, {.max_in_flight = 1, .cell_batching = CellBatching::kInstances});
  const AdmissionTicket one = ticket_of({1, 2, 3, 4}, 3), other = ticket_of({5, 6, 7, 8}, 3);
  const auto first = world.admit(one), second = world.admit(other);
  std::vector<SequenceId> order;
  while (world.has_batch(0)) {
    REQUIRE(world.next_batch_has(0, first) != world.next_batch_has(0, second));
    order.push_back(world.next_batch_has(0, first) ? first : second);
    world.finish_batch(0);
  }
  REQUIRE(order.size() > 4);
  CHECK(std::vector(order.begin(), order.begin() + 4) == std::vector{first, second, first, second});
  check_answer(world.answers[first], one, UnfoldingKind::kChain);
  check_answer(world.answers[second], other, UnfoldingKind::kChain);
}

TEST_CASE("cell core: a request that workers die of is failed, the others are answered") {
  World world(UnfoldingKind::kChain);
  const AdmissionTicket good = ticket_of({1, 2, 3}, 12), bad = ticket_of({4, 5, 6}, 12);
  const auto first = world.admit(good);
  const auto second = world.admit(bad);
  int num_deaths = 0;
  while (world.has_batch(0)) {
    if (world.next_batch_has(0, second)) {
      num_deaths += 1;
      world.lose(0);
      world.bring_up(0);
    } else {
      world.finish_batch(0);
    }
  }
  check_answer(world.answers[first], good, UnfoldingKind::kChain);
  CHECK(world.answers[second].failure ==
        "The server's worker failed repeatedly on this request, so it was given up.");
  CHECK(num_deaths <= 3);
}

TEST_CASE("cell core: tokens of an earlier process are reported again and not drawn again") {
  World world(UnfoldingKind::kChain);
  const AdmissionTicket whole = ticket_of({1, 2, 3}, 12);
  const Answer expected = expected_of(whole, UnfoldingKind::kChain);
  REQUIRE(expected.tokens.size() > 3);
  AdmissionTicket continued = whole;
  continued.drawn = {expected.tokens.begin(), expected.tokens.begin() + 3};
  const auto sequence = world.admit(continued);
  CHECK(world.answers[sequence].tokens == continued.drawn);
  world.run();
  check_answer(world.answers[sequence], whole, UnfoldingKind::kChain);
}

TEST_CASE("cell core: a full queue makes room at the cost of the largest flow") {
  World world(UnfoldingKind::kChain, 1, {.max_batch_sequences = 1, .max_waiting = 2});
  const auto admit = [&](const char* flow) {
    AdmissionTicket ticket = ticket_of({1, 2}, 20);
    ticket.flow = flow;
    return world.admit(ticket);
  };
  admit("a");
  admit("a");
  const auto third = admit("a");
  AdmissionTicket unknown = ticket_of({kVocabulary}, 1);
  unknown.flow = "b";
  CHECK(world.answers[world.admit(unknown)].failure == "Token ids must be in [0, 50); got 50 at position 0.");
  CHECK(world.answers[third].failure == "");  // what can't be served takes no place
  const auto other = admit("b");
  CHECK(world.answers[third].failure ==
        "The server's queue is full, and others have fewer requests in it; try again later.");
  CHECK(world.answers[other].failure == "");
  CHECK(world.answers[admit("a")].failure ==
        "The server has 2 requests waiting, which is its limit; try again later.");
}

}  // namespace troupe
