// SPDX-License-Identifier: Apache-2.0
// Time to the first token of a follow-up whose history is on the host: compute
// starting as layers arrive, against loading whole pages first and computing
// then, in turn. First at memory's speed, then on a link so slow that loading
// takes half as long as, as long as, and twice as long as computing the new
// tokens (random Llama of 100 million parameters). Usage: bench_restore [history tokens] [new tokens]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/models.hpp"
#include "bench/statistics.hpp"
#include "gpu/cpu/cpu_device.hpp"
#include "gpu/direct_device.hpp"
#include "gpu/program/program_cache.hpp"

using namespace troupe;

namespace {

constexpr int kRuns = 7;

// A conversation: its first tokens are history, in full pages.
struct Turn {
  std::uint32_t history = 0;
  std::uint32_t count = 0;

  std::uint32_t num_history_pages() const { return history / kKvPageTokens; }
  std::uint32_t num_pages() const {
    return static_cast<std::uint32_t>((history + count + kKvPageTokens - 1) / kKvPageTokens);
  }
  std::int32_t token(std::uint32_t position) const {
    return static_cast<std::int32_t>(position * 7 % 8191 + 1);
  }
  // Tokens first … end - 1, and what comes after them if these are all.
  Batch batch(std::uint32_t first, std::uint32_t end) const {
    Batch batch;
    SequenceSlice slice;
    slice.num_tokens = end - first;
    slice.context_length = first;
    slice.num_pages = num_pages();
    slice.sample = end == history + count;
    slice.sampling.temperature = 0;
    batch.slices.push_back(slice);
    for (std::uint32_t position = first; position < end; ++position)
      batch.token_ids.push_back(token(position));
    for (PageId page = 0; page < num_pages(); ++page) batch.page_table.push_back(page);
    return batch;
  }
  Batch follow_up() const { return batch(history, history + count); }
  std::vector<PageCopy> copies(bool to_host) const {
    std::vector<PageCopy> copies;
    for (std::uint32_t page = 0; page < num_history_pages(); ++page)
      copies.push_back({.direction = to_host ? PageCopy::kStore : PageCopy::kLoad,
                        .device_page = page,
                        .host_page = page,
                        .generation = page + 1});
    return copies;
  }
};

class TimedDevice {
 public:
  TimedDevice(const std::shared_ptr<const CpuModel>& model, const std::shared_ptr<HostPages>& host_pages,
              const LinkSettings& link)
      : device_(model, {.host_pages = host_pages, .link = link}),
        programs_(model->network, model->compute_type, model->largest) {}

  std::uint32_t max_batch_tokens() const { return device_.description().max_batch_tokens; }

  // Submits all at once. Seconds until the last is done.
  double run(const std::vector<Batch>& batches) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Ticket> tickets;
    for (const Batch& batch : batches)
      tickets.push_back(direct_.submit(std::make_shared<const Batch>(batch)));
    for (const Ticket ticket : tickets) {
      const BatchResult result = direct_.wait_for(ticket);
      if (!result.tokens.empty()) token_ = result.tokens[0];
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    return time.count();
  }
  std::int32_t token() const { return token_; }  // the last that was drawn

 private:
  CpuDevice device_;
  ProgramCache programs_;
  DirectDevice direct_{device_, &programs_};
  std::int32_t token_ = -1;
};

struct Measured {
  std::vector<double> computed, whole_pages, by_layer, ratios;
};

// All three ways in turn, once more than counted: the first run warms up.
Measured measure(TimedDevice& device, const Turn& turn, int runs) {
  Batch loading;
  loading.copies = turn.copies(false);
  Batch both = turn.follow_up();
  both.copies = loading.copies;
  Measured measured;
  for (int run = -1; run < runs; ++run) {
    const double whole_pages = device.run({loading, turn.follow_up()});
    const std::int32_t token = device.token();
    const double by_layer = device.run({both});
    if (device.token() != token) throw std::runtime_error("another token: the KV is not the same");
    const double computed = device.run({turn.follow_up()});
    if (device.token() != token) throw std::runtime_error("another token: the KV is not the same");
    if (run < 0) continue;
    measured.computed.push_back(computed);
    measured.whole_pages.push_back(whole_pages);
    measured.by_layer.push_back(by_layer);
    measured.ratios.push_back(by_layer / whole_pages);
  }
  return measured;
}

std::shared_ptr<const CpuModel> load() {
  CpuModelSettings settings;
  settings.memory_budget_bytes = 3ULL << 30;
  settings.max_pages = 512;
  return load_cpu_model(plan_cpu_model(bench::llama_100m_model(), settings));
}

// Computes the history and leaves it on the host. Seconds that the new tokens
// take when nothing need be loaded.
double prepare(const std::shared_ptr<const CpuModel>& model, const std::shared_ptr<HostPages>& host_pages,
               const Turn& turn) {
  TimedDevice device(model, host_pages, {});
  for (std::uint32_t first = 0; first < turn.history; first += device.max_batch_tokens())
    device.run({turn.batch(first, std::min(first + device.max_batch_tokens(), turn.history))});
  Batch storing;
  storing.copies = turn.copies(true);
  device.run({storing});
  return bench::spread_of(measure(device, turn, 3).computed).median;
}

void report_link(const char* name, const std::shared_ptr<const CpuModel>& model,
                 const std::shared_ptr<HostPages>& host_pages, const Turn& turn, const LinkSettings& link) {
  TimedDevice device(model, host_pages, link);
  const Measured measured = measure(device, turn, kRuns);
  const auto ratio = bench::spread_of(measured.ratios);
  std::printf(
      "  %-44s nothing to load %6.1f ms, whole pages first %6.1f, layer by layer %6.1f: %.2f (%.2f-%.2f)\n",
      name, bench::spread_of(measured.computed).median * 1e3,
      bench::spread_of(measured.whole_pages).median * 1e3, bench::spread_of(measured.by_layer).median * 1e3,
      ratio.median, ratio.minimum, ratio.maximum);
}

void report(const std::shared_ptr<const CpuModel>& model, const std::shared_ptr<HostPages>& host_pages,
            const Turn& turn) {
  const double computing = prepare(model, host_pages, turn);
  const double num_bytes =
      static_cast<double>(turn.num_history_pages()) * static_cast<double>(host_pages->page_bytes());
  std::printf("%u tokens on the host (%.1f MB), %u new ones (%.1f ms alone), %s, median of %d\n",
              turn.history, num_bytes / 1e6, turn.count, computing * 1e3,
              std::string(name_of(model->compute_type)).c_str(), kRuns);
  report_link("as fast as memory", model, host_pages, turn, {});
  for (const double share : {0.5, 1.0, 2.0}) {
    const LinkSettings link{.bytes_per_second = static_cast<std::uint64_t>(num_bytes / (share * computing)),
                            .latency = std::chrono::microseconds(10)};
    char name[64];
    std::snprintf(name, sizeof name, "%.0f MB/s, loading takes %.1f x computing",
                  static_cast<double>(link.bytes_per_second) / 1e6, share);
    report_link(name, model, host_pages, turn, link);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto number = [&](int index, std::uint32_t otherwise) {
    return argc > index ? static_cast<std::uint32_t>(std::strtoul(argv[index], nullptr, 10)) : otherwise;
  };
  const Turn turn{.history = number(1, 1536) / 32 * 32, .count = number(2, 64)};
  const auto model = load();
  const auto longest = model->settings.context_length;
  const auto most = model->largest.max_tokens;
  if (turn.history == 0 || turn.count == 0 || turn.count > most || turn.history + turn.count > longest) {
    std::fprintf(stderr, "expected 32 to %u tokens of history and 1 to %u new ones, %u in all\n", longest - 1,
                 most, longest);
    return 64;
  }
  const auto host_pages =
      std::make_shared<HostPages>(turn.num_history_pages(), model->memory.request.page_bytes);
  report(model, host_pages, turn);
  return 0;
}
