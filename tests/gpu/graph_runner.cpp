// SPDX-License-Identifier: Apache-2.0
#include "graph_runner.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "gpu/direct_device.hpp"
#include "policy/unfolding/graph_progress.hpp"

namespace troupe {
namespace {

class GraphRunner {
 public:
  GraphRunner(Device& device, ProgramCache& programs, const std::vector<GraphRequest>& requests,
              const GraphRunSettings& settings)
      : device_(device, &programs), requests_(requests), settings_(settings), random_(settings.seed) {
    std::vector<SlotId> rows(device.description().num_slots);
    std::iota(rows.begin(), rows.end(), 0U);
    if (settings.shuffle) std::shuffle(rows.begin(), rows.end(), random_);
    for (const GraphRequest& request : requests) {
      const std::size_t num_rows = request.graph->num_rows();
      if (rows.size() < num_rows) throw std::runtime_error("the test needs more rows");
      runs_.push_back(
          {.progress = GraphProgress(request.graph, num_cells(), request.num_new, settings.in_flight),
           .rows = {rows.end() - static_cast<std::ptrdiff_t>(num_rows), rows.end()},
           .answer = {}});
      rows.resize(rows.size() - num_rows);
    }
  }

  std::vector<GraphAnswer> run() {
    while (true) {
      const bool has_submitted = submit();
      if (!has_submitted && in_flight_.empty()) break;
      while (!in_flight_.empty() && (!has_submitted || in_flight_.size() >= settings_.in_flight)) collect();
    }
    std::vector<GraphAnswer> answers;
    for (Run& run : runs_) {
      run.answer.tokens = run.progress.tokens();
      answers.push_back(std::move(run.answer));
    }
    return answers;
  }

 private:
  struct Run {
    GraphProgress progress;
    std::vector<SlotId> rows;
    GraphAnswer answer;
  };
  struct Flight {
    Ticket ticket = 0;
    std::vector<std::pair<std::size_t, GraphProgress::Step>> steps;
    std::shared_ptr<const Batch> batch;
  };

  std::size_t num_cells() const { return device_.description().cells.size(); }

  bool submit() {
    std::vector<std::pair<std::size_t, CellId>> ready;
    for (std::size_t i = 0; i < runs_.size(); ++i)
      for (CellId cell = 0; cell < num_cells(); ++cell)
        if (runs_[i].progress.num_ready(cell) > 0) ready.emplace_back(i, cell);
    if (ready.empty()) return false;
    if (settings_.shuffle) std::shuffle(ready.begin(), ready.end(), random_);
    const CellId cell = ready.front().second;
    auto batch = std::make_shared<Batch>();
    batch->cell = cell;
    Flight flight;
    for (const auto& [index, other] : ready) {
      if (other != cell || (settings_.shuffle && !flight.steps.empty() && random_() % 4 == 0)) continue;
      std::uint32_t count = runs_[index].progress.num_ready(cell);
      if (settings_.shuffle) count = 1 + random_() % count;
      for (std::uint32_t i = 0; i < count; ++i) add(*batch, flight, index);
    }
    flight.ticket = device_.submit(batch);
    flight.batch = batch;
    in_flight_.push_back(std::move(flight));
    return true;
  }

  void add(Batch& batch, Flight& flight, std::size_t index) {
    Run& run = runs_[index];
    const CellGraph& graph = run.progress.graph();
    const GraphProgress::Step step = run.progress.submit(batch.cell);
    SequenceSlice slice;
    slice.sequence = index;
    slice.num_tokens = 1;
    slice.sampling = requests_[index].sampling;
    slice.input_from_slot = step.input_from_slot;
    slice.sample = step.draw.has_value();
    if (step.draw) slice.context_length = requests_[index].num_prompt - 1 + *step.draw;
    slice.first_input = static_cast<std::uint32_t>(batch.input_rows.size());
    const bool has_grown = step.node >= graph.size();
    slice.slot = run.rows[graph.row(has_grown ? graph.size() - 1 : step.node)];
    if (has_grown) batch.input_rows.push_back(slice.slot);
    if (has_grown) {
      for (const auto read : graph.growth()->read) batch.input_rows.push_back(run.rows[graph.row(read)]);
    } else {
      for (const auto input : graph.inputs(step.node)) batch.input_rows.push_back(run.rows[graph.row(input)]);
    }
    slice.num_inputs = static_cast<std::uint32_t>(batch.input_rows.size()) - slice.first_input;
    batch.slices.push_back(slice);
    batch.token_ids.push_back(std::max(step.token, 0));
    flight.steps.emplace_back(index, step);
  }

  void collect() {
    const Flight flight = std::move(in_flight_.front());
    in_flight_.pop_front();
    const BatchResult result = device_.wait_for(flight.ticket);
    const std::size_t size = device_.description().cells[flight.batch->cell].vector_size;
    for (std::size_t i = 0; i < flight.steps.size(); ++i) {
      const auto& [index, step] = flight.steps[i];
      Run& run = runs_[index];
      run.progress.completed(step);
      if (step.draw) run.progress.know(result.tokens.at(i));
      const CellGraph& graph = run.progress.graph();
      if (size == 0 || !graph.node(step.node).is_result) continue;
      run.answer.vectors.resize(graph.num_results() * size);
      std::copy_n(
          result.vectors.begin() + static_cast<std::ptrdiff_t>(i * size), size,
          run.answer.vectors.begin() + static_cast<std::ptrdiff_t>(graph.result_index(step.node) * size));
    }
  }

  DirectDevice device_;
  const std::vector<GraphRequest>& requests_;
  GraphRunSettings settings_;
  std::mt19937 random_;
  std::vector<Run> runs_;
  std::deque<Flight> in_flight_;
};

}  // namespace

std::vector<GraphAnswer> run_graphs(Device& device, ProgramCache& programs,
                                    const std::vector<GraphRequest>& requests,
                                    const GraphRunSettings& settings) {
  return GraphRunner(device, programs, requests, settings).run();
}

}  // namespace troupe
